package config

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/syncd-io/syncd"
)

// maxFile bounds a configuration file.
const maxFile = 256 << 10

// binder puts what a file says into a Config, and notes every mistake with its place.
type binder struct {
	config   *Config
	file     string
	lookup   func(string) (string, bool)
	anchors  map[string]ast.Node
	meant    map[string]bool // keys that a misspelt one probably means: not to be called missing as well
	problems Problems
	broken   bool // the file can't be read at all, so nothing can be said of what is in it
}

// textSetter is a value that is read from a text.
type textSetter interface{ setText(string) error }

// nodeSetter is a value that has forms of its own in the file.
type nodeSetter interface {
	setNode(b *binder, path string, n ast.Node)
}

// read binds a whole file.
func (b *binder) read(text []byte) {
	if len(text) > maxFile {
		b.broken = true
		b.complain("", nil, fmt.Sprintf("the file has %d bytes, more than %d", len(text), maxFile))
		return
	}
	f, err := parse(text)
	if err != nil {
		b.broken = true
		b.syntax(err)
		return
	}
	var body ast.Node
	for _, d := range f.Docs {
		if d == nil || d.Body == nil {
			continue
		}
		if body != nil {
			b.broken = true
			b.complain("", d.Body, "the file holds more than one document")
			return
		}
		body = d.Body
	}
	if body != nil {
		b.anchor(body)
		b.bind("", body, reflect.ValueOf(b.config).Elem())
	}
}

// parse calls the parser, and turns its panics on odd input into errors.
func parse(text []byte) (f *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the parser gave up: %v", r)
		}
	}()
	tokens := lexer.Tokenize(string(text))
	if t := tooDeep(tokens); t != nil {
		return nil, &yaml.SyntaxError{Message: "nested too deep", Token: t}
	}
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// tooDeep gives the token at which values are nested deeper than any configuration is. The parser keeps each value's
// whole path, so its memory grows with the square of the depth.
func tooDeep(tokens token.Tokens) *token.Token {
	const deepest = 50
	flow, inLine, line := 0, 0, 0
	for _, t := range tokens {
		if t.Position != nil && t.Position.Line != line {
			line, inLine = t.Position.Line, 0
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			inLine++
		}
		if flow > deepest || inLine > deepest {
			return t
		}
	}
	return nil
}

// syntax notes the parser's error, at its place where it has one.
func (b *binder) syntax(err error) {
	o := origin{layer: byFile, name: b.file}
	message := err.Error()
	var e yaml.Error
	if errors.As(err, &e) {
		message = e.GetMessage()
		if t := e.GetToken(); t != nil && t.Position != nil {
			o.line, o.column = t.Position.Line, t.Position.Column
		}
	}
	b.problems = append(b.problems, Problem{Message: "not valid YAML: " + message, origin: o})
}

// anchor collects the anchors, so that aliases find them.
func (b *binder) anchor(n ast.Node) {
	b.anchors = map[string]ast.Node{}
	ast.Walk(anchorVisitor(b.anchors), n)
}

type anchorVisitor map[string]ast.Node

// Visit implements ast.Visitor.
func (v anchorVisitor) Visit(n ast.Node) ast.Visitor {
	if a, ok := n.(*ast.AnchorNode); ok && a.Name != nil {
		v[a.Name.GetToken().Value] = a.Value
	}
	return v
}

// complain notes a mistake at a node.
func (b *binder) complain(path string, n ast.Node, message string) {
	b.problems = append(b.problems, Problem{Key: path, Message: message, origin: b.at(n)})
}

func (b *binder) at(n ast.Node) origin {
	o := origin{layer: byFile, name: b.file}
	if n == nil {
		return o
	}
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		n = m.Values[0].Key // the token of a block mapping is its first colon
	}
	if v, ok := n.(*ast.MappingValueNode); ok {
		n = v.Key
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		o.line, o.column = t.Position.Line, t.Position.Column
	}
	return o
}

