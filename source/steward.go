package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/syncd-io/syncd"
)

// steward looks once a second at what the replication stream does not tell: the catalog, and how much log the slot holds. It
// does so whether this source leads or not, and whether or not there is a stream to publish to.
func (w *Watch) steward(ctx context.Context) {
	var s *session
	defer func() {
		if s != nil {
			s.close()
		}
	}()
	g := guard{budget: w.Config.MaxSlotWAL}
	for sleep(ctx, stewardPause) == nil {
		var err error
		if s == nil {
			s, err = openSession(ctx, w.Config.Postgres, true)
		}
		if err == nil {
			err = w.stewardStep(ctx, s, &g)
		}
		if err != nil && ctx.Err() == nil {
			w.reportSteward(&g, err)
			w.letGo(err)
			if s != nil {
				s.close()
				s = nil
			}
		}
	}
}

// letGo ends the term where the server is another one now, or is going down: its walsender would wait until all of the log is confirmed, which trails
// what JetStream has acknowledged, and hold the shutdown up for as long.
func (w *Watch) letGo(err error) {
	t := w.current()
	if t == nil {
		return
	}
	switch sqlState(err) {
	case "57P01", "57P02", "57P03": // admin_shutdown, crash_shutdown, cannot_connect_now
		t.end(fmt.Errorf("the server is going down: %w", err))
	}
	if errors.Is(err, errTimeline) {
		t.end(err)
	}
}

func (w *Watch) reportSteward(g *guard, err error) {
	if text := err.Error(); text != g.reported {
		g.reported = text
		w.Config.Logger.Warn("the catalog can't be looked at, and will be again", "error", text)
	}
}

func (w *Watch) stewardStep(ctx context.Context, s *session, g *guard) error {
	c := lookOnly
	if w.current() != nil {
		c = keepUp
	}
	if err := w.roster.look(ctx, s, c); err != nil {
		return err
	}
	if t := w.current(); t != nil {
		t.want(w.roster.held())
	}
	if err := w.guardSlot(ctx, s, g); err != nil {
		return err
	}
	g.reported = ""
	return nil
}

// guard keeps the slot from filling the server's disk.
type guard struct {
	budget   int64
	warned   bool
	reported string
}

// guardAction is what the guard does about a slot.
type guardAction uint8

const (
	guardNothing guardAction = iota
	guardHurry               // half of the budget: say so, and confirm at once whatever is acknowledged
	guardGiveUp              // the budget: drop the slot, and begin a new epoch when that can be
)

// act decides by how much log the slot holds.
func (g *guard) act(retained int64) guardAction {
	switch {
	case g.budget <= 0:
		return guardNothing
	case retained > g.budget:
		return guardGiveUp
	case retained > g.budget/2:
		return guardHurry
	}
	return guardNothing
}

func (w *Watch) guardSlot(ctx context.Context, s *session, g *guard) error {
	slot, flushed, err := readSlot(ctx, s, w.Config.Slot)
	if err != nil || !slot.Exists || slot.Database != s.server.database || slot.Plugin != "pgoutput" {
		return err
	}
	retained := behind(flushed, slot.Restart)
	w.Config.Observer.Slot(uint64(retained), uint64(behind(flushed, slot.Confirmed)))
	t := w.current()
	if t == nil && slot.ActivePID != 0 {
		return nil // another source leads, and guards
	}
	action := g.act(retained)
	if action == guardNothing {
		g.warned = false
		return nil
	}
	if !g.warned {
		g.warned = true
		w.Config.Logger.Warn("the replication slot holds much log", "slot", w.Config.Slot, "bytes", retained, "max_slot_wal", g.budget)
	}
	if action == guardHurry {
		if t != nil {
			t.trail.hurry()
		}
		return nil
	}
	return w.giveUp(ctx, s, t, retained)
}

// behind is how many bytes of log lie from l to the server's end.
func behind(end, l syncd.LSN) int64 {
	if l == 0 || l > end {
		return 0
	}
	return int64(end - l)
}

// giveUp drops the slot, so that the server may throw its log away. The next term begins a new epoch.
func (w *Watch) giveUp(ctx context.Context, s *session, t *term, retained int64) error {
	why := fmt.Sprintf("the replication slot held %d bytes of log, more than max_slot_wal allows, and was given up", retained)
	w.Config.Logger.Error("gives the replication slot up, before the server's disk is full", "slot", w.Config.Slot, "bytes", retained)
	w.setOver(why)
	if t != nil {
		t.end(errors.New(why))
	}
	w.slot.Lock() // a slot that begin makes meanwhile is another
	defer w.slot.Unlock()
	for pause := 5 * time.Millisecond; w.isOver(); pause = min(2*pause, 200*time.Millisecond) {
		err := dropSlot(ctx, s, w.Config.Slot)
		if sqlState(err) != stateObjectInUse {
			return err
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
	return nil
}
