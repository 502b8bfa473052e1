package config

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

//go:embed config.go
var source string

// node is one JSON Schema.
type node = map[string]any

// Schema gives the JSON Schema (draft 2020-12) of syncd.yaml, for editors: keys, types, ranges and defaults from the
// types' tags, descriptions from their comments.
func Schema() ([]byte, error) {
	comments, err := readComments()
	if err != nil {
		return nil, err
	}
	root := comments.object(reflect.ValueOf(Default()).Elem())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "syncd.yaml"
	root["required"] = []string{"name"}
	return json.MarshalIndent(root, "", "  ")
}

// comments are the doc comments of the configuration's types, by type and field.
type comments map[string]map[string]string

func readComments() (comments, error) {
	f, err := parser.ParseFile(token.NewFileSet(), "config.go", source, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("read the comments of the configuration's types: %w", err)
	}
	all := comments{}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, s := range g.Specs {
			t, ok := s.(*ast.TypeSpec)
			if !ok {
				continue
			}
			if st, ok := t.Type.(*ast.StructType); ok {
				all[t.Name.Name] = fieldComments(st)
			}
		}
	}
	return all, nil
}

func fieldComments(st *ast.StructType) map[string]string {
	m := map[string]string{}
	for _, f := range st.Fields.List {
		for _, name := range f.Names {
			m[name.Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
		}
	}
	return m
}

// object is the schema of a struct.
func (c comments) object(v reflect.Value) node {
	properties := node{}
	for _, m := range members(v) {
		n := c.value(m.value, m.tag)
		n["description"] = c.describe(v, m)
		properties[m.key] = n
	}
	return node{"type": "object", "additionalProperties": false, "properties": properties}
}

// describe gives a key's comment for readers of the file: without the field's name in front, and with the keys of the
// other fields that it names.
func (c comments) describe(v reflect.Value, m member) string {
	text := strings.TrimPrefix(c[v.Type().Name()][m.field], m.field+" ")
	for _, verb := range []string{"is ", "are ", "says "} {
		text = strings.TrimPrefix(text, verb)
	}
	for _, other := range members(v) {
		text = regexp.MustCompile(`\b`+other.field+`\b`).ReplaceAllString(text, "`"+other.key+"`")
	}
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// variablePattern matches a text that takes its value from the environment.
const variablePattern = `\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}`

// value is the schema of one value; what v holds is the default.
func (c comments) value(v reflect.Value, tag reflect.StructTag) node {
	switch v.Interface().(type) {
	case Secret, ServerURL:
		return node{"type": "string"}
	case time.Duration:
		n := node{"type": "string", "pattern": `^([0-9.]+(ns|us|µs|ms|s|m|h))+$|^0$|` + variablePattern}
		return withDefault(n, v, time.Duration(v.Int()).String())
	case Bytes:
		n := node{"type": []string{"string", "integer"}, "pattern": `^[0-9.]+ *([kKMGT]i?)?B?$|` + variablePattern, "minimum": 0}
		return withDefault(n, v, Bytes(v.Int()).String())
	case Sink:
		return c.sink()
	case Stale:
		return stale()
	case SourceTable, SidecarTable:
		return orName(c.object(v))
	case Index:
		return orName(node{"type": "array", "items": node{"type": "string"}, "minItems": 1})
	}
	switch v.Kind() {
	case reflect.Struct:
		return c.object(v)
	case reflect.Slice:
		return node{"type": "array", "items": c.value(reflect.New(v.Type().Elem()).Elem(), "")}
	case reflect.String:
		return withDefault(stringNode(tag), v, v.String())
	case reflect.Bool:
		return node{"anyOf": []node{{"type": "boolean"}, {"type": "string", "pattern": variablePattern}}, "default": v.Bool()}
	case reflect.Float64:
		return number("number", tag, v.Float())
	}
	return number("integer", tag, v.Int())
}

func withDefault(n node, v reflect.Value, text string) node {
	if !v.IsZero() {
		n["default"] = text
	}
	return n
}

func stringNode(tag reflect.StructTag) node {
	n := node{"type": "string"}
	if enum, ok := tag.Lookup("enum"); ok {
		n["anyOf"] = []node{{"enum": strings.Split(enum, ",")}, {"pattern": variablePattern}}
	}
	if pattern, ok := tag.Lookup("pattern"); ok {
		n["pattern"] = pattern + "|" + variablePattern
	}
	return n
}

// number is the schema of a number, or of a variable that holds one.
func number(kind string, tag reflect.StructTag, value any) node {
	n := node{"type": kind}
	for from, to := range map[string]string{"min": "minimum", "max": "maximum"} {
		if text, ok := tag.Lookup(from); ok {
			if f, err := strconv.ParseFloat(text, 64); err == nil {
				n[to] = f
			}
		}
	}
	return node{"anyOf": []node{n, {"type": "string", "pattern": variablePattern}}, "default": value}
}

// orName is a thing that may be written as its name alone.
func orName(n node) node { return node{"anyOf": []node{{"type": "string"}, n}} }

// one is a mapping with a single key.
func one(key string, n node) node {
	return node{"type": "object", "additionalProperties": false, "properties": node{key: n}, "required": []string{key}}
}

func (c comments) sink() node {
	return node{"anyOf": []node{
		{"enum": []string{"memory"}},
		one("sqlite", c.object(reflect.ValueOf(&SQLiteSink{}).Elem())),
		one("redis", c.object(reflect.ValueOf(&RedisSink{}).Elem())),
		one("postgres", c.object(reflect.ValueOf(&PostgresSink{}).Elem())),
	}}
}

func stale() node {
	return node{"anyOf": []node{{"enum": []string{"serve"}}, one("fail", one("after", node{"type": "string"}))}}
}