// resolve follows anchors and aliases to what is meant. It gives nil where that is nothing.
func (b *binder) resolve(path string, n ast.Node) ast.Node {
	const most = 8
	for range most {
		switch v := n.(type) {
		case nil, *ast.NullNode:
			return nil
		case *ast.AnchorNode:
			n = v.Value
		case *ast.AliasNode:
			name := v.Value.GetToken().Value
			target, ok := b.anchors[name]
			if !ok {
				b.complain(path, v, fmt.Sprintf("there is no anchor &%s", name))
				return nil
			}
			n = target
		case *ast.TagNode:
			b.complain(path, v, "tags are not used here")
			return nil
		default:
			return n
		}
	}
	b.complain(path, n, "the aliases go round in a circle")
	return nil
}

// bind puts a node into a value of the Config.
func (b *binder) bind(path string, n ast.Node, v reflect.Value) {
	at := n
	if n = b.resolve(path, n); n == nil {
		return
	}
	if path != "" {
		b.config.origins[path] = b.at(at)
	}
	switch s := v.Addr().Interface().(type) {
	case nodeSetter:
		s.setNode(b, path, n)
		return
	case textSetter:
		b.scalar(path, n, v)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		b.mapping(path, n, v)
	case reflect.Slice:
		b.sequence(path, n, v)
	default:
		b.scalar(path, n, v)
	}
}

// entries gives the keys and values of a mapping, in order.
func (b *binder) entries(path string, n ast.Node, want string) (entries []*ast.MappingValueNode, ok bool) {
	switch m := n.(type) {
	case *ast.MappingNode:
		return m.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{m}, true
	}
	b.complain(path, n, "want "+want+", have "+describe(n))
	return nil, false
}

// mapping binds the keys of a struct.
func (b *binder) mapping(path string, n ast.Node, v reflect.Value) {
	entries, ok := b.entries(path, n, "keys with values")
	if !ok {
		return
	}
	seen := map[string]bool{}
	for _, e := range entries {
		name := keyName(e.Key)
		if name == "<<" {
			b.complain(path, e.Key, "merge keys (<<) are not used here; write the keys out")
			continue
		}
		child := join(path, name)
		if seen[name] {
			b.complain(child, e.Key, "the key stands here twice")
			continue
		}
		seen[name] = true
		f, ok := field(v, name)
		if !ok {
			b.unknown(path, e.Key, keys(v))
			continue
		}
		b.bind(child, e.Value, f)
	}
}

func keyName(k ast.MapKeyNode) string {
	if s, ok := k.(*ast.StringNode); ok {
		return s.Value
	}
	if k == nil || k.GetToken() == nil {
		return ""
	}
	return k.GetToken().Value
}

// unknown notes a key that is not known, and which was probably meant.
func (b *binder) unknown(path string, k ast.MapKeyNode, known []string) {
	name := keyName(k)
	say := fmt.Sprintf("unknown key %.60q; ", name)
	if near := syncd.Nearest(name, known); near != "" {
		b.meant[join(path, near)] = true
		b.complain(path, k, say+fmt.Sprintf("did you mean %s?", near))
		return
	}
	for leaf := range leaves(reflect.ValueOf(Default()).Elem()) {
		if strings.HasSuffix(leaf, "."+name) {
			b.complain(path, k, say+fmt.Sprintf("did you mean %s?", leaf))
			return
		}
	}
	b.complain(path, k, say+"known here: "+strings.Join(known, ", "))
}

// sequence binds a list.
func (b *binder) sequence(path string, n ast.Node, v reflect.Value) {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		b.complain(path, n, "want a list, have "+describe(n))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(list.Values), len(list.Values)))
	for i, e := range list.Values {
		child := fmt.Sprintf("%s[%d]", path, i)
		if b.resolve(child, e) == nil {
			if !b.problems.has(child) {
				b.complain(child, e, "is empty")
			}
			continue
		}
		b.bind(child, e, v.Index(i))
	}
}

