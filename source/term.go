package source

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/syncd-io/syncd"
)

// term is the time for which one source leads, on one replication connection.
type term struct {
	watch  *Watch
	plan   Plan
	server server
	stream *walStream
	queue  *queue
	seen   *visibility
	pump   *pump
	trail  *trail
	intake intake
	recent atomic.Uint64 // xmax of the last snapshot
	heard  atomic.Int64  // when the server was last heard of, or could not be, in Unix nanoseconds
	ended  chan struct{}
	fail   chan error // what is to end the term from outside

	answer chan struct{} // a hint to send a status update
	ask    atomic.Bool   // with the wish for a keepalive
	move   chan struct{} // a hint that somebody waits for a position

	asking sync.Mutex // held while sql is used
	sql    asker
}

// asker is what a term asks the server beside the replication stream. A session is one.
type asker interface {
	columns(ctx context.Context, c *Catalog, rel []RelationColumn) ([]Column, error)
	snapshot(ctx context.Context) (*syncd.Snapshot, error)
	insertPosition(ctx context.Context) (syncd.LSN, error)
	flush(ctx context.Context, at syncd.LSN) error
	close()
}

const (
	// queueBytes is how many bytes of rows may wait for the publisher before the reader waits.
	queueBytes = 32 << 20
	// silence is how long the server may say nothing, though it was asked, before the connection is given up.
	silence = 30 * time.Second
	// slotPatience is how long a slot may take to be made before it is said for whom it waits.
	slotPatience = 2 * time.Second
)

// begin finds the source's place, and makes what is missing: stream, publication, slot.
func (w *Watch) begin(ctx context.Context) (_ *term, err error) {
	sql, err := openSession(ctx, w.Config.Postgres, true)
	if err != nil {
		return nil, err
	}
	var repl *pgconn.PgConn
	defer func() {
		if err != nil {
			sql.close()
			if repl != nil {
				closeReplication(repl)
			}
		}
	}()
	w.onStandby.Store(sql.server.standby)
	slot, _, err := readSlot(ctx, sql, w.Config.Slot)
	if err != nil {
		return nil, err
	}
	stream, err := w.readStream(ctx)
	if err != nil {
		return nil, err
	}
	facts := Facts{SlotName: w.Config.Slot, Database: sql.server.database, Slot: slot, Stream: stream, Recreate: w.Recreate, Now: time.Now()}
	if p, done := decideSlot(facts); done && p.Action == Wait {
		return nil, &errWait{p.Why} // without taking up a walsender
	}
	var srv server
	if repl, srv, err = openReplication(ctx, w.Config.Postgres); err != nil {
		return nil, err
	}
	w.slot.Lock()
	defer w.slot.Unlock()
	plan, id, err := w.decide(ctx, sql, repl, facts)
	if err != nil {
		return nil, err
	}
	first, err := w.prepare(ctx, sql, repl, plan, id)
	if err != nil {
		return nil, err
	}
	t, err := w.newTerm(ctx, sql, repl, srv, plan, first)
	if err != nil {
		return nil, err
	}
	return t, nil
}

func closeReplication(c *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c.Close(ctx)
}

// readStream asks the stream's leader for the last marker.
func (w *Watch) readStream(ctx context.Context) (StreamState, error) {
	m, _, ok, err := w.Publisher.Last(ctx)
	switch {
	case errors.Is(err, syncd.ErrNoStream):
		return StreamState{Missing: true}, nil
	case err != nil:
		return StreamState{}, fmt.Errorf("read the last marker of the stream: %w", err)
	case !ok:
		return StreamState{Empty: true}, nil
	}
	w.setLast(m)
	return StreamState{Last: m}, nil
}

// decide gathers the facts that are left and decides.
func (w *Watch) decide(ctx context.Context, sql *session, repl *pgconn.PgConn, f Facts) (Plan, identity, error) {
	id, err := identify(ctx, repl)
	if err == nil && sql.server.standby {
		// What it has received is decoded when it is replayed; and its lists say the timeline in the same way.
		id.flushed, id.timeline, err = sql.replayed(ctx)
	}
	if err != nil {
		return Plan{}, id, err
	}
	f.System, f.Timeline, f.Flushed, f.Standby = id.system, id.timeline, id.flushed, sql.server.standby
	if f.Slot, _, err = readSlot(ctx, sql, w.Config.Slot); err != nil {
		return Plan{}, id, err
	}
	w.mu.Lock()
	if w.over != "" && f.Slot.Exists {
		f.Slot.Lost, f.Slot.LostWhy = true, w.over
	}
	w.mu.Unlock()
	p := Decide(f)
	switch p.Action {
	case Wait:
		return p, id, &errWait{p.Why}
	case Stop:
		return p, id, &StopError{p.Why}
	}
	return p, id, nil
}

