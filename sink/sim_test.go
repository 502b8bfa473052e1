package sink_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// This file runs simulations: random histories of commits, lists and faults, checked after every step, and at the end, when
// the faults are over, by a complete list that has to make the cache equal to the tables.

// step does one thing.
func (s *simulation) step() {
	switch s.roll(24) {
	case 0, 1, 2:
		s.begin()
	case 3, 4, 5:
		s.commit()
	case 6:
		s.showOne()
	case 7, 8, 9:
		s.publish()
	case 10:
		s.idle()
	case 11, 12, 13, 14:
		for range 1 + s.roll(4) {
			s.receive()
		}
	case 15:
		s.startList()
	case 16, 17, 18:
		s.stepList()
	case 19:
		s.fetch()
	case 20:
		s.judgeAnswers()
	case 21:
		if s.mix.standby {
			s.replay()
		}
	default:
		s.fault()
	}
}

// fault makes one of the rarer faults.
func (s *simulation) fault() {
	switch what := s.roll(16); {
	case what == 0 && s.mix.rot && len(s.stream.messages) > 0:
		s.stream.messages[s.roll(len(s.stream.messages))].rotten = true
	case what == 1 && s.mix.tail:
		s.loseTail()
		s.note("the stream has lost its end: it ends at %d", s.stream.end()-1)
	case what == 2 && s.mix.trim:
		s.trim()
		s.note("the stream has lost its beginning: it begins at %d", s.stream.first)
	case what == 3 && s.mix.epochs:
		s.epochEnds()
	case what <= 5 && s.mix.restart:
		s.restart()
	case what == 6 && s.mix.rewind:
		s.rewind()
	case what == 7 && s.mix.break_:
		s.pendingError = true
	case what == 8 && s.mix.break_:
		s.store.fail = true
		s.receive()
		s.store.fail = false
	case what <= 11 && s.mix.spoil:
		s.spoil()
	case what == 14 && s.mix.reselect:
		s.reselect()
	case what <= 13 && s.mix.tables:
		s.leaveOut()
	}
}

// epochEnds begins a new epoch: the stream lost what can't be published again, or another server took over.
func (s *simulation) epochEnds() {
	if s.mix.failover && len(s.commits) > 0 && chance(s, 2) {
		s.failover(s.commits[s.roll(len(s.commits))].lsn)
	}
	if chance(s, 2) {
		s.loseTail()
	}
	s.newEpoch()
	s.note("epoch %d begins at %s", s.epoch, s.start)
}

// leaveOut has a table left out of the cache, and taken in again: all that was known of it is gone.
func (s *simulation) leaveOut() {
	table := s.roll(simTables)
	for _, infos := range [][]syncd.TableInfo{{s.info(1 - table)}, {s.info(0), s.info(1)}} {
		if err := s.cache.SetTables(infos); err != nil {
			s.bad("set tables: %v", err)
		}
	}
	s.reader.forget(table)
	s.note("t%d is begun again%s", table, s.dump())
}

// run makes so many steps, ends all faults, and has lists put everything right.
func (s *simulation) run(steps int) error {
	for i := 0; i < steps && s.err == nil; i++ {
		s.step()
		s.reader.check()
	}
	if s.err == nil {
		s.finish()
	}
	return s.err
}

// settle lets everything that is on its way arrive.
func (s *simulation) settle() {
	for len(s.active) > 0 {
		s.commit()
		s.showOne()
	}
	s.replayed = s.lsn
	for s.pub < len(s.commits) {
		s.publish()
	}
	s.idle()
	for i := 0; s.behind() && s.err == nil; i++ {
		if i == 10_000 {
			s.bad("the feed does not come to the stream's end")
		}
		s.receive()
		s.reader.check()
	}
}

// finish proves that the cache gets well without outside help once the faults are over.
func (s *simulation) finish() {
	s.faults, s.pendingError, s.lists, s.answers = false, false, nil, nil
	clear(s.pages)
	s.note("-- no faults from here on --")
	claimed := s.claims
	for round := 0; s.err == nil; round++ {
		if round == 200 {
			s.bad("no end: %v claims, before %v%s", s.claims, claimed, s.dump())
			return
		}
		s.settle()
		if s.claims[0] > claimed[0] && s.claims[1] > claimed[1] && s.well() {
			break
		}
		for t := range simTables {
			s.startListOf(&list{table: t, seen: map[syncd.Key]bool{}, digest: chance(s, 2)})
		}
		for range 8 {
			s.stepList()
			s.fetch()
			s.judgeAnswers()
			s.reader.check()
		}
	}
	s.compare()
}

// well says whether nothing is known to be wrong.
func (s *simulation) well() bool {
	for _, t := range s.sorted() {
		if !t.Listed || t.Loss != 0 || len(t.Open) > 0 {
			return false
		}
	}
	return s.cache.Ready() == nil
}

// compare compares what is served with the tables.
func (s *simulation) compare() {
	if s.err != nil {
		return
	}
	v := s.cache.View()
	defer v.Close()
	if at := v.State().Cursor.Position; at.Epoch != s.epoch {
		s.bad("the cache that is read is of epoch %d, the server of %d", at.Epoch, s.epoch)
		return
	}
	for table := range simTables {
		for key := range simKeys {
			e, _ := v.Get(tableName(table), keyOf(key))
			shown, err := valueOf(e.Row)
			facts := s.history[table][key]
			if want := keep(s.selectorOf(table), facts[len(facts)-1].value); err != nil || shown != want {
				s.bad("at the end t%d/%d shows %+v, and the server has %+v (%v)", table, key, shown, want, err)
			}
		}
	}
}