// scalar binds a single value.
func (b *binder) scalar(path string, n ast.Node, v reflect.Value) {
	text, form := scalarText(n)
	if form == notScalar {
		b.complain(path, n, fmt.Sprintf("want %s, have %s", wanted(v), describe(n)))
		return
	}
	expanded, err := expand(text, b.lookup)
	if err != nil {
		b.complain(path, n, err.Error())
		return
	}
	// What a variable stands for is of the type that is wanted; what is written out must be of it.
	if expanded == text && !fits(form, v) {
		say := fmt.Sprintf("want %s, have %s", wanted(v), describe(n))
		if v.Kind() == reflect.String {
			say += "; quote it"
		}
		b.complain(path, n, say)
		return
	}
	if err := setText(v, expanded); err != nil {
		b.complain(path, n, err.Error())
	}
}

// form is how a scalar is written.
type form uint8

const (
	notScalar form = iota
	textForm
	numberForm
	boolForm
)

// scalarText gives a scalar as it is written.
func scalarText(n ast.Node) (string, form) {
	switch s := n.(type) {
	case *ast.StringNode:
		return s.Value, textForm
	case *ast.LiteralNode:
		if s.Value == nil {
			return "", textForm
		}
		return s.Value.Value, textForm
	case *ast.IntegerNode, *ast.FloatNode:
		return n.GetToken().Value, numberForm
	case *ast.BoolNode:
		return n.GetToken().Value, boolForm
	case *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, textForm
	}
	return "", notScalar
}

// fits says whether a scalar of some form may stand for a value. A number's digits may stand for a text.
func fits(f form, v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Bool:
		return f == boolForm
	case reflect.Int, reflect.Int64, reflect.Float64:
		if isDuration(v) || v.Type() == reflect.TypeFor[Bytes]() {
			return f != boolForm
		}
		return f == numberForm
	}
	return f != boolForm
}

func isDuration(v reflect.Value) bool { return v.Type() == reflect.TypeFor[time.Duration]() }

// wanted names the type of a value, for messages.
func wanted(v reflect.Value) string {
	switch {
	case isDuration(v):
		return "a duration such as 10m"
	case v.Type() == reflect.TypeFor[Bytes]():
		return "a size such as 4GiB"
	case v.Type() == reflect.TypeFor[Sink]():
		return wantSink
	case v.Type() == reflect.TypeFor[Stale]():
		return wantStale
	}
	switch v.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	}
	return "a text"
}

// describe names what stands in the file. It holds no values: they may be secrets.
func describe(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "keys with values"
	case *ast.SequenceNode:
		return "a list"
	}
	switch _, f := scalarText(n); f {
	case numberForm:
		return "a number"
	case boolForm:
		return "true or false"
	case textForm:
		return "a text"
	}
	return "something else"
}

// setText puts a text into a single value.
func setText(v reflect.Value, text string) error {
	if s, ok := v.Addr().Interface().(textSetter); ok {
		return s.setText(text)
	}
	switch {
	case isDuration(v):
		d, err := parseDuration(text)
		v.SetInt(int64(d))
		return err
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Bool:
		t, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		v.SetBool(t)
	case v.Kind() == reflect.Float64:
		f, err := parseFloat(text)
		v.SetFloat(f)
		return err
	default:
		i, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v.OverflowInt(i) {
			return fmt.Errorf("%q is not a whole number", text)
		}
		v.SetInt(i)
	}
	return nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// member is one key of a struct.
type member struct {
	key   string
	field string // the name in Go
	tag   reflect.StructTag
	value reflect.Value
	group bool // it has keys of its own
}

// members gives the keys of a struct.
func members(v reflect.Value) []member {
	var all []member
	for i := range v.NumField() {
		name, tag := v.Type().Field(i).Name, v.Type().Field(i).Tag
		key := tag.Get("yaml")
		if key == "" {
			continue
		}
		f := v.Field(i)
		_, single := f.Addr().Interface().(textSetter)
		all = append(all, member{key, name, tag, f, f.Kind() == reflect.Struct && !single})
	}
	return all
}

// field gives a struct's field by its key.
func field(v reflect.Value, key string) (reflect.Value, bool) {
	for _, m := range members(v) {
		if m.key == key {
			return m.value, true
		}
	}
	return reflect.Value{}, false
}

// keys gives a struct's keys.
func keys(v reflect.Value) []string {
	var names []string
	for _, m := range members(v) {
		names = append(names, m.key)
	}
	return names
}

// leaves gives the single values of a struct and those below it, by their dotted keys. Lists are not among them.
func leaves(v reflect.Value) iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) { eachLeaf("", v, yield) }
}

