package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newMan makes the command that packages are built with. The pages carry no date, so that a build gives the same again.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use: "man DIRECTORY", Short: "Write the man pages into a directory", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("make the directory of the man pages: %w", err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			date := time.Unix(0, 0).UTC()
			header := &doc.GenManHeader{Title: "SYNCD", Section: "1", Source: "syncd " + buildInfo().Version, Manual: "syncd", Date: &date}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("write the man pages into %s: %w", args[0], err)
			}
			return nil
		},
	}
}
