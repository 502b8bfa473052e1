package main

import (
	"io"
	"os"
)

// paint colours words for a terminal; the zero paint leaves them plain.
type paint struct{ colours bool }

// paintFor gives colours where people look on, unless NO_COLOR is set (no-color.org).
func paintFor(w io.Writer) paint {
	return paint{isTerminal(w) && os.Getenv("NO_COLOR") == ""}
}

func (p paint) in(code, text string) string {
	if !p.colours || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (p paint) bold(text string) string { return p.in("1", text) }
func (p paint) good(text string) string { return p.in("32", text) }
func (p paint) warn(text string) string { return p.in("33", text) }
func (p paint) bad(text string) string  { return p.in("31", text) }
