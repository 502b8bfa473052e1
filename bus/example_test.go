package bus_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/bus"
	"github.com/syncd-io/syncd/internal/natsserver"
)

// withServer runs fn against a NATS server of its own.
func withServer(fn func(ctx context.Context, nc *nats.Conn) error) {
	dir, err := os.MkdirTemp("", "syncd-example")
	if err != nil {
		log.Fatal(err)
	}
	srv, err := natsserver.Start(natsserver.Config{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	nc, err := bus.Connect(ctx, bus.Config{InProcess: srv, Name: "example"})
	if err == nil {
		err = fn(ctx, nc)
		nc.Close()
	}
	cancel()
	if err := errors.Join(err, srv.Close(), os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
}

// A flush goes from a publisher to a subscription.
func Example() {
	withServer(func(ctx context.Context, nc *nats.Conn) error {
		ctx, stop := context.WithCancel(ctx)
		p := &bus.Publisher{Conn: nc, Name: "shop"}
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		defer func() { stop(); <-ended }()

		if err := p.Create(ctx, false); err != nil {
			return err
		}
		if _, _, _, err := p.Last(ctx); err != nil {
			return err
		}
		users := syncd.Table{Schema: "public", Name: "users"}
		err := p.Publish(ctx, &syncd.Flush{
			Deltas: []syncd.Delta{{
				Table: users, Op: syncd.Upsert, Key: syncd.MakeKey("42"), Row: []byte(`{"id":42}`),
				Version: syncd.Version{Epoch: 1, LSN: 0x16B3748, Ordinal: 1}, XID: 731,
			}},
			Marker: syncd.Marker{Epoch: 1, Through: 0x16B3748, Counts: map[syncd.Table]int{users: 1}},
		})
		if err != nil {
			return err
		}

		s := &bus.Stream{Conn: nc, Name: "shop"}
		sub, err := s.Subscribe(ctx, syncd.Cursor{})
		if err != nil {
			return err
		}
		for range 2 {
			m, err := sub.Next(ctx)
			if err != nil {
				return err
			}
			for _, d := range m.Deltas {
				fmt.Println(m.Seq, d.Op, d.Table, d.Key, d.Version, string(d.Row))
			}
			if m.Marker != nil {
				fmt.Println(m.Seq, "through", m.Marker.Position(), "since message", m.Marker.First)
			}
		}
		return sub.Close()
	})
	// Output:
	// 1 upsert public.users 42 1-0/16B3748-1 {"id":42}
	// 2 through 1-0/16B3748 since message 1
}

// oneRow lists a table of one row.
type oneRow struct{}

func (oneRow) Tables(context.Context) ([]syncd.TableInfo, error) { return nil, nil }

func (oneRow) List(_ context.Context, r syncd.ListRequest) (*syncd.Page, error) {
	p := &syncd.Page{Table: r.Table, Snapshot: &syncd.Snapshot{Epoch: 1, Xmin: 731, Xmax: 731, H: 0x16B3748}, Last: true}
	p.Rows = []syncd.Row{{Key: syncd.MakeKey("42"), JSON: []byte(`{"id":42}`)}}
	p.Sent.Add(p.Rows[0].Key, p.Rows[0].JSON)
	return p, nil
}

func (oneRow) Digest(context.Context, syncd.DigestRequest) (*syncd.Digest, error) {
	return nil, syncd.ErrNoTable
}

func (oneRow) Get(context.Context, syncd.GetRequest) (*syncd.Page, error) {
	return nil, syncd.ErrNoTable
}

// A client asks the list service for a page.
func ExampleService() {
	withServer(func(ctx context.Context, nc *nats.Conn) error {
		ctx, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- (&bus.Service{Conn: nc, Name: "shop", Lister: oneRow{}}).Run(ctx) }()
		defer func() { stop(); <-ended }()

		c := &bus.Client{Conn: nc, Name: "shop"}
		for {
			page, err := c.List(ctx, syncd.ListRequest{Table: syncd.Table{Schema: "public", Name: "users"}})
			if errors.Is(err, nats.ErrNoResponders) {
				continue // the service has not begun yet
			}
			if err != nil {
				return err
			}
			fmt.Println(string(page.Rows[0].JSON), page.Last, page.Sent.Rows)
			return nil
		}
	})
	// Output: {"id":42} true 1
}

// Faults lose every delta while they are on.
func ExampleFaults() {
	f := &bus.Faults{Stream: &bus.Stream{Name: "shop"}}
	f.Set(bus.FaultRates{Drop: 0.01, Seed: 1})
	fmt.Println(f.Rates().Drop)
	f.Set(bus.FaultRates{})
	fmt.Println(f.Rates().Drop)
	// Output:
	// 0.01
	// 0
}
