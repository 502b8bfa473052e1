package syncd

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// parseCondition reads what stands behind a column's "=": [not.]operator.value.
func parseCondition(k kind, typ, text string) (condition, error) {
	c := condition{text: text}
	if err := checkOperator(text); err != nil {
		return c, err
	}
	rest, not := strings.CutPrefix(text, "not.")
	op, value, _ := strings.Cut(rest, ".")
	c.not = not
	switch op {
	case "eq":
		c.op = opEq
	case "neq":
		c.op, c.not = opEq, !not
	case "gt":
		c.op = opGt
	case "gte":
		c.op = opGte
	case "lt":
		c.op = opLt
	case "lte":
		c.op = opLte
	case "in":
		return c, c.parseIn(k, typ, value)
	case "is":
		return c, c.parseIs(k, typ, value)
	}
	if c.op != opEq && k == plainKind {
		return c, fmt.Errorf("values of type %s are compared as text and have no order here: use eq, neq, in or is", typ)
	}
	var err error
	c.one, err = k.operand(typ, value)
	return c, err
}

// checkOperator says whether a condition begins with an operator that there is.
func checkOperator(text string) error {
	op, _, ok := strings.Cut(strings.TrimPrefix(text, "not."), ".")
	if !ok {
		return fmt.Errorf("the operator is missing: write OPERATOR.VALUE, such as eq.%s; there are %s, and not. before each", text, FilterOperators)
	}
	if !slices.Contains(strings.Split(FilterOperators, ", "), op) {
		return fmt.Errorf("there is no operator %q here: there are %s, and not. before each", op, FilterOperators)
	}
	return nil
}

func (c *condition) parseIs(k kind, typ, value string) error {
	switch strings.ToLower(value) {
	case "null":
		c.op = opNull
		return nil
	case "not_null":
		c.op, c.not = opNull, !c.not
		return nil
	case "true", "false":
		if k != boolKind {
			return fmt.Errorf("is.%s is for columns of type boolean, and this one is %s: use eq", value, typ)
		}
		b, err := k.operand(typ, value)
		c.op, c.one = opIs, b
		return err
	case "unknown":
		if k != boolKind {
			return fmt.Errorf("is.unknown is for columns of type boolean, and this one is %s: use is.null", typ)
		}
		c.op = opNull
		return nil
	}
	return fmt.Errorf("is takes null, not_null, true, false or unknown, not %q", value)
}

// parseIn reads a list: (a,b,"c, d"). Within double quotes a backslash takes the next character as it is.
func (c *condition) parseIn(k kind, typ, value string) error {
	c.op = opIn
	texts, err := parseList(value)
	if err != nil {
		return err
	}
	for _, text := range texts {
		v, err := k.operand(typ, text)
		if err != nil {
			return err
		}
		c.all = append(c.all, v)
	}
	slices.SortFunc(c.all, bytes.Compare)
	c.all = slices.CompactFunc(c.all, bytes.Equal)
	return nil
}

var errList = errors.New(`a list is written in parentheses, parted by commas: in.(a,b,"c, d"), with \" and \\ within quotes`)

func parseList(s string) ([]string, error) {
	s, open := strings.CutPrefix(s, "(")
	s, closed := strings.CutSuffix(s, ")")
	if !open || !closed {
		return nil, errList
	}
	var all []string
	for s != "" || len(all) > 0 {
		var item string
		if quoted, ok := strings.CutPrefix(s, `"`); ok {
			var err error
			if item, s, err = parseQuoted(quoted); err != nil {
				return nil, err
			}
		} else {
			i := strings.IndexByte(s, ',')
			if i < 0 {
				i = len(s)
			}
			item, s = s[:i], s[i:]
			if strings.ContainsAny(item, `"()`) {
				return nil, fmt.Errorf("%q has to stand in double quotes; %w", item, errList)
			}
		}
		all = append(all, item)
		if s == "" {
			return all, nil
		}
		if s[0] != ',' {
			return nil, fmt.Errorf("a comma is missing behind %q; %w", item, errList)
		}
		s = s[1:]
	}
	return all, nil
}

// parseQuoted reads up to the closing quote and gives what is behind it.
func parseQuoted(s string) (item, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], nil
		case '\\':
			i++
			if i == len(s) {
				return "", "", errList
			}
		}
		b.WriteByte(s[i])
	}
	return "", "", fmt.Errorf("a double quote is not closed; %w", errList)
}
