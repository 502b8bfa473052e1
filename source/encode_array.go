package source

import "fmt"

// maxDims is Postgres's MAXDIM: an array has no more dimensions.
const maxDims = 6

// arrayText walks over the text that array_out prints: perhaps bounds such as [0:1][2:2]=, then braces within braces, each
// level with the same number of members.
type arrayText struct {
	t     *Type
	text  []byte
	pos   int
	depth int // open braces
	leaf  int // the depth at which elements lie; 0 while none was met
	count [maxDims]int
	width [maxDims]int // members at each level once a first brace of it was closed
	bound [maxDims]int // members at each level as the bounds say
	dims  int          // levels that the bounds name
}

func (t *Type) appendArray(dst, text []byte) ([]byte, error) {
	a := arrayText{t: t, text: text}
	if err := a.bounds(); err != nil {
		return dst, err
	}
	if a.dims == 0 && string(text) == "{}" {
		return append(dst, "[]"...), nil
	}
	delim := t.Elem.Delim
	for {
		var err error
		for a.pos < len(text) && text[a.pos] == '{' {
			if err := a.open(); err != nil {
				return dst, err
			}
			dst = append(dst, '[')
		}
		if dst, err = a.element(dst, delim); err != nil {
			return dst, err
		}
		for a.pos < len(text) && text[a.pos] == '}' {
			if err := a.close(); err != nil {
				return dst, err
			}
			dst = append(dst, ']')
			if a.depth == 0 {
				return dst, a.end()
			}
		}
		if a.pos == len(text) || text[a.pos] != delim {
			return dst, t.malformed(a.pos, "a delimiter or a brace is missing")
		}
		a.pos++
		dst = append(dst, ',')
	}
}

func (a *arrayText) bounds() error {
	for a.pos < len(a.text) && a.text[a.pos] == '[' {
		at := a.pos
		low, ok := a.number('[')
		if !ok || a.dims == maxDims {
			return a.t.malformed(at, "the bounds are not those of an array")
		}
		high, ok := a.number(':')
		if !ok || high < low || a.pos == len(a.text) || a.text[a.pos] != ']' {
			return a.t.malformed(at, "the bounds are not those of an array")
		}
		a.pos++
		a.bound[a.dims] = high - low + 1
		a.dims++
	}
	if a.dims > 0 {
		if a.pos == len(a.text) || a.text[a.pos] != '=' {
			return a.t.malformed(a.pos, "the = behind the bounds is missing")
		}
		a.pos++
	}
	if a.pos == len(a.text) || a.text[a.pos] != '{' {
		return a.t.malformed(a.pos, "the opening brace is missing")
	}
	return nil
}

// number reads the byte before and then an integer of at most ten digits.
func (a *arrayText) number(before byte) (n int, ok bool) {
	if a.pos == len(a.text) || a.text[a.pos] != before {
		return 0, false
	}
	a.pos++
	sign := 1
	if a.pos < len(a.text) && a.text[a.pos] == '-' {
		sign = -1
		a.pos++
	}
	end := digits(a.text, a.pos)
	if end == a.pos || end > a.pos+10 {
		return 0, false
	}
	for ; a.pos < end; a.pos++ {
		n = n*10 + int(a.text[a.pos]-'0')
	}
	return sign * n, true
}

func (a *arrayText) open() error {
	if a.depth == maxDims || a.leaf != 0 && a.depth >= a.leaf {
		return a.t.malformed(a.pos, "a brace opens deeper than the elements lie")
	}
	a.count[a.depth] = 0
	a.depth++
	a.pos++
	return nil
}

func (a *arrayText) close() error {
	level := a.depth - 1
	switch {
	case a.width[level] == 0:
		a.width[level] = a.count[level]
	case a.width[level] != a.count[level]:
		return a.t.malformed(a.pos, "a part of the array has %d members, the one before has %d", a.count[level], a.width[level])
	}
	a.depth--
	a.pos++
	if a.depth > 0 {
		a.count[a.depth-1]++
	}
	return nil
}

