package api

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"
)

// node is a part of a JSON document.
type node = map[string]any

// schemaOf gives the JSON Schema of what encoding/json writes for a type.
func schemaOf(t reflect.Type) node {
	switch t {
	case reflect.TypeFor[time.Time]():
		return node{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.RawMessage]():
		return node{}
	}
	switch t.Kind() {
	case reflect.Bool:
		return node{"type": "boolean"}
	case reflect.String:
		return node{"type": "string"}
	case reflect.Float32, reflect.Float64:
		return node{"type": "number"}
	case reflect.Slice:
		return node{"type": []string{"array", "null"}, "items": schemaOf(t.Elem())}
	case reflect.Map:
		return node{"type": []string{"object", "null"}, "additionalProperties": schemaOf(t.Elem())}
	case reflect.Pointer:
		return node{"anyOf": []node{schemaOf(t.Elem()), {"type": "null"}}}
	case reflect.Struct:
		return schemaOfStruct(t)
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Uint, reflect.Uint64, reflect.Uint32, reflect.Uint16:
		return node{"type": "integer"}
	}
	panic("no schema for the type " + t.String())
}

func schemaOfStruct(t reflect.Type) node {
	properties, required := node{}, []string{}
	for f := range fields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		s := schemaOf(f.Type)
		if strings.Contains(options, "string") {
			s = node{"type": "string"}
		}
		properties[name] = s
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	return node{"type": "object", "properties": properties, "required": required}
}

// fields gives the exported fields of a struct, those of embedded ones in their place.
func fields(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for _, f := range reflect.VisibleFields(t) {
			if !f.Anonymous && f.IsExported() && !yield(f) {
				return
			}
		}
	}
}
