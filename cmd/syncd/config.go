package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/syncd-io/syncd/internal/config"
)

// configFlags say what a command's configuration is made of.
type configFlags struct {
	file string
	set  []string
}

func (c *configFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&c.file, "config", "c", "", "the configuration file, syncd.yaml")
	cmd.Flags().StringArrayVar(&c.set, "set", nil, "set one key over file and environment, KEY=VALUE such as log.level=debug; may be repeated")
	must(cmd.MarkFlagFilename("config", "yaml", "yml"))
	must(cmd.RegisterFlagCompletionFunc("set", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		keys := config.Keys()
		for i := range keys {
			keys[i] += "="
		}
		return keys, cobra.ShellCompDirectiveNoSpace
	}))
}

// must is for what fails only where this program is wrong.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// load reads the configuration for what is to run; 0 takes what it has the keys for. It can be called again.
func (c *configFlags) load(r config.Role) (*config.Config, error) {
	if c.file == "" {
		return nil, usage(errors.New("the configuration is missing: -c FILE"))
	}
	s := config.Sources{File: c.file, Env: os.LookupEnv}
	for _, kv := range c.set {
		key, value, ok := strings.Cut(kv, "=")
		if !ok {
			return nil, usage(fmt.Errorf("--set %q: want KEY=VALUE, such as log.level=debug", kv))
		}
		s.Flags = append(s.Flags, config.Flag{Name: "--set", Key: key, Value: value})
	}
	cfg, err := config.Load(s, r)
	if err != nil {
		return nil, usage(err)
	}
	return cfg, nil
}

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Check a configuration, or print its schema", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return usage(errors.New("config: validate or schema is to be given"))
		},
	}
	cmd.AddCommand(newValidate(), newSchema())
	return cmd
}

func newValidate() *cobra.Command {
	var c configFlags
	cmd := &cobra.Command{
		Use:   "validate -c FILE",
		Short: "Print every mistake of a configuration with its line and column",
		Long:  "Print every mistake of a configuration with its line and column. Nothing is connected to; syncd check does that.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := c.load(0)
			if problems, ok := errors.AsType[config.Problems](err); ok {
				fmt.Fprintln(cmd.ErrOrStderr(), problems)
				return &exitError{status: exitUsage}
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: ok\n", c.file)
			return nil
		},
	}
	c.flags(cmd)
	return cmd
}

func newSchema() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of the configuration, for editors", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := config.Schema()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", bytes.TrimSpace(b))
			return err
		},
	}
}
