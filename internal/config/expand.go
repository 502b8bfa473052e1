package config

import (
	"fmt"
	"strconv"
	"strings"
)

// expand puts variables in the place of ${NAME} and ${NAME:-default}. $${ stands for ${ itself; a dollar sign before
// anything else is a dollar sign. What a variable holds is not expanded again.
func expand(text string, lookup func(string) (string, bool)) (string, error) {
	var b strings.Builder
	for {
		i := strings.Index(text, "${")
		if i < 0 {
			b.WriteString(text)
			return b.String(), nil
		}
		if i > 0 && text[i-1] == '$' {
			b.WriteString(text[:i-1] + "${")
			text = text[i+2:]
			continue
		}
		b.WriteString(text[:i])
		text = text[i+2:]
		end := strings.IndexByte(text, '}')
		if end < 0 {
			return "", fmt.Errorf("${ has no }; write $${ for the two characters themselves")
		}
		value, err := variable(text[:end], lookup)
		if err != nil {
			return "", err
		}
		b.WriteString(value)
		text = text[end+1:]
	}
}

// variable gives what stands between the braces its value.
func variable(inside string, lookup func(string) (string, bool)) (string, error) {
	name, instead, has := strings.Cut(inside, ":-")
	if !isVariable(name) {
		return "", fmt.Errorf("${%.60s} is neither ${NAME} nor ${NAME:-default}", inside)
	}
	value, ok := lookup(name)
	switch {
	case has && value == "":
		return instead, nil
	case !ok:
		return "", fmt.Errorf("the environment variable %s is not set; set it, or write ${%[1]s:-default}", name)
	}
	return value, nil
}

func isVariable(s string) bool {
	if s == "" || '0' <= s[0] && s[0] <= '9' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_') {
			return false
		}
	}
	return true
}

// variables are the variables that a file used, and what they held. Each may be a secret, also where it stands in a place
// for none.
type variables map[string]string

// watch looks variables up and keeps what they held.
func (u variables) watch(lookup func(string) (string, bool)) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := lookup(name)
		const shortest = 4 // shorter ones would be found in every other word
		if len(value) >= shortest {
			u[name] = value
		}
		return value, ok
	}
}

// hide puts ${NAME} into messages in the place of what the variable held.
func (u variables) hide(problems Problems) {
	for name, value := range u {
		quoted := strconv.Quote(value)
		for i := range problems {
			for _, v := range []string{value, quoted[1 : len(quoted)-1]} {
				problems[i].Message = strings.ReplaceAll(problems[i].Message, v, "${"+name+"}")
			}
		}
	}
}
