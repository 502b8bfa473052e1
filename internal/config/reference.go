package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Reference gives docs/configuration.md: every key with its type, default and variable, out of the types' comments and
// tags. A test holds the file to it.
func Reference() (string, error) {
	all, err := readComments()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(`# Configuration

syncd reads ` + "`syncd.yaml`" + ` (` + "`-c FILE`" + `). A flag (` + "`--set KEY=VALUE`" + `) beats the environment, which beats the file, which beats the defaults.
` + "`syncd config validate -c FILE`" + ` reports every mistake with its line, column and what mends it; ` + "`syncd config schema`" + ` prints the
JSON Schema for editors.

- ` + "`${NAME}`" + ` in a value is the environment variable NAME, which must be set; ` + "`${NAME:-default}`" + ` does without. ` + "`$${`" + ` is the two characters.
- Each key of a single value has an environment variable: ` + "`SYNCD_SOURCE_POSTGRES`" + ` sets ` + "`source.postgres`" + `.
- Each secret can stand in a file: ` + "`token_file`" + ` for ` + "`token`" + `. Secrets are never printed, logged or served.
- Durations are written 500ms, 10m, 24h; sizes 512MiB, 4GiB, 500MB, or in bytes.
`)
	r := reference{all, &b}
	r.group("", "", reflect.ValueOf(Default()).Elem())
	for _, list := range []struct {
		key, note string
		v         any
	}{
		{"source.tables[]", "An entry may be the table's name alone.", &SourceTable{Generated: "omit"}},
		{"sidecar.tables[]", "An entry may be the table's name alone.", &SidecarTable{}},
		{"sidecar.sink.sqlite", "", &SQLiteSink{}},
		{"sidecar.sink.redis", "", &RedisSink{}},
		{"sidecar.sink.postgres", "", &PostgresSink{}},
	} {
		r.group(list.key, list.note, reflect.ValueOf(list.v).Elem())
	}
	return b.String(), nil
}

// markdown keeps a comment's characters what they are in a table.
var markdown = strings.NewReplacer("|", `\|`, "<", "&lt;")

// reference writes the tables of keys.
type reference struct {
	comments comments
	b        *strings.Builder
}

func (r reference) group(path, note string, v reflect.Value) {
	title := path
	if title == "" {
		title = "top level"
	}
	fmt.Fprintf(r.b, "\n## %s\n", title)
	if note != "" {
		fmt.Fprintf(r.b, "%s\n", note)
	}
	r.b.WriteString("\n| key | type | meaning |\n|---|---|---|\n")
	all := members(v)
	for _, m := range all {
		fmt.Fprintf(r.b, "| `%s` | %s | %s |\n", m.key, kind(m), markdown.Replace(r.comments.describe(v, m)))
	}
	for _, m := range all {
		if m.group {
			r.group(join(path, m.key), "", m.value)
		}
	}
}

// kind names the type of a key for people, with what its tags allow.
func kind(m member) string {
	low, high := m.tag.Get("min"), m.tag.Get("max")
	limits := ""
	switch {
	case low != "" && high != "":
		limits = fmt.Sprintf(", %s to %s", low, high)
	case low != "" && m.value.Kind() != reflect.Slice && low != "0" && low != "0s":
		limits = ", at least " + low
	}
	switch m.value.Interface().(type) {
	case Secret:
		return "secret"
	case ServerURL:
		return "URL"
	case time.Duration:
		return "duration" + limits
	case Bytes:
		return "size"
	case Sink:
		return "sink"
	case []Sink:
		return "list of sinks"
	case Stale:
		return "`serve` or `fail: {after: 5m}`"
	case []Index:
		return "list of columns or lists of columns"
	case []SourceTable, []SidecarTable:
		return "list of tables"
	}
	if enum, ok := m.tag.Lookup("enum"); ok {
		return "`" + strings.ReplaceAll(enum, ",", "`, `") + "`"
	}
	switch m.value.Kind() {
	case reflect.Struct:
		return "keys, below"
	case reflect.Slice:
		return "list of texts"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "number" + limits
	case reflect.Int, reflect.Int64:
		return "whole number" + limits
	}
	return "text"
}
