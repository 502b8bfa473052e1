// Command syncd keeps caches true to one Postgres. `syncd help` lists what it does.
//
// Exit statuses: 0 done; 1 the answer is no (different, not found, a check failed, an error while running); 2 wrong usage
// or configuration; 3 a server can't be reached.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	os.Exit(execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// The exit statuses that users and scripts rely on.
const (
	exitNo          = 1
	exitUsage       = 2
	exitUnreachable = 3
	exitInterrupted = 130 // as shells give it for a process that SIGINT ended
)

// exitError is an error that ends the program with a status of its own.
type exitError struct {
	status int
	err    error // nil: what is to be said was said
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usage(err error) error       { return &exitError{exitUsage, err} }
func unreachable(err error) error { return &exitError{exitUnreachable, err} }
func no(err error) error          { return &exitError{exitNo, err} }

// errAnswerNo ends the program with status 1 and no further words.
var errAnswerNo = no(nil)

// execute runs one command line and gives its exit status.
func execute(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	began := false
	root := newRoot(&began)
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	exit, ok := errors.AsType[*exitError](err)
	switch {
	case ok:
	case began:
		exit = &exitError{exitNo, err}
	default: // cobra refused the command line
		exit = &exitError{exitUsage, fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	}
	if exit.err != nil {
		fmt.Fprintf(errs, "syncd: %v\n", exit.err)
	}
	return exit.status
}

// newRoot makes the tree of commands. began is set once cobra has accepted the command line.
func newRoot(began *bool) *cobra.Command {
	root := &cobra.Command{
		Use:           "syncd",
		Short:         "Keep caches true to one Postgres",
		Long:          "syncd pushes the changes of a Postgres to the caches of many services, lists it again to repair what the push lost,\nand says how fresh and how true each cache is.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return usage(errors.New("no command is given"))
		},
		PersistentPreRun: func(*cobra.Command, []string) { *began = true },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(
		newGet(), newList(), newWatch(), newStatus(), newTop(), newFleet(), newResync(), newDiff(), newExplain(),
		newDemo(), newRun(), newSource(), newSidecar(), newCheck(), newTeardown(), newConfig(), newVersion(), newCompletion(), newProbe(), newMan(),
	)
	return root
}
