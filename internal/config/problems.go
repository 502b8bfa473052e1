package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// origin is where a value was set.
type origin struct {
	layer  layer
	name   string // the file, the environment variable or the flag
	line   int    // in the file, from 1; 0: not known
	column int
}

// layer is what beats what: the higher one.
type layer uint8

const (
	byDefault layer = iota
	byFile
	byEnvironment
	byFlag
)

// String gives the place as messages begin with it.
func (o origin) String() string {
	switch {
	case o.layer == byFile && o.line > 0:
		return fmt.Sprintf("%s line %d, column %d", o.name, o.line, o.column)
	case o.layer == byEnvironment:
		return "environment variable " + o.name
	}
	return o.name
}

// Problem is one mistake in the configuration.
type Problem struct {
	// Key is the dotted path of the value, such as source.tables[1].columns; empty where the file as a whole is meant.
	Key string
	// Message says what is wrong and what mends it. It holds no secret.
	Message string

	origin origin
}

// String gives "FILE line L, column C: …" for a mistake in a file.
func (p Problem) String() string {
	var b strings.Builder
	if place := p.origin.String(); place != "" {
		b.WriteString(place + ": ")
	}
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Problems are all mistakes of one configuration.
type Problems []Problem

// Error gives one line for each mistake.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, q := range p {
		lines[i] = q.String()
	}
	return strings.Join(lines, "\n")
}

// err gives the mistakes in the order of the file, and nil where there are none.
func (p Problems) err() error {
	if len(p) == 0 {
		return nil
	}
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.origin.layer, b.origin.layer), cmp.Compare(a.origin.line, b.origin.line), cmp.Compare(a.origin.column, b.origin.column))
	})
	return p
}

// has says whether a mistake with the key, or with one below it, is known.
func (p Problems) has(key string) bool {
	return slices.ContainsFunc(p, func(q Problem) bool {
		return q.Key == key || strings.HasPrefix(q.Key, key+".") || strings.HasPrefix(q.Key, key+"[")
	})
}