// mixes are the faults that are tried together.
var mixes = map[string]mix{
	"no faults":     {joins: true, truncate: true, move: true, toast: true, together: true, shared: true},
	"losses":        {truncate: true, move: true, lose: true, duplicate: true, reorder: true, garble: true, rot: true, together: true},
	"zombies":       {joins: true, truncate: true, move: true, lose: true, zombie: true, die: true, together: true},
	"toast":         {joins: true, truncate: true, move: true, toast: true, lose: true, duplicate: true, reorder: true, rot: true, zombie: true, die: true},
	"restarts":      {joins: true, truncate: true, move: true, toast: true, lose: true, die: true, restart: true, rewind: true, break_: true},
	"stream losses": {joins: true, truncate: true, move: true, toast: true, tail: true, trim: true, die: true, restart: true, zombie: true},
	"epochs":        {joins: true, truncate: true, move: true, toast: true, lose: true, epochs: true, restart: true, zombie: true},
	"failover":      {truncate: true, move: true, epochs: true, failover: true, tail: true, restart: true, zombie: true, standby: true},
	"in place":      {truncate: true, move: true, toast: true, lose: true, epochs: true, failover: true, restart: true, zombie: true, standby: true, inPlace: true},
	"standby":       {truncate: true, move: true, toast: true, lose: true, rot: true, zombie: true, standby: true, shared: true, together: true},
	"spoilt rows":   {truncate: true, move: true, lose: true, zombie: true, spoil: true, together: true},
	"tables":        {joins: true, truncate: true, move: true, toast: true, lose: true, zombie: true, die: true, tables: true, restart: true, shared: true, together: true},
	"parts":         {joins: true, truncate: true, move: true, toast: true, lose: true, rot: true, die: true, parts: true, restart: true},
	"memory": {joins: true, truncate: true, move: true, toast: true, lose: true, zombie: true, epochs: true, restart: true, rewind: true, break_: true, standby: true, shared: true, together: true,
		spoil: true, memory: true},
	"selector": {truncate: true, move: true, toast: true, lose: true, rot: true, zombie: true, restart: true, shared: true, together: true, selects: true},
	"selector, everything": {joins: true, truncate: true, move: true, toast: true, lose: true, duplicate: true, reorder: true, zombie: true, die: true, tail: true, trim: true,
		epochs: true, failover: true, restart: true, rewind: true, break_: true, standby: true, shared: true, together: true, memory: true, tables: true, selects: true, reselect: true},
	"small buffer": {joins: true, truncate: true, move: true, toast: true, lose: true, rot: true, die: true, small: true, restart: true},
	"everything": {joins: true, truncate: true, move: true, toast: true, lose: true, duplicate: true, reorder: true, garble: true, rot: true, zombie: true, die: true, tail: true, trim: true,
		epochs: true, failover: true, restart: true, rewind: true, break_: true, standby: true, shared: true, together: true},
	"everything, spoilt": {joins: true, truncate: true, move: true, toast: true, lose: true, duplicate: true, reorder: true, rot: true, zombie: true, die: true, tail: true, parts: true,
		epochs: true, failover: true, restart: true, rewind: true, break_: true, standby: true, shared: true, together: true, spoil: true, small: true},
}

// rapidDice lets rapid choose, and shrink what it chose.
type rapidDice struct{ t *rapid.T }

func (d rapidDice) roll(n int) int {
	if n <= 1 {
		return 0
	}
	return rapid.IntRange(0, n-1).Draw(d.t, "roll")
}

// seedDice chooses by a seed.
type seedDice struct{ r *rand.Rand }

func newSeedDice(seed uint64) seedDice { return seedDice{rand.New(rand.NewPCG(seed, 0))} }

func (d seedDice) roll(n int) int {
	if n <= 1 {
		return 0
	}
	return d.r.IntN(n)
}

// TestHistories is the property: whatever happens, no key goes back, nothing half-applied is shown, what is claimed to be
// verified is true, and after the last fault a complete list makes the cache equal to the tables. rapid shrinks what fails.
func TestHistories(t *testing.T) {
	for name, m := range mixes {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			s := newSimulation(rapidDice{t}, m)
			s.verbose = true
			if err := s.run(150); err != nil {
				t.Fatalf("%v\n%s", err, strings.Join(s.log, "\n"))
			}
		}))
	}
}

var (
	histories = flag.Uint64("histories", 300, "how many histories TestManyHistories tries of each mix")
	firstSeed = flag.Uint64("seed", 0, "the first of their seeds; with -histories 1, and -run to choose the mix, it makes one again")
)

// TestManyHistories tries more of them, by seeds.
func TestManyHistories(t *testing.T) {
	for name, m := range mixes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range *histories {
				if err := runSeed(*firstSeed+i, m, nil, bend{}); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// runSeed runs one simulation; an error comes with its story.
func runSeed(seed uint64, m mix, rules func(*sink.Cache), b bend) error {
	steps := 60 + int(seed%200)
	if run(seed, m, rules, b, steps, false).err == nil {
		return nil
	}
	s := run(seed, m, rules, b, steps, true)
	return errors.Join(fmt.Errorf("seed %d: %w", seed, s.err), errors.New(strings.Join(s.log, "\n")))
}

func run(seed uint64, m mix, rules func(*sink.Cache), b bend, steps int, verbose bool) *simulation {
	s := newSimulation(newSeedDice(seed), m)
	s.verbose, s.rules, s.bend = verbose, rules, b
	if rules != nil {
		rules(s.cache)
	}
	_ = s.run(steps)
	return s
}