// prepare carries the plan out up to where replication can start. It gives the marker to go on behind, and says by its
// Previous and Commit of 0 where that one is an epoch's first and still to be published.
func (w *Watch) prepare(ctx context.Context, sql *session, repl *pgconn.PgConn, p Plan, id identity) (syncd.Marker, error) {
	if p.Action == NewEpoch {
		w.Config.Logger.Warn("begins a new epoch: every consumer lists everything anew", "epoch", p.Epoch, "reason", p.Why)
	}
	if p.MakeStream {
		if err := w.Publisher.Create(ctx, w.Recreate); err != nil {
			return syncd.Marker{}, fmt.Errorf("make the stream: %w", err)
		}
		w.Recreate = false
		// Last lets the publisher begin: what is published goes behind what the stream holds, here nothing.
		if _, _, _, err := w.Publisher.Last(ctx); err != nil {
			return syncd.Marker{}, fmt.Errorf("read the stream that was made: %w", err)
		}
	}
	if err := w.preparePublication(ctx, sql); err != nil {
		return syncd.Marker{}, err
	}
	if p.Action == Resume {
		return p.After, nil
	}
	if p.Drop {
		if err := dropSlot(ctx, sql, w.Config.Slot); err != nil {
			return syncd.Marker{}, err
		}
	}
	maker := slotMaker{SQL: sql, Replication: repl, Name: w.Config.Slot, Log: w.Config.Logger, Patience: slotPatience}
	start, err := maker.Make(ctx)
	if err != nil {
		return syncd.Marker{}, err
	}
	w.setOver("")
	return syncd.Marker{Epoch: p.Epoch, Through: start, Safe: start, Start: start, System: id.system, Timeline: id.timeline, Sent: time.Now()}, nil
}

// preparePublication brings the publication up to date before a slot that needs it is made.
func (w *Watch) preparePublication(ctx context.Context, sql *session) error {
	if err := w.roster.look(ctx, sql, keepAnew); err != nil {
		return err
	}
	p, err := readPublication(ctx, sql, w.Config.Publication)
	switch {
	case err != nil || p != nil:
		return err
	case sql.server.standby:
		return fmt.Errorf("there is no publication %s, and none can be made on a standby: on the primary: %s", w.Config.Publication, w.roster.createSQL(sql))
	}
	return fmt.Errorf("there is no publication %s: CREATE PUBLICATION %s FOR TABLE …, or set manage: true", w.Config.Publication, syncd.QuoteIdent(w.Config.Publication))
}

// newTerm starts replication, and publishes an epoch's first marker.
func (w *Watch) newTerm(ctx context.Context, sql *session, repl *pgconn.PgConn, srv server, p Plan, after syncd.Marker) (*term, error) {
	snapshot, err := currentSnapshot(ctx, sql)
	if err != nil {
		return nil, err
	}
	slot, _, err := readSlot(ctx, sql, w.Config.Slot)
	if err != nil {
		return nil, err
	}
	if after, err = w.goOn(ctx, p, after); err != nil {
		return nil, err
	}
	stream, err := startStream(ctx, repl, w.Config.Slot, w.Config.Publication)
	if err != nil {
		return nil, w.startError(err)
	}
	t := &term{server: srv, stream: stream, sql: sql}
	w.assemble(t, p, after, slot.Confirmed, snapshot.Xmax)
	return t, nil
}

// goOn begins behind the stream's last marker, or publishes an epoch's first; it gives the marker to go on behind.
func (w *Watch) goOn(ctx context.Context, p Plan, after syncd.Marker) (syncd.Marker, error) {
	if p.Action == Resume {
		w.roster.compare(after.Catalog)
		return after, nil
	}
	_, seen, _ := w.roster.demanded(0)
	after.Catalog = seen.String()
	m := after
	if err := w.Publisher.Publish(ctx, &syncd.Flush{Marker: m}); err != nil {
		return after, fmt.Errorf("publish the first marker of epoch %d: %w", p.Epoch, err)
	}
	w.setLast(m)
	return after, nil
}

