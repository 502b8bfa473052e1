package main

import (
	"github.com/spf13/cobra"

	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/internal/daemon"
)

// daemonCommand runs processes.
type daemonCommand struct {
	configFlags
	roles    config.Role
	recreate bool
}

func newRun() *cobra.Command {
	d := &daemonCommand{roles: config.SourceRole | config.SidecarRole}
	cmd := &cobra.Command{
		Use:   "run -c FILE",
		Short: "Run source and sidecar in one process",
		Long: `Run source and sidecar in one process, with a NATS of its own where bus.url is absent. It runs until it is told to stop
(SIGINT or SIGTERM; a second one ends it at once) and waits for servers that are away. SIGHUP reads the configuration again.`,
	}
	return d.command(cmd)
}

func newSource() *cobra.Command {
	d := &daemonCommand{roles: config.SourceRole}
	cmd := &cobra.Command{
		Use:   "source -c FILE",
		Short: "Publish the changes of Postgres to JetStream, and answer lists",
		Long: `Publish the changes of Postgres to JetStream, and answer lists. Of several sources of one name one publishes, the others
stand by and answer lists.`,
	}
	cmd.Flags().BoolVar(&d.recreate, "recreate", false, "make a stream anew that was deleted; every sidecar lists again")
	return d.command(cmd)
}

func newSidecar() *cobra.Command {
	d := &daemonCommand{roles: config.SidecarRole}
	cmd := &cobra.Command{
		Use:   "sidecar -c FILE",
		Short: "Keep a cache true to Postgres and answer reads over HTTP",
		Long: `Keep a cache true to Postgres and answer reads over HTTP. Rows that an earlier run kept on disk are served at once, with
their age.`,
	}
	return d.command(cmd)
}

func (d *daemonCommand) command(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return d.run(cmd) }
	d.flags(cmd)
	return cmd
}

func (d *daemonCommand) run(cmd *cobra.Command) error {
	cfg, err := d.load(d.roles)
	if err != nil {
		return err
	}
	log, level := daemon.NewLogger(cfg.Log, cmd.ErrOrStderr())
	ctx, stop := daemon.Interrupts{Log: log}.Context(cmd.Context())
	defer stop()
	log.Info("starts", "program", buildInfo().String(), "name", cfg.Name)
	err = daemon.Run(ctx, daemon.Options{
		Config: cfg, Roles: d.roles, Recreate: d.recreate, Program: buildInfo().Version, Commit: buildInfo().Commit, Log: log, Level: level,
		Reload: func() (*config.Config, error) { return d.load(d.roles) },
	})
	if err != nil {
		return err
	}
	log.Info("stopped")
	return nil
}
