package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/syncd-io/syncd/internal/harness"
)

// reexec, set in the environment, makes the test binary be syncd.
const reexec = "SYNCD_TEST_REEXEC"

func TestMain(m *testing.M) {
	if os.Getenv(reexec) == "1" {
		main()
		return
	}
	harness.Main(m)
}

// command gives the command line of syncd in a process of its own.
func command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), reexec+"=1")
	return cmd
}

// outcome is how a command line ended.
type outcome struct {
	status    int
	out, errs string
}

// invoke runs a command line in a process of its own.
func invoke(t *testing.T, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := command(ctx, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return outcome{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// want checks a status, and that the output holds each of says: on stderr where the status is not 0.
func (o outcome) want(t *testing.T, status int, says ...string) {
	t.Helper()
	if o.status != status {
		t.Fatalf("exit status %d, want %d\nstdout: %s\nstderr: %s", o.status, status, o.out, o.errs)
	}
	for _, s := range says {
		if !strings.Contains(o.out+o.errs, s) {
			t.Errorf("the output lacks %q\nstdout: %s\nstderr: %s", s, o.out, o.errs)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "no command is given"},
		{[]string{"bogus"}, `unknown command "bogus"`},
		{[]string{"get"}, "accepts 2 arg(s)"},
		{[]string{"get", "public.users", "1", "2"}, "syncd get --help"},
		{[]string{"get", "users", "1"}, "schema.table"},
		{[]string{"get", "public.users", "1,"}, "value 2 is missing"},
		{[]string{"get", "public.users", "%zz"}, "percent-encode"},
		{[]string{"get", "public.users", "1", "--bogus"}, "unknown flag: --bogus"},
		{[]string{"get", "public.users", "1", "--addr", "ftp://x"}, "--addr"},
		{[]string{"get", "public.users", "1", "--addr", "http://"}, "--addr"},
		{[]string{"get", "public.users", "1", "--token-file", "/no/such/file"}, "--token-file"},
		{[]string{"get", "public.users", "1", "--ca", "/no/such/file"}, "--ca"},
		{[]string{"list", "public.users", "--limit", "-1"}, "--limit"},
		{[]string{"list", "public.users", "--limit", "ten"}, "--limit"},
		{[]string{"resync", "--mode", "quick"}, "digest or full"},
		{[]string{"resync", "users"}, "schema.table"},
		{[]string{"diff", "--mode", "full"}, "unknown flag"},
		{[]string{"status", "now"}, "unknown command"},
		{[]string{"completion", "tcsh"}, "invalid argument"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			o := invoke(t, c.args...)
			o.want(t, exitUsage, c.says)
			if n := strings.Count(strings.TrimSpace(o.errs), "\n"); n != 0 {
				t.Errorf("the error is of %d lines: %s", n+1, o.errs)
			}
		})
	}
}

func TestNobodyAnswers(t *testing.T) {
	for _, args := range [][]string{
		{"get", "public.users", "1"}, {"list", "public.users"}, {"status"}, {"resync"}, {"resync", "public.users"}, {"diff"}, {"diff", "public.users"},
	} {
		invoke(t, append(args, "--addr", "127.0.0.1:1")...).want(t, exitUnreachable, "no sidecar answers at http://127.0.0.1:1", "is it running?")
		invoke(t, append(args, "--addr", "unix:/no/such/socket")...).want(t, exitUnreachable, "unix:/no/such/socket")
	}
}

func TestVersionAndCompletion(t *testing.T) {
	invoke(t, "version").want(t, 0, "syncd ", "go1.")
	invoke(t, "version", "--json").want(t, 0, `"version":"`, `"commit":"`)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		invoke(t, "completion", shell).want(t, 0, "syncd")
	}
	invoke(t, "help").want(t, 0, "Available Commands")
	invoke(t, "get", "--help").want(t, 0, "percent-encoded")
}
