package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/explain"
	"github.com/syncd-io/syncd/resync"
)

// operation describes one endpoint for clients and those who generate them. Its parameters are the very lists that the
// handlers check a query against.
type operation struct {
	endpoint endpoint
	id       string
	summary  string
	params   []string
	columns  bool   // the other parameters are filters by column
	body     string // the schema of the request's body; empty: it has none
	answer   string // the schema of the answer
	media    string // its media type; empty: JSON
	read     bool   // the answer says how fresh it is
	etag     bool
	statuses []int // beside 200
}

// everywhere are the statuses that any path may answer, but for the probes', which ask for no token.
var everywhere = []int{http.StatusUnauthorized, http.StatusMisdirectedRequest}

var operations = []operation{
	{endpoint: tables, id: "listTables", summary: "What there is to read.", answer: "Tables", statuses: []int{400, 503}},
	{endpoint: row, id: "getRow", summary: "One row, the very bytes of row_to_json.", params: rowParams, answer: "Row", read: true, etag: true,
		statuses: []int{304, 400, 404, 503, 504}},
	{endpoint: rows, id: "listRows", summary: "A page of rows, or with key= the rows under these keys; all of one commit.", params: rowsParams, columns: true, answer: "Rows",
		read: true, etag: true, statuses: []int{304, 400, 404, 503, 504}},
	{endpoint: readSeveral, id: "read", summary: "Keys and pages of several tables, all of one commit.", params: rowParams, body: "Reads", answer: "Results",
		read: true, statuses: []int{400, 403, 404, 413, 415, 503, 504}},
	{endpoint: watchTable, id: "watchTable", summary: "The changes of a table as they come, as events upsert, delete, bookmark and reset.", params: watchParams, columns: true,
		media: "text/event-stream", read: true, statuses: []int{400, 404, 410, 501, 503, 504}},
	{endpoint: resyncTable, id: "resyncTable", summary: "Lists the table now, repairs what differs, and answers with the report.", params: resyncParams, answer: "Report",
		statuses: []int{400, 403, 404, 409, 429, 502, 503}},
	{endpoint: diffTable, id: "diffTable", summary: "Compares the table with Postgres and repairs nothing.", answer: "Report", statuses: []int{400, 404, 409, 429, 502, 503}},
	{endpoint: explainKey, id: "explainKey", summary: "Why the cache holds what it holds under a key.", answer: "Explanation", statuses: []int{400, 404, 501, 503}},
	{endpoint: status, id: "getStatus", summary: "What runs, how fresh and how true.", answer: "Status", statuses: []int{400, 503}},
	{endpoint: healthz, id: "getHealth", summary: "200 while the process works.", answer: "Health", statuses: []int{400, 503}},
	{endpoint: readyz, id: "getReady", summary: "200 once every table was listed and the cache has reached the end that the stream had at the start.", answer: "Health",
		statuses: []int{400, 503}},
	{endpoint: metrics, id: "getMetrics", summary: "Metrics in Prometheus' form.", media: "text/plain", statuses: []int{400, 500, 503}},
	{endpoint: openAPI, id: "getOpenAPI", summary: "This document.", answer: "Document", etag: true, statuses: []int{304, 400, 503}},
	{endpoint: statusPage, id: "getPage", summary: "The status page, for people.", media: "text/html", statuses: []int{400, 503}},
}

// all gives every status that an operation may answer.
func (o *operation) all() []int {
	out := append([]int{http.StatusOK}, o.statuses...)
	switch o.endpoint {
	case healthz, readyz:
	case statusPage: // holds no data, and asks for the token itself
		out = append(out, http.StatusMisdirectedRequest)
	default:
		out = append(out, everywhere...)
	}
	return out
}

