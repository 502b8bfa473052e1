package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/resync"
)

// openTerminal opens a pseudo-terminal: what a program writes to tty is read from screen.
func openTerminal(t *testing.T) (screen, tty *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { screen.Close() })
	var number uint32
	var locked int32
	for request, arg := range map[uintptr]unsafe.Pointer{syscall.TIOCGPTN: unsafe.Pointer(&number), syscall.TIOCSPTLCK: unsafe.Pointer(&locked)} {
		if _, _, no := syscall.Syscall(syscall.SYS_IOCTL, screen.Fd(), request, uintptr(arg)); no != 0 {
			t.Fatal(no)
		}
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return screen, tty
}

// TestBarOnATerminal: where stderr is a terminal, resync and diff show there how far they are, and clear it at the end; what
// they print is as it is without one.
func TestBarOnATerminal(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"resync", "--json", "public.users"}, {"diff", "--json", "public.users"}} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			seen := make(chan struct{})
			mux := http.NewServeMux()
			mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, `{"running":[{"table":"public.users","mode":"full","rows":1200,"expected":4000}]}`)
			})
			compare := func(w http.ResponseWriter, r *http.Request) {
				select {
				case <-seen:
				case <-r.Context().Done():
				}
				fmt.Fprint(w, reportText(t, resync.Report{Table: "public.users", Mode: "full", Rows: 4000, Complete: true}))
			}
			mux.HandleFunc("POST /v1/tables/public.users/resync", compare)
			mux.HandleFunc("GET /v1/tables/public.users/diff", compare)
			server := httptest.NewServer(mux)
			t.Cleanup(server.Close)

			screen, tty := openTerminal(t)
			shown := &lockedBuffer{}
			closed := make(chan struct{})
			go func() {
				defer close(closed)
				b := make([]byte, 4096)
				for {
					n, err := screen.Read(b)
					shown.Write(b[:n])
					if err != nil {
						return // EIO: nobody has the terminal open any more
					}
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := command(ctx, append(args, "--addr", server.URL)...)
			cmd.Env = append(cmd.Env, "TERM=xterm")
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, tty
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			tty.Close()
			harness.Eventually(t, "the bar to show", func() error {
				if s := shown.String(); !strings.Contains(s, "public.users") || !strings.Contains(s, "1200/4000") {
					return errors.New(s)
				}
				return nil
			})
			close(seen)
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
			<-closed
			var rep resync.Report
			if err := json.Unmarshal(out.Bytes(), &rep); err != nil || rep.Rows != 4000 {
				t.Errorf("stdout is %q: %v", out.String(), err)
			}
			// The bar's line is cleared: what follows its last state is blank.
			if s := shown.String(); strings.TrimSpace(s[strings.LastIndexByte(strings.TrimRight(s, "\r\n"), '\r')+1:]) != "" {
				t.Errorf("the terminal is left with %q", s)
			}
		})
	}
}
