package bus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// Member is what one process of a fleet says of itself.
type Member struct {
	// Sync is the sync's name, Role "source" or "sidecar"; a process that is both is two members.
	Sync string `json:"sync"`
	Role string `json:"role"`
	// ID tells members apart; the bus gives it. Host, PID and Program say where it runs and what, Started since when.
	ID      string    `json:"id"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Program string    `json:"program"`
	Started time.Time `json:"started"`
	// Address is where a sidecar answers reads; empty for a source.
	Address string `json:"address,omitempty"`
	// State is "leads" or "stands by" of a source, "ready" or "not ready" of a sidecar; Why says what it waits for.
	State string `json:"state"`
	Why   string `json:"why,omitempty"`
	// Version is the position of the last marker that a source has sent, or through which a sidecar is complete; LagSeconds is
	// how long ago that was all of Postgres; null before the first marker.
	Version    string   `json:"version"`
	LagSeconds *float64 `json:"lag_seconds"`
	// Tables are a member's tables, by name. TablesLeftOut counts those for which the answer had no room.
	Tables        []MemberTable `json:"tables"`
	TablesLeftOut int           `json:"tables_left_out,omitempty"`
}

// MemberTable is one table of a member. A source knows its name and its error alone.
type MemberTable struct {
	Table string `json:"table"`
	Rows  int    `json:"rows"`
	Ready bool   `json:"ready"`
	Error string `json:"error,omitempty"`
	// VerifiedAgeSeconds is how long ago the whole table was proved equal to Postgres; null: never.
	VerifiedAgeSeconds *float64 `json:"verified_age_seconds"`
	// Drift counts what the last comparison found to differ.
	Drift int `json:"drift"`
	// OpenKeys and ParkedKeys count the keys that are to be fetched, and those whose change could not be applied.
	OpenKeys   int    `json:"open_keys"`
	ParkedKeys int    `json:"parked_keys"`
	Stopped    string `json:"stopped,omitempty"`
}

// fleetService is the NATS micro service that every source and sidecar is an instance of, whatever its sync.
const fleetService = "syncd-fleet"

// memberBytes bounds a member's description: it is one message, beside what NATS itself says in it.
const memberBytes = 512 << 10

// Announcer makes a process known on the bus: `syncd fleet` and `nats micro stats syncd-fleet` show what Tell gives. The
// endpoint "status" of each sync (subject syncd.<name>.status) is answered by all of its members.
type Announcer struct {
	Conn *nats.Conn
	// Tell describes the process as it is now. It is called by several goroutines and must not block.
	Tell func() Member
}

// Run announces until ctx ends.
func (a *Announcer) Run(ctx context.Context) error {
	m := a.Tell()
	svc, err := micro.AddService(a.Conn, micro.Config{
		Name:         fleetService,
		Version:      "1.0.0", // of the interface
		Description:  "syncd: a source or sidecar, and how it is",
		Metadata:     map[string]string{"sync": m.Sync, "role": m.Role, "host": m.Host, "program": m.Program},
		StatsHandler: func(*micro.Endpoint) any { return a.Tell().encode() },
	})
	if err != nil {
		return fmt.Errorf("announce the %s on the bus: %w", m.Role, err)
	}
	answer := func(r micro.Request) {
		m := a.Tell()
		m.ID = svc.Info().ID
		_ = r.Respond(m.encode(), micro.WithHeaders(micro.Headers{headerFormat: {strconv.Itoa(Format)}})) // who asked has gone, or asks again
	}
	err = svc.AddEndpoint("status", micro.HandlerFunc(answer), micro.WithEndpointSubject(serviceSubject(m.Sync, "status")), micro.WithEndpointQueueGroupDisabled())
	if err == nil {
		<-ctx.Done()
	}
	stop := svc.Stop()
	if errors.Is(stop, nats.ErrConnectionClosed) {
		stop = nil
	}
	return errors.Join(err, stop)
}

// encode gives a description that fits a message.
func (m Member) encode() json.RawMessage {
	for {
		b, err := json.Marshal(m)
		if err != nil {
			panic(fmt.Sprintf("a member's description: %v", err)) // it holds nothing that JSON lacks
		}
		if len(b) <= memberBytes || len(m.Tables) == 0 {
			return b
		}
		keep := len(m.Tables) / 2
		m.TablesLeftOut += len(m.Tables) - keep
		m.Tables = m.Tables[:keep]
	}
}

// Fleet asks every source and sidecar on the bus how it is, and gives the answers that come within wait, sorted by sync, role
// and host. Nobody knows how many there are: it waits for a quarter of that after the last answer.
func Fleet(ctx context.Context, conn *nats.Conn, wait time.Duration) ([]Member, error) {
	inbox := conn.NewInbox()
	sub, err := conn.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("ask the fleet: %w", err)
	}
	defer sub.Unsubscribe()
	if err := conn.PublishRequest(micro.APIPrefix+".STATS."+fleetService, inbox, nil); err != nil {
		return nil, fmt.Errorf("ask the fleet: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	members := []Member{}
	for patience := wait; ; patience = wait / 4 {
		next, stop := context.WithTimeout(ctx, patience)
		m, err := sub.NextMsgWithContext(next)
		stop()
		switch {
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrNoResponders):
			slices.SortFunc(members, func(a, b Member) int {
				return cmp.Or(cmp.Compare(a.Sync, b.Sync), -cmp.Compare(a.Role, b.Role), cmp.Compare(a.Host, b.Host), cmp.Compare(a.PID, b.PID), cmp.Compare(a.ID, b.ID))
			})
			return members, nil
		case err != nil:
			return nil, fmt.Errorf("wait for the fleet's answers: %w", err)
		}
		one, err := readMember(m.Data)
		if err != nil {
			return nil, err
		}
		members = append(members, one)
	}
}

// readMember reads a member's answer.
func readMember(data []byte) (Member, error) {
	var stats struct {
		ID        string `json:"id"`
		Endpoints []struct {
			Data *Member `json:"data"`
		} `json:"endpoints"`
	}
	if err := json.Unmarshal(data, &stats); err != nil {
		return Member{}, fmt.Errorf("a member of the fleet answers what can't be read: %w", err)
	}
	if len(stats.Endpoints) == 0 || stats.Endpoints[0].Data == nil {
		return Member{ID: stats.ID, State: "starts"}, nil // it has yet to add its endpoint
	}
	m := *stats.Endpoints[0].Data
	m.ID = stats.ID
	return m, nil
}