// end checks what is known only when the last brace is closed.
func (a *arrayText) end() error {
	if a.pos != len(a.text) {
		return a.t.malformed(a.pos, "it goes on behind its end")
	}
	if a.dims > 0 && (a.dims != a.leaf || a.bound != a.width) {
		return a.t.malformed(0, "the bounds do not fit the elements")
	}
	return nil
}

// element appends one element as JSON.
func (a *arrayText) element(dst []byte, delim byte) ([]byte, error) {
	if a.leaf == 0 {
		a.leaf = a.depth
	} else if a.leaf != a.depth {
		return dst, a.t.malformed(a.pos, "an element lies less deep than the others")
	}
	a.count[a.depth-1]++
	at := a.pos
	if at < len(a.text) && a.text[at] == '"' {
		return a.quoted(dst)
	}
	for a.pos < len(a.text) && a.text[a.pos] != delim && a.text[a.pos] != '}' {
		if c := a.text[a.pos]; c == '"' || c == '\\' || c == '{' {
			return dst, a.t.malformed(a.pos, "%q stands outside of quotes", c)
		}
		a.pos++
	}
	word := a.text[at:a.pos]
	switch {
	case len(word) == 0:
		return dst, a.t.malformed(at, "an element is missing")
	case string(word) == "NULL":
		return append(dst, "null"...), nil
	}
	return a.t.part(dst, word, at, a.t.Elem, nil)
}

func (a *arrayText) quoted(dst []byte) ([]byte, error) {
	at := a.pos
	a.pos++
	start, escapes := a.pos, 0
	for ; a.pos < len(a.text) && a.text[a.pos] != '"'; a.pos++ {
		if a.text[a.pos] == '\\' {
			escapes++
			a.pos++
		}
	}
	if a.pos >= len(a.text) {
		return dst, a.t.malformed(at, "the closing quote is missing")
	}
	word := a.text[start:a.pos]
	a.pos++
	if escapes == 0 {
		return a.t.part(dst, word, at, a.t.Elem, nil)
	}
	mark := len(dst)
	for i := 0; i < len(word); i++ {
		if word[i] == '\\' {
			i++
		}
		dst = append(dst, word[i])
	}
	return a.t.unquoted(dst, mark, at, a.t.Elem, nil)
}

// part appends a value that lies within one of type t, at byte at: the field f, or an element where f is nil.
func (t *Type) part(dst, text []byte, at int, of *Type, f *Field) ([]byte, error) {
	dst, err := of.appendJSON(dst, text, true)
	if err == nil {
		return dst, nil
	}
	what := "an element"
	if f != nil {
		what = fmt.Sprintf("field %q", f.Name)
	}
	return dst, &TextError{Type: t.String(), Offset: at, Reason: what, Inside: err}
}

// unquoted does part's work where the text had to be unquoted first and now lies in dst from mark on, in whose place the JSON
// goes. (So no other memory is needed, however deep the nesting.)
func (t *Type) unquoted(dst []byte, mark, at int, of *Type, f *Field) ([]byte, error) {
	start := len(dst)
	dst, err := t.part(dst, dst[mark:start], at, of, f)
	if err != nil {
		return dst, err
	}
	n := copy(dst[mark:], dst[start:])
	return dst[:mark+n], nil
}

// appendVector appends an int2vector or oidvector, whose text is its elements with spaces between.
func (t *Type) appendVector(dst, text []byte) ([]byte, error) {
	dst = append(dst, '[')
	for i := 0; i < len(text); {
		if i > 0 {
			if text[i] != ' ' {
				return dst, t.malformed(i, "a space is missing")
			}
			i++
			dst = append(dst, ',')
		}
		end := i
		if end < len(text) && text[end] == '-' {
			end++
		}
		end = digits(text, end)
		if !isInteger(text[i:end]) {
			return dst, t.malformed(i, "it is not an integer")
		}
		var err error
		if dst, err = t.part(dst, text[i:end], i, t.Elem, nil); err != nil {
			return dst, err
		}
		i = end
	}
	return append(dst, ']'), nil
}
