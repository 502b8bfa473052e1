package source

// appendComposite turns the text that record_out prints into a JSON object. A field that is NULL has no text at all; one
// with an empty text is "". Within quotes, quotes and backslashes are doubled.
func (t *Type) appendComposite(dst, text []byte) ([]byte, error) {
	if len(text) < 2 || text[0] != '(' {
		return dst, t.malformed(0, "the opening parenthesis is missing")
	}
	dst = append(dst, '{')
	pos := 1
	for i := range t.Fields {
		f := &t.Fields[i]
		if i > 0 {
			if pos == len(text) || text[pos] != ',' {
				return dst, t.malformed(pos, "field %q (%d of %d) is missing", f.Name, i+1, len(t.Fields))
			}
			pos++
			dst = append(dst, ',')
		}
		dst = append(dst, f.prefix...)
		var err error
		if dst, pos, err = t.field(dst, text, pos, f); err != nil {
			return dst, err
		}
	}
	switch {
	case pos < len(text) && text[pos] == ',':
		return dst, t.malformed(pos, "there are more fields than the %d of the type", len(t.Fields))
	case pos != len(text)-1 || text[pos] != ')':
		return dst, t.malformed(pos, "the closing parenthesis is missing or not the end")
	}
	return append(dst, '}'), nil
}

// field appends the value of the field that begins at pos, and gives where it ends.
func (t *Type) field(dst, text []byte, pos int, f *Field) ([]byte, int, error) {
	at := pos
	if pos < len(text) && text[pos] == '"' {
		return t.quotedField(dst, text, pos, f)
	}
	for pos < len(text) && text[pos] != ',' && text[pos] != ')' {
		if c := text[pos]; c == '"' || c == '\\' || c == '(' {
			return dst, pos, t.malformed(pos, "%q stands outside of quotes", c)
		}
		pos++
	}
	if pos == at {
		return append(dst, "null"...), pos, nil
	}
	dst, err := t.part(dst, text[at:pos], at, f.Type, f)
	return dst, pos, err
}

func (t *Type) quotedField(dst, text []byte, pos int, f *Field) ([]byte, int, error) {
	at, mark := pos, len(dst)
	for pos++; ; pos++ {
		n := pos
		for pos < len(text) && text[pos] != '"' && text[pos] != '\\' {
			pos++
		}
		dst = append(dst, text[n:pos]...)
		if pos == len(text) {
			return dst, pos, t.malformed(at, "the closing quote is missing")
		}
		if pos+1 < len(text) && text[pos+1] == text[pos] {
			dst = append(dst, text[pos])
			pos++
			continue
		}
		if text[pos] == '\\' {
			return dst, pos, t.malformed(pos, "a backslash is not doubled")
		}
		dst, err := t.unquoted(dst, mark, at, f.Type, f)
		return dst, pos + 1, err
	}
}
