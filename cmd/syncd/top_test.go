//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/syncd-io/syncd/internal/harness"
)

// ansi are the control sequences of a terminal.
var ansi = regexp.MustCompile("\x1b\\[[?0-9;]*[a-zA-Z]")

const statusReady = `{"name":"shop","bus":"connected","ready":true,"version":"1-0/16B3748","lag_seconds":0.25,"tables":[
	{"table":"public.users","rows":7,"through":"0/16B3748","verified_age_seconds":61,"ready":true},{"table":"public.logs","error":"no key"}],
	"reports":[{"table":"public.users","mode":"digest","rows":7,"complete":true}]}`

// terminal is a command that runs on a terminal of its own.
type terminal struct {
	t    *testing.T
	tty  *os.File
	seen lockedBuffer
	cmd  *exec.Cmd
	done chan error
}

// onTerminal starts a command on a terminal of 90 columns and 20 lines.
func onTerminal(t *testing.T, args ...string) *terminal {
	t.Helper()
	c := &terminal{t: t, cmd: command(context.Background(), args...), done: make(chan error, 1)}
	c.cmd.Env = append(c.cmd.Environ(), "NO_COLOR=")
	var err error
	if c.tty, err = pty.StartWithSize(c.cmd, &pty.Winsize{Rows: 20, Cols: 90}); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = io.Copy(&c.seen, c.tty) // a terminal whose program has ended gives an error
		c.done <- c.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // it may have ended
		_ = c.tty.Close()
	})
	return c
}

// shows waits until a text was shown.
func (c *terminal) shows(text string) {
	c.t.Helper()
	harness.Eventually(c.t, "the terminal to show "+text, func() error {
		if !strings.Contains(c.seen.String(), text) {
			return errors.New(c.seen.String())
		}
		return nil
	})
}

func TestTop(t *testing.T) {
	t.Parallel()
	f := newFakeSidecar(t, map[string]answerOf{"GET /v1/status": {200, statusReady}})
	for name, end := range map[string]func(*terminal){
		"q":       func(c *terminal) { _, _ = c.tty.WriteString("q") },
		"Ctrl-C":  func(c *terminal) { _, _ = c.tty.WriteString("\x03") },
		"SIGTERM": func(c *terminal) { _ = c.cmd.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			c := onTerminal(t, "top", "--addr", f.URL, "--every", "50ms")
			c.shows("public.users")
			c.shows("\x1b[31mrefused: no key")
			c.shows("digest")
			screens := strings.ReplaceAll(c.seen.String(), "\x1b[H", "\r\n") // each begins at the top
			for line := range strings.SplitSeq(screens, "\r\n") {
				if plain := len(ansi.ReplaceAllString(line, "")); plain > 90 {
					t.Errorf("a line of %d characters on a terminal of 90: %q", plain, line)
				}
			}
			end(c)
			if err := <-c.done; err != nil {
				t.Errorf("it ended with %v", err)
			}
			if !strings.HasSuffix(c.seen.String(), ansiLeave) {
				t.Errorf("the terminal was left as %q", c.seen.String()[max(0, len(c.seen.String())-40):])
			}
		})
	}
}

// TestTopWithoutASidecar: it says so and goes on asking.
func TestTopWithoutASidecar(t *testing.T) {
	t.Parallel()
	c := onTerminal(t, "top", "--addr", "http://127.0.0.1:1", "--every", "50ms")
	c.shows("no sidecar answers")
	_, _ = c.tty.WriteString("q")
	if err := <-c.done; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// TestTopNeedsATerminal: elsewhere it is wrong usage.
func TestTopNeedsATerminal(t *testing.T) {
	f := newFakeSidecar(t, nil)
	f.run(t, "top").want(t, exitUsage, "needs a terminal")
}

// TestStatusWatch prints again and again, and ends well when it is told to.
func TestStatusWatch(t *testing.T) {
	t.Parallel()
	f := newFakeSidecar(t, map[string]answerOf{"GET /v1/status": {200, statusReady}})
	for _, args := range [][]string{{"status", "--watch", "--every", "20ms"}, {"status", "--watch", "--every", "20ms", "--json"}} {
		var out lockedBuffer
		cmd := command(context.Background(), append(args, "--addr", f.URL)...)
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, "it was printed three times", func() error {
			if strings.Count(out.String(), "public.users") < 3 {
				return errors.New(out.String())
			}
			return nil
		})
		if bytes.Contains([]byte(out.String()), []byte("\x1b")) {
			t.Errorf("colours in what is no terminal: %q", out.String())
		}
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%q ended with %v", args, err)
		}
	}
	f.run(t, "status", "--watch", "--every", "0s").want(t, exitUsage, "--every")
}

func TestCut(t *testing.T) {
	for in, want := range map[string]string{
		"short": "short", "longer": "longe\x1b[0m", "\x1b[31mred and long": "\x1b[31mred a\x1b[0m", "ünïcö": "ünïcö", "\x1b[31mred\x1b[0m": "\x1b[31mred\x1b[0m",
	} {
		if got := cut(in, 5); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}
