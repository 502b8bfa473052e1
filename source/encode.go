package source

import (
	"encoding/json"
	"fmt"
)

// TextError says that a value's text does not have the form that its type's output function gives. The text itself is not
// shown: it may be secret.
type TextError struct {
	Type   string // qualified name
	Offset int    // in the text of this value, or of the part that Inside names
	Reason string
	Inside error // the fault lies in an element or a field, whose text was unquoted first
}

// Error names the type and the byte.
func (e *TextError) Error() string {
	if e.Inside != nil {
		return fmt.Sprintf("%s, %s at byte %d: %v", e.Type, e.Reason, e.Offset, e.Inside)
	}
	return fmt.Sprintf("text of type %s is malformed at byte %d: %s", e.Type, e.Offset, e.Reason)
}

// Unwrap gives the error of the part.
func (e *TextError) Unwrap() error { return e.Inside }

func (t *Type) malformed(at int, format string, args ...any) error {
	return &TextError{Type: t.String(), Offset: at, Reason: fmt.Sprintf(format, args...)}
}

// AppendJSON appends to dst what row_to_json prints for a value whose text, as the type's output function gives it in a
// session with syncd's settings, is text. The result is the same to the byte. text must not lie in dst's spare capacity. A
// text that no output function prints is a *TextError, a type that NeedsServer a *ServerOnlyError, and then the result is
// meaningless.
func (t *Type) AppendJSON(dst, text []byte) ([]byte, error) { return t.appendJSON(dst, text, false) }

// appendJSON does AppendJSON's work. A part of an array or of a composite is nested. Its type is the catalog's of today, while
// the text may be older than that, so that it has to be looked at more closely; a column's type comes with the text.
func (t *Type) appendJSON(dst, text []byte, nested bool) ([]byte, error) {
	t = t.root()
	switch t.Category {
	case Quoted:
		return appendString(dst, text), nil
	case Integer:
		if !isInteger(text) {
			return dst, t.malformed(0, "it is not an integer")
		}
		return append(dst, text...), nil
	case Number:
		return t.appendNumber(dst, text)
	case Boolean:
		return t.appendBool(dst, text)
	case Date, Timestamp, TimestampTZ:
		return t.appendTime(dst, text)
	case JSON:
		if len(text) == 0 || nested && !json.Valid(text) {
			return dst, t.malformed(0, "it is not JSON")
		}
		return append(dst, text...), nil
	case Array:
		return t.appendArray(dst, text)
	case Vector:
		return t.appendVector(dst, text)
	case Composite:
		return t.appendComposite(dst, text)
	case Hstore:
		return t.appendHstore(dst, text)
	}
	return dst, &ServerOnlyError{t}
}

func (t *Type) appendBool(dst, text []byte) ([]byte, error) {
	if len(text) == 1 {
		switch text[0] {
		case 't':
			return append(dst, "true"...), nil
		case 'f':
			return append(dst, "false"...), nil
		}
	}
	return dst, t.malformed(0, "it is neither t nor f")
}

func (t *Type) appendNumber(dst, text []byte) ([]byte, error) {
	if end := scanNumber(text); end == len(text) {
		return append(dst, text...), nil
	} else if s := string(text); s != "NaN" && s != "Infinity" && s != "-Infinity" {
		return dst, t.malformed(max(end, 0), "it is not a number")
	}
	dst = append(dst, '"')
	dst = append(dst, text...)
	return append(dst, '"'), nil
}

func isInteger(s []byte) bool {
	i := 0
	if len(s) > 0 && s[0] == '-' {
		i = 1
	}
	return i < len(s) && digits(s, i) == len(s) && (s[i] != '0' || len(s) == i+1)
}

// digits gives the end of the run of decimal digits that begins at i.
func digits(s []byte, i int) int {
	for i < len(s) && s[i]-'0' <= 9 {
		i++
	}
	return i
}

// scanNumber gives the end of the JSON number that s begins with, or -1 where it begins with none.
func scanNumber(s []byte) int {
	i := 0
	if len(s) > 0 && s[0] == '-' {
		i = 1
	}
	end := digits(s, i)
	if end == i || s[i] == '0' && end > i+1 {
		return -1
	}
	if end < len(s) && s[end] == '.' {
		frac := digits(s, end+1)
		if frac == end+1 {
			return end
		}
		end = frac
	}
	if end < len(s) && (s[end] == 'e' || s[end] == 'E') {
		i = end + 1
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		if exp := digits(s, i); exp > i {
			end = exp
		}
	}
	return end
}
