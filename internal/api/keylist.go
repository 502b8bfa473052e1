package api

import (
	"errors"
	"fmt"
	"strings"
)

// maxKeys is how many keys, and rows of pages, one request may ask for.
const maxKeys = 10000

// parseKeyList reads in.(1,2) for keys of one column, in.((1,a),(2,b)) for keys of several: the values of each key. A value
// that holds a comma, a parenthesis or a double quote, and the empty one, is written in double quotes, within which a
// backslash takes the next character as it is.
func parseKeyList(s string) ([][]string, error) {
	rest, ok := strings.CutPrefix(s, "in.(")
	if !ok {
		return nil, fmt.Errorf("%q is not a list of keys: want in.(1,2), or in.((1,a),(2,b)) where the key has several columns", s)
	}
	l := keyList{rest: rest}
	var keys [][]string
	for {
		key, err := l.key()
		if err != nil {
			return nil, fmt.Errorf("key %d of the list: %w", len(keys)+1, err)
		}
		if keys = append(keys, key); len(keys) > maxKeys {
			return nil, fmt.Errorf("more than %d keys: ask for them in several requests", maxKeys)
		}
		switch l.next() {
		case ',':
		case ')':
			if l.rest != "" {
				return nil, fmt.Errorf("%q stands behind the list's end", l.rest)
			}
			return keys, nil
		default:
			return nil, fmt.Errorf("key %d of the list: want a comma or the closing parenthesis behind it", len(keys))
		}
	}
}

// keyList is what is still to be read of a list of keys.
type keyList struct{ rest string }

// next takes one byte; 0 at the end.
func (l *keyList) next() byte {
	if l.rest == "" {
		return 0
	}
	c := l.rest[0]
	l.rest = l.rest[1:]
	return c
}

// key reads one value, or several in parentheses.
func (l *keyList) key() ([]string, error) {
	if !strings.HasPrefix(l.rest, "(") {
		v, err := l.value()
		return []string{v}, err
	}
	l.next()
	var values []string
	for {
		v, err := l.value()
		if err != nil {
			return nil, err
		}
		values = append(values, v)
		switch l.next() {
		case ',':
		case ')':
			return values, nil
		default:
			return nil, errors.New("want a comma or the closing parenthesis behind a value")
		}
	}
}

func (l *keyList) value() (string, error) {
	if strings.HasPrefix(l.rest, `"`) {
		return l.quoted()
	}
	end := strings.IndexAny(l.rest, `,()"`)
	if end < 0 {
		end = len(l.rest)
	}
	v := l.rest[:end]
	l.rest = l.rest[end:]
	return v, checkValue(v, v == "")
}

func (l *keyList) quoted() (string, error) {
	l.next()
	var b strings.Builder
	for {
		c := l.next()
		switch {
		case c == '"':
			return b.String(), checkValue(b.String(), false)
		case c == '\\' && l.rest != "":
			c = l.next()
		case c == 0 && l.rest == "":
			return "", errors.New("a double quote is not closed")
		}
		b.WriteByte(c)
	}
}

func checkValue(v string, missing bool) error {
	switch {
	case missing:
		return errors.New(`a value is missing; the empty text is written ""`)
	case strings.IndexByte(v, 0) >= 0:
		return errors.New("no Postgres text holds a NUL byte")
	}
	return nil
}