// assemble makes the stages of a term that has its connections, which go on behind a marker.
func (w *Watch) assemble(t *term, p Plan, after syncd.Marker, confirmed syncd.LSN, recent syncd.XID) {
	t.watch, t.plan, t.seen = w, p, newVisibility()
	t.queue, t.trail = newQueue(queueBytes, after.Through), newTrail(w.Config.TrailInterval, confirmed)
	t.ended, t.fail, t.answer, t.move = make(chan struct{}), make(chan error, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	t.recent.Store(uint64(recent))
	t.pump = &pump{
		Publisher: w.Publisher, Queue: t.queue, Visible: t.seen, Tables: w.roster, Observer: w.Config.Observer,
		wake: make(chan struct{}, 1), last: after,
	}
	t.intake = intake{
		Stream: t.stream, Queue: t.queue, Visible: t.seen, Recent: &t.recent,
		Build:  builder{Epoch: after.Epoch, Tables: w.roster, Types: t.types, Relist: w.roster.demand, SpillBytes: w.MaxTransaction, Disk: w.disk},
		Answer: func() { signal(t.answer) }, Heard: t.hear, through: after.Through,
	}
	if p.Action == Resume {
		t.intake.Replay = Replay{After: after, Confirmed: confirmed}
		t.seen.hold(after.Safe)
		t.ask.Store(true) // a server that has nothing to replay is to say so
	}
	t.hear()
}

// startError tells a slot that somebody took in between from other trouble.
func (w *Watch) startError(err error) error {
	if sqlState(err) == stateObjectInUse {
		return &errWait{err.Error()}
	}
	return err
}

// run publishes until something ends it.
func (t *term) run(ctx context.Context) error {
	defer t.closeSQL()
	defer t.stream.close()
	defer close(t.ended)
	g := newGroup(ctx)
	stop := context.AfterFunc(g.ctx, t.stream.interrupt)
	defer stop()
	g.start(t.intake.run)
	g.start(t.pump.run)
	g.start(t.acknowledge)
	g.start(t.report)
	g.start(t.serveMarks)
	g.start(func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case err := <-t.fail:
			return err
		}
	})
	g.start(func(ctx context.Context) error { return t.seen.probe(ctx, t.snapshot, t.noteSnapshot) })
	err := g.wait()
	t.intake.Build.close()
	t.queue.close()
	t.watch.roster.untold()
	return t.explain(err)
}

// closeSQL closes the session once nobody uses it: marks are asked for from outside the term.
func (t *term) closeSQL() {
	t.asking.Lock()
	defer t.asking.Unlock()
	t.sql.close()
}

// explain finds, in what ended the term, what the next one has to know.
func (t *term) explain(err error) error {
	if sqlState(err) == stateUndefinedObject && strings.Contains(err.Error(), "publication") {
		return &epochOverError{fmt.Sprintf("the log can't be decoded where the publication did not exist: %v", err)}
	}
	return err
}

// end ends the term for a reason of somebody else's.
func (t *term) end(why error) {
	select {
	case t.fail <- why:
	default: // it is ending already
	}
}

func (t *term) hear() { t.heard.Store(time.Now().UnixNano()) }

// acknowledge follows what the stream has acknowledged.
func (t *term) acknowledge(ctx context.Context) error {
	epoch := t.pump.marker().Epoch
	for {
		pos, moved := t.watch.Publisher.Acked()
		if pos.Epoch == epoch {
			now := time.Now()
			if l := t.seen.confirmable(pos.LSN); l > 0 {
				t.trail.ack(l, now)
			}
			t.pump.acknowledged(pos.LSN, now)
			t.watch.roster.settled(pos.LSN)
		}
		if err := t.watch.Publisher.Err(); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-moved:
		}
	}
}

// report tells the server how far we are: when it asks, when somebody wants to know how far it is, and regularly.
func (t *term) report(ctx context.Context) error {
	every := time.Second
	if d := t.server.senderTimeout / 4; d > 0 {
		every = min(every, max(d, 10*time.Millisecond))
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		now := time.Now()
		quiet := now.Sub(time.Unix(0, t.heard.Load()))
		if t.intake.waiting.Load() {
			quiet = 0
		}
		if quiet > silence {
			return fmt.Errorf("the server has said nothing for %v", quiet.Round(time.Second))
		}
		confirmed := t.trail.confirmed(now)
		st := Status{Written: max(t.queue.reached(), confirmed), Flushed: confirmed, Applied: confirmed, Sent: now}
		st.Reply = t.ask.Swap(false) || quiet > silence/3
		if err := t.stream.status(st); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-t.answer:
		}
	}
}

// types reads types for the builder.
func (t *term) types(ctx context.Context, rel []RelationColumn) ([]Column, error) {
	t.asking.Lock()
	defer t.asking.Unlock()
	return t.sql.columns(ctx, &t.watch.roster.catalog, rel)
}

// snapshot takes a snapshot for the visibility.
func (t *term) snapshot(ctx context.Context) (*syncd.Snapshot, error) {
	t.asking.Lock()
	defer t.asking.Unlock()
	s, err := t.sql.snapshot(ctx)
	if err == nil {
		t.recent.Store(uint64(s.Xmax))
	}
	return s, err
}

func (t *term) noteSnapshot(*syncd.Snapshot) { signal(t.pump.wake) }
