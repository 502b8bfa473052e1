package source

// appendHstore turns the text that hstore_out prints into what hstore_to_json prints, pair by pair in the same order. Both
// escape quotes and backslashes with a backslash; JSON escapes control characters too.
func (t *Type) appendHstore(dst, text []byte) ([]byte, error) {
	dst = append(dst, '{')
	for pos := 0; pos < len(text); {
		var err error
		if pos > 0 {
			if pos, err = t.literal(text, pos, ", "); err != nil {
				return dst, err
			}
			dst = append(dst, ", "...)
		}
		if dst, pos, err = t.hstoreString(dst, text, pos); err != nil {
			return dst, err
		}
		if pos, err = t.literal(text, pos, "=>"); err != nil {
			return dst, err
		}
		dst = append(dst, ": "...)
		if pos < len(text) && text[pos] == 'N' {
			if pos, err = t.literal(text, pos, "NULL"); err != nil {
				return dst, err
			}
			dst = append(dst, "null"...)
			continue
		}
		if dst, pos, err = t.hstoreString(dst, text, pos); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

func (t *Type) literal(text []byte, pos int, want string) (int, error) {
	if len(text)-pos < len(want) || string(text[pos:pos+len(want)]) != want {
		return pos, t.malformed(pos, "%q is missing", want)
	}
	return pos + len(want), nil
}

func (t *Type) hstoreString(dst, text []byte, pos int) ([]byte, int, error) {
	at := pos
	pos, err := t.literal(text, pos, `"`)
	if err != nil {
		return dst, pos, err
	}
	dst = append(dst, '"')
	for pos < len(text) {
		n := plain(text[pos:])
		dst = append(dst, text[pos:pos+n]...)
		if pos += n; pos == len(text) {
			break
		}
		switch c := text[pos]; c {
		case '"':
			return append(dst, '"'), pos + 1, nil
		case '\\':
			if pos++; pos == len(text) || text[pos] != '"' && text[pos] != '\\' {
				return dst, pos, t.malformed(pos-1, "a backslash escapes neither a quote nor a backslash")
			}
			dst = append(dst, '\\', text[pos])
		default:
			dst = appendEscaped(dst, c)
		}
		pos++
	}
	return dst, pos, t.malformed(at, "the closing quote is missing")
}
