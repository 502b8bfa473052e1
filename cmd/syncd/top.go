package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// top shows the status live, on the whole terminal.
type top struct {
	statusCommand
	out    *os.File
	size   func() (width, height int)
	screen bytes.Buffer // the next picture
}

func newTop() *cobra.Command {
	t := &top{statusCommand: statusCommand{every: time.Second}}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show what runs, how fresh it is and how true, live; q or Ctrl-C ends",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := t.open(); err != nil {
				return err
			}
			defer t.close()
			out, tty := cmd.OutOrStdout().(*os.File)
			if !tty || !isTerminal(out) {
				return usage(errors.New("top needs a terminal; syncd status --watch prints to anything"))
			}
			t.out = out
			t.size = func() (int, int) {
				width, height, err := term.GetSize(int(out.Fd()))
				if err != nil {
					return 80, 24
				}
				return width, height
			}
			return t.run(cmd)
		},
	}
	t.flags(cmd)
	cmd.Flags().DurationVar(&t.every, "every", t.every, "how often it asks")
	return cmd
}

// The control sequences of a terminal.
const (
	ansiEnter = "\x1b[?1049h\x1b[?25l"        // another screen, without a cursor
	ansiLeave = "\x1b[0m\x1b[?25h\x1b[?1049l" // back
	ansiHome  = "\x1b[H"
	ansiLine  = "\x1b[K" // nothing behind this
	ansiRest  = "\x1b[J" // nothing below this
)

// run shows the status until q, Ctrl-C or a signal, and leaves the terminal as it was.
func (t *top) run(cmd *cobra.Command) error {
	if t.every <= 0 {
		return usage(fmt.Errorf("--every %s: want more than nothing, such as 1s", t.every))
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if in, ok := cmd.InOrStdin().(*os.File); ok && isTerminal(in) {
		old, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return fmt.Errorf("take the keyboard: %w", err)
		}
		defer term.Restore(int(in.Fd()), old)
		go func() { // ends with the program: a read of a terminal can't be called off
			readKeys(in)
			stop()
		}()
	}
	if _, err := io.WriteString(t.out, ansiEnter); err != nil {
		return err
	}
	defer io.WriteString(t.out, ansiLeave)
	tick := time.NewTicker(t.every)
	defer tick.Stop()
	for {
		if err := t.draw(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// readKeys returns once q or Ctrl-C was pressed, or nothing can be pressed any more.
func readKeys(in io.Reader) {
	b := make([]byte, 16)
	for {
		n, err := in.Read(b)
		if err != nil || bytes.ContainsAny(b[:n], "qQ\x03") {
			return
		}
	}
}

// draw shows one picture, cut to the terminal.
func (t *top) draw(ctx context.Context) error {
	t.screen.Reset()
	p := paint{os.Getenv("NO_COLOR") == ""}
	fmt.Fprintf(&t.screen, "%s  %s  %s\n\n", p.bold("syncd top"), time.Now().Format("15:04:05"), "q ends")
	st, _, err := t.ask(ctx)
	var exit *exitError
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.As(err, &exit) && exit.status == exitUsage:
		return err
	case err != nil:
		fmt.Fprintf(&t.screen, "%s\n", p.bad(err.Error()))
	default:
		printStatus(&t.screen, st, p)
		if len(st.Reports) > 0 {
			fmt.Fprintln(&t.screen)
			w := newReportWriter(&t.screen, false)
			for _, r := range st.Reports {
				w.write(r)
			}
			w.flush()
		}
	}
	width, height := t.size()
	lines := strings.Split(strings.TrimRight(t.screen.String(), "\n"), "\n")
	var b strings.Builder
	b.WriteString(ansiHome)
	for i, line := range lines[:min(len(lines), max(height-1, 1))] {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(cut(line, width) + ansiLine)
	}
	b.WriteString(ansiRest)
	_, err = io.WriteString(t.out, b.String())
	return err
}

// cut gives the first width characters of a line; colours take no room.
func cut(line string, width int) string {
	shown, escape := 0, false
	for i, r := range line {
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = r != 'm'
		case shown == width:
			return line[:i] + "\x1b[0m"
		default:
			shown++
		}
	}
	return line
}