// schemas are the forms of bodies, by name. Those of Go types are read from the types.
func schemas() node {
	list := func(of any) node { return node{"type": "array", "items": of} }
	texts := func(note string) node { return node{"type": "string", "description": note} }
	object := func(required []string, properties node) node {
		return node{"type": "object", "required": required, "properties": properties}
	}
	values := node{"type": "array", "items": node{"type": []string{"string", "number", "boolean"}}, "minItems": 1}
	next := texts("where to go on; absent at the end")
	version := texts("<epoch>-<lsn>: through which commit everything is in")
	missing := node{"type": "array", "items": list(node{"type": "string"}), "description": "the keys that have no row"}
	return node{
		"Error":  object([]string{"error"}, node{"error": texts("what is wrong and what to do")}),
		"Health": object([]string{"status"}, node{"status": node{"const": "ok"}}),
		"Row":    node{"type": "object", "description": "the published columns by name"},
		"Rows": object([]string{"version", "items"}, node{"version": version, "items": list(ref("Row")), "continue": next,
			"missing": missing}),
		"Reads": object([]string{"reads"}, node{"reads": node{"type": "array", "minItems": 1, "maxItems": maxReads, "items": node{
			"type": "object", "required": []string{"table"}, "additionalProperties": false, "properties": readProperties(values)}}}),
		"Results": object([]string{"version", "results"}, node{"version": version, "results": list(object([]string{"table", "items"},
			node{"table": node{"type": "string"}, "items": list(ref("Row")), "continue": next, "missing": missing}))}),
		"Tables":      list(schemaOf(reflect.TypeFor[Table]())),
		"Status":      schemaOf(reflect.TypeFor[Status]()),
		"Report":      schemaOf(reflect.TypeFor[resync.Report]()),
		"Explanation": schemaOf(reflect.TypeFor[explain.Explanation]()),
		"Document":    node{"type": "object", "required": []string{"openapi"}},
	}
}

// readProperties describe what one read of POST /v1/read may hold.
func readProperties(values node) node {
	return node{
		"table": node{"type": "string", "description": "as SQL writes it, schema.table"},
		"keys":  node{"type": "array", "items": values, "description": "each key's values, in key order; absent: a page"},
		"filter": node{"type": "object", "description": "a condition, or several, by column; not beside keys",
			"additionalProperties": node{"type": []string{"string", "array"}, "items": node{"type": "string"}}},
		"select":   node{"type": "string", "description": "the columns wanted, joined by commas"},
		"limit":    node{"type": "integer", "minimum": 1},
		"continue": node{"type": "string"},
	}
}

// parameters describe the query parameters, by name.
var parameters = map[string]node{
	"min_version":   {"schema": node{"type": "string"}, "description": "a Postgres LSN or an earlier answer's version: wait until the cache is there", "example": "0/16B3748"},
	"timeout":       {"schema": node{"type": "string", "default": defaultTimeout.String()}, "description": "how long that may take, a Go duration of at most 5m", "example": "500ms"},
	"max_age":       {"schema": node{"type": "string"}, "description": "503 rather than an answer older than this Go duration", "example": "30s"},
	"select":        {"schema": node{"type": "string"}, "description": "the columns wanted, in the order wanted, joined by commas", "example": "id,name"},
	"since":         {"schema": node{"type": "string"}, "description": "an event's id, or an earlier answer's version: what came since is sent; 410 where that is not known any more"},
	"list":          {"schema": node{"type": "boolean"}, "description": "begin with the rows, as upserts up to the first bookmark"},
	"limit":         {"schema": node{"type": "integer", "minimum": 1, "default": defaultLimit}, "description": fmt.Sprintf("rows at most; more than %d is cut to it", maxLimit)},
	"continue":      {"schema": node{"type": "string"}, "description": "what the page before answered as continue"},
	"key":           {"schema": node{"type": "string"}, "description": "in.(1,2), or in.((1,a),(2,b)) where the key has several columns; goes with neither limit nor continue", "example": "in.(7,42)"},
	"mode":          {"schema": node{"type": "string", "enum": []string{"digest", "full"}}, "description": "how to compare; default as configured"},
	"approve_prune": {"schema": node{"type": "boolean"}, "description": "let it delete more rows than max_prune allows"},
}

// document is the OpenAPI document, made once.
var document = sync.OnceValue(func() []byte {
	b, err := json.Marshal(describe())
	if err != nil {
		panic("the OpenAPI document: " + err.Error())
	}
	return append(b, '\n')
})

