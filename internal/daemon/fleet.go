package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/syncd-io/syncd/bus"
	"github.com/syncd-io/syncd/internal/config"
)

// member begins the description of this process in one of its roles.
func (p *process) member(role string) bus.Member {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return bus.Member{Sync: p.Config.Name, Role: role, Host: host, PID: os.Getpid(), Program: p.Program, Started: p.started, Tables: []bus.MemberTable{}}
}

// tell describes the source.
func (s *sourcePart) tell() bus.Member {
	m := s.member("source")
	m.State = "stands by"
	if s.watch.Leads() {
		m.State = "leads"
	}
	if last, ok := s.watch.Last(); ok {
		m.Version = last.Position().String()
		lag := max(time.Since(last.Sent), 0).Seconds()
		m.LagSeconds = &lag
	} else {
		m.Why = "it has not found its place yet"
	}
	for _, t := range s.watch.Tables() {
		m.Tables = append(m.Tables, bus.MemberTable{Table: t.Table.String(), Ready: t.Error == "", Error: t.Error})
	}
	return m
}

// tell describes the sidecar.
func (s *sidecarPart) tell() bus.Member {
	m := s.member("sidecar")
	m.Address = addressOf(s.listener, s.Config.Sidecar.TLS.Cert != "")
	st, err := s.api.Status()
	if err != nil {
		m.State, m.Why = "not ready", err.Error()
		return m
	}
	m.State, m.Why, m.Version, m.LagSeconds = "ready", st.WaitsFor, st.Version, st.LagSeconds
	if !st.Ready {
		m.State = "not ready"
	}
	drift := map[string]int{}
	for _, r := range st.Reports {
		drift[r.Table] = r.Differences()
	}
	for _, t := range st.Tables {
		m.Tables = append(m.Tables, bus.MemberTable{
			Table: t.Table, Rows: t.Rows, Ready: t.Ready, Error: t.Error, VerifiedAgeSeconds: t.VerifiedAgeSeconds, Drift: drift[t.Table],
			OpenKeys: t.OpenKeys, ParkedKeys: t.ParkedKeys, Stopped: t.Stopped,
		})
	}
	return m
}

// announce makes the sidecar known on the bus, once that is reached.
func (s *sidecarPart) announce(ctx context.Context) error {
	e, err := s.link.wait(ctx)
	if err != nil {
		return ended(ctx, err)
	}
	return (&bus.Announcer{Conn: e.conn, Tell: s.tell}).Run(ctx)
}

// ErrOwnBus says that a configuration's NATS is embedded in its process and opens no port.
var ErrOwnBus = errors.New("the NATS of this configuration is embedded and opens no port: give bus.url, or bus.embedded.listen")

// Fleet asks every source and sidecar on the bus of a configuration how it is, and gives the answers that come within wait.
func Fleet(ctx context.Context, c *config.Config, wait time.Duration) ([]bus.Member, error) {
	b := busConfig(c, nil, "syncd-fleet-"+c.Name, nil)
	if b.URL == "" {
		if c.Bus.Embedded.Listen == "" {
			return nil, ErrOwnBus
		}
		b.URL = "nats://" + c.Bus.Embedded.Listen
	}
	conn, err := bus.Connect(ctx, b)
	if errors.Is(err, bus.ErrUnreachable) {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return bus.Fleet(ctx, conn, wait)
}
