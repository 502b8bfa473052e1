package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/syncd-io/syncd/bus"
	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/source"
)

// Precondition is one thing that a process needs, as syncd check prints it.
type Precondition struct {
	Part   string `json:"part"` // postgres, nats, disk or sink
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"` // what was found, or what is wrong
	// Mend is what mends it: the statement, the setting. Where OK is true it is advice.
	Mend string `json:"mend,omitempty"`
	// Unreachable says that the server could not be asked.
	Unreachable bool `json:"unreachable,omitempty"`
}

// Check looks at everything that a configuration needs of its servers and of this machine, and changes nothing.
func Check(ctx context.Context, c *config.Config) ([]Precondition, error) {
	var all []Precondition
	roles := c.Roles()
	if roles&config.SourceRole != 0 {
		s, err := sourceConfig(c, slog.New(slog.DiscardHandler), nil)
		if err != nil {
			return nil, err
		}
		for _, r := range source.Check(ctx, s) {
			all = append(all, Precondition{"postgres", r.Name, r.OK, r.Detail, r.Mend, r.Unreachable})
		}
	}
	if c.Bus.URL.IsZero() {
		all = append(all, checkDir("directory of the embedded NATS", c.Bus.Embedded.Dir))
	} else {
		all = append(all, checkBus(ctx, c)...)
	}
	if roles&config.SidecarRole != 0 {
		all = append(all, checkDir("directory of the persisted cache", c.Sidecar.Data))
		sinks, err := checkSinks(ctx, c)
		if err != nil {
			return nil, err
		}
		all = append(all, sinks...)
	}
	return all, nil
}

func checkBus(ctx context.Context, c *config.Config) (all []Precondition) {
	conn, err := bus.Connect(ctx, busConfig(c, nil, "syncd-check-"+c.Name, nil))
	if conn != nil {
		defer conn.Close()
	}
	for _, f := range bus.Check(ctx, conn, err, c.Name, limits(c)) {
		p := Precondition{Part: "nats", Name: f.What, OK: f.OK, Detail: f.Detail}
		p.Unreachable = conn == nil && errors.Is(err, bus.ErrUnreachable)
		all = append(all, p)
	}
	return all
}

// checkDir says whether a directory can be written to, or made. It makes nothing that stays.
func checkDir(name, dir string) Precondition {
	p := Precondition{Part: "disk", Name: name, OK: true, Detail: dir}
	there := dir
	for {
		info, err := os.Stat(there)
		if err == nil && !info.IsDir() {
			p.OK, p.Mend = false, fmt.Sprintf("%s is no directory: name another", there)
			return p
		}
		if err == nil || there == filepath.Dir(there) {
			break
		}
		there = filepath.Dir(there)
	}
	f, err := os.CreateTemp(there, ".syncd-check-*")
	if err != nil {
		p.OK, p.Mend = false, fmt.Sprintf("%s can't be written to (%v): let the user that syncd runs as write there, or name another", there, err)
		return p
	}
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
		p.OK, p.Mend = false, err.Error()
	}
	return p
}