// describe makes the OpenAPI document.
func describe() node {
	params := node{
		"TABLE": node{"name": "TABLE", "in": "path", "required": true, "schema": node{"type": "string"}, "example": "public.users",
			"description": "as SQL writes it, schema.table, each part quoted where SQL needs it"},
		"KEY": node{"name": "KEY", "in": "path", "required": true, "schema": node{"type": "string"}, "example": "42",
			"description": `the key's values in key order, each percent-encoded, joined by commas; the empty text is %22%22, "." %2E, ".." %2E%2E`},
	}
	for name, p := range parameters {
		p["name"], p["in"] = name, "query"
		params[name] = p
	}
	all := node{}
	for i := range operations {
		o := &operations[i]
		all[o.path()] = node{strings.ToLower(o.method()): o.describe()}
	}
	return node{
		"openapi": "3.1.0",
		"info": node{"title": "syncd sidecar", "version": "1",
			"description": "Reads of a cache that is kept true to one Postgres. Every error is {\"error\": …} and says what to do."},
		"paths":    all,
		"security": []node{{}, {"token": []string{}}},
		"components": node{
			"parameters": params,
			"schemas":    schemas(),
			"headers": node{
				"Syncd-Version":      node{"schema": node{"type": "string"}, "description": "<epoch>-<lsn>: through which commit everything is in"},
				"Syncd-Age":          node{"schema": node{"type": "number"}, "description": "seconds since the cache was known to be fresh"},
				"Syncd-Verified-Age": node{"schema": node{"type": "number"}, "description": "seconds since it was last proved equal to Postgres; absent where it never was"},
				"ETag":               node{"schema": node{"type": "string"}},
				"Retry-After":        node{"schema": node{"type": "integer"}, "description": "seconds, where asking again may help"},
			},
			"securitySchemes": node{"token": node{"type": "http", "scheme": "bearer"}},
		},
	}
}

func (o *operation) path() string { return paths[o.endpoint] }

// method gives the first of the methods that the endpoint takes; GET goes with HEAD.
func (o *operation) method() string {
	first, _, _ := strings.Cut(methods[o.endpoint], ",")
	return first
}

func (o *operation) describe() node {
	var params []node
	for _, name := range []string{"TABLE", "KEY"} {
		if strings.Contains(o.path(), "{"+name+"}") {
			params = append(params, node{"$ref": "#/components/parameters/" + name})
		}
	}
	for _, name := range o.params {
		params = append(params, node{"$ref": "#/components/parameters/" + name})
	}
	if o.columns {
		params = append(params, node{"name": "filter", "in": "query", "style": "form", "explode": true, "example": node{"status": "eq.active"},
			"schema":      node{"type": "object", "additionalProperties": node{"type": "string"}},
			"description": "conditions by column, as PostgREST writes them: " + syncd.FilterOperators + ", each also behind not."})
	}
	out := node{"operationId": o.id, "summary": o.summary, "responses": o.responses()}
	if params != nil {
		out["parameters"] = params
	}
	if o.body != "" {
		out["requestBody"] = node{"required": true, "content": node{"application/json": node{"schema": ref(o.body)}}}
	}
	return out
}

func (o *operation) responses() node {
	out := node{"default": failed("What went wrong.")}
	for _, s := range o.all() {
		if s != http.StatusOK && s != http.StatusNotModified {
			out[strconv.Itoa(s)] = failed(http.StatusText(s) + ".")
		}
	}
	content := node{}
	switch {
	case o.media != "":
		content[o.media] = node{"schema": node{"type": "string"}}
	default:
		content["application/json"] = node{"schema": ref(o.answer)}
	}
	headers := node{}
	if o.read {
		for _, name := range []string{"Syncd-Version", "Syncd-Age", "Syncd-Verified-Age"} {
			headers[name] = node{"$ref": "#/components/headers/" + name}
		}
	}
	if o.etag {
		headers["ETag"] = node{"$ref": "#/components/headers/ETag"}
		out["304"] = node{"description": "The client has it.", "headers": headers}
	}
	out["200"] = node{"description": o.summary, "content": content, "headers": headers}
	return out
}

func failed(why string) node {
	return node{"description": why, "content": node{"application/json": node{"schema": ref("Error")}},
		"headers": node{"Retry-After": node{"$ref": "#/components/headers/Retry-After"}}}
}

func ref(schema string) node { return node{"$ref": "#/components/schemas/" + schema} }

// documentTag is the document's entity tag.
var documentTag = sync.OnceValue(func() string { return string(appendETag(nil, syncd.RowDigest("", document()))) })

func (a *API) getOpenAPI(w http.ResponseWriter, r *http.Request) error {
	if err := noParams(r); err != nil {
		return err
	}
	writeTagged(w, r, documentTag(), document())
	return nil
}