func eachLeaf(path string, v reflect.Value, yield func(string, reflect.Value) bool) bool {
	for _, m := range members(v) {
		switch {
		case m.group:
			if !eachLeaf(join(path, m.key), m.value, yield) {
				return false
			}
		case m.value.Kind() != reflect.Slice:
			if !yield(join(path, m.key), m.value) {
				return false
			}
		}
	}
	return true
}

// setNode reads a table: its name alone, or its keys.
func (t *SourceTable) setNode(b *binder, path string, n ast.Node) {
	if _, f := scalarText(n); f != notScalar {
		b.scalar(path, n, reflect.ValueOf(&t.Table).Elem())
		return
	}
	b.mapping(path, n, reflect.ValueOf(t).Elem())
}

// setNode reads a table: its name alone, or its keys.
func (t *SidecarTable) setNode(b *binder, path string, n ast.Node) {
	if _, f := scalarText(n); f != notScalar {
		b.scalar(path, n, reflect.ValueOf(&t.Table).Elem())
		return
	}
	b.mapping(path, n, reflect.ValueOf(t).Elem())
}

// setNode reads an index: one column's name, or a list of them.
func (x *Index) setNode(b *binder, path string, n ast.Node) {
	if _, f := scalarText(n); f != notScalar {
		*x = Index{""}
		b.scalar(path, n, reflect.ValueOf(&(*x)[0]).Elem())
		return
	}
	b.sequence(path, n, reflect.ValueOf((*[]string)(x)).Elem())
}

// setNode reads a sink: its kind alone, or its kind with keys.
func (s *Sink) setNode(b *binder, path string, n ast.Node) {
	if _, f := scalarText(n); f != notScalar {
		b.scalar(path, n, reflect.ValueOf(s).Elem())
		return
	}
	e, ok := b.only(path, n, wantSink)
	if !ok {
		return
	}
	var target reflect.Value
	switch kind := keyName(e.Key); kind {
	case "sqlite":
		s.SQLite = new(SQLiteSink)
		target = reflect.ValueOf(s.SQLite)
	case "redis":
		s.Redis = new(RedisSink)
		target = reflect.ValueOf(s.Redis)
	case "postgres":
		s.Postgres = new(PostgresSink)
		target = reflect.ValueOf(s.Postgres)
	default:
		b.unknown(path, e.Key, []string{"sqlite", "redis", "postgres"})
		return
	}
	s.Kind = keyName(e.Key)
	b.bind(join(path, s.Kind), e.Value, target.Elem())
}

// only gives the one entry of a mapping that must have one.
func (b *binder) only(path string, n ast.Node, want string) (*ast.MappingValueNode, bool) {
	entries, ok := b.entries(path, n, want)
	if !ok {
		return nil, false
	}
	if len(entries) != 1 {
		b.complain(path, n, fmt.Sprintf("want %s, have %d keys", want, len(entries)))
		return nil, false
	}
	return entries[0], true
}

// setNode reads serve, or fail with its bound.
func (s *Stale) setNode(b *binder, path string, n ast.Node) {
	if _, f := scalarText(n); f != notScalar {
		b.scalar(path, n, reflect.ValueOf(s).Elem())
		return
	}
	e, ok := b.only(path, n, wantStale)
	if !ok {
		return
	}
	if keyName(e.Key) != "fail" {
		b.unknown(path, e.Key, []string{"fail"})
		return
	}
	var fail struct {
		After time.Duration `yaml:"after"`
	}
	b.bind(join(path, "fail"), e.Value, reflect.ValueOf(&fail).Elem())
	*s = Stale{Fail: true, After: fail.After}
}
