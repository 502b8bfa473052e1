package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// isTerminal says whether a person looks at what is written.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// count prints a number.
func count[T int | int64 | uint64](n T) string { return fmt.Sprint(n) }

// columns prints lines of cells, each column as wide as its widest cell. A heading that ends in ">" is of numbers, set to
// the right.
type columns struct {
	out   io.Writer
	right []bool
	lines [][]string
}

func newColumns(out io.Writer, headings ...string) *columns {
	c := &columns{out: out, right: make([]bool, len(headings))}
	for i, h := range headings {
		headings[i], c.right[i] = strings.CutSuffix(h, ">")
	}
	c.lines = append(c.lines, headings)
	return c
}

func (c *columns) row(cells ...string) { c.lines = append(c.lines, cells) }

func (c *columns) flush() {
	width := make([]int, len(c.right))
	for _, line := range c.lines {
		for i, cell := range line {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, line := range c.lines {
		var b strings.Builder
		for i, cell := range line {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if i > 0 {
				b.WriteString("  ")
			}
			if c.right[i] {
				b.WriteString(pad + cell)
			} else {
				b.WriteString(cell + pad)
			}
		}
		fmt.Fprintln(c.out, strings.TrimRight(b.String(), " "))
	}
}
