package resync

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/syncd-io/syncd"
)

// tables is a source's set of tables, and what was handed on of it.
type tables struct {
	server
	mu    sync.Mutex
	infos []syncd.TableInfo
	err   error
	asked int
	set   [][]syncd.TableInfo
}

func (s *tables) Tables(context.Context) ([]syncd.TableInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return s.infos, s.err
}

func (s *tables) SetTables(infos []syncd.TableInfo) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set = append(s.set, infos)
	return nil
}

func (s *tables) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// counts says how often the source was asked and the cache told.
func (s *tables) counts() (asked, set int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked, len(s.set)
}

func TestCatalogChooses(t *testing.T) {
	orders, logs := syncd.Table{Schema: "public", Name: "orders"}, syncd.Table{Schema: "public", Name: "logs"}
	s := &tables{infos: []syncd.TableInfo{{Table: users, Schema: 1}, {Table: orders, Error: "no key"}, {Table: logs, Schema: 2}}}
	c := &Catalog{Lister: s, Cache: s}
	if err := c.Step(t.Context()); err != nil || !reflect.DeepEqual(s.set[0], s.infos) {
		t.Errorf("all: %v %v", s.set, err)
	}
	gone := syncd.Table{Schema: "public", Name: "gone"}
	c.Want([]syncd.Table{gone, orders, users})
	if err := c.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []syncd.TableInfo{{Table: gone, Error: "the source does not sync it: add it to the source's tables"}, {Table: orders, Error: "no key"}, {Table: users, Schema: 1}}
	if !reflect.DeepEqual(s.set[1], want) {
		t.Errorf("got %v, want %v", s.set[1], want)
	}
}

// TestNoTablesIsNoAnswer: a source that names no tables does not empty the cache.
func TestNoTablesIsNoAnswer(t *testing.T) {
	s := &tables{}
	c := &Catalog{Lister: s, Cache: s}
	if err := c.Step(t.Context()); !errors.Is(err, errNoTables) || s.set != nil {
		t.Errorf("%v, handed on %v", err, s.set)
	}
	s.err = errors.New("timeout")
	if err := c.Step(t.Context()); !errors.Is(err, s.err) || s.set != nil {
		t.Errorf("%v, handed on %v", err, s.set)
	}
}

func TestCatalogLooksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &tables{infos: []syncd.TableInfo{{Table: users}}, err: errors.New("no responders")}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- (&Catalog{Lister: s, Cache: s}).Run(ctx) }()
		pass(ctx, 5*time.Second)
		if asked, set := s.counts(); set > 0 || asked < 6 || asked > 8 {
			t.Errorf("asked %d times, told the cache %d times", asked, set)
		}
		s.fail(nil)
		pass(ctx, 25*time.Second)
		if _, set := s.counts(); set != 2 && set != 3 {
			t.Errorf("looked %d times in 25 s after the source was back", set)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func ExampleCatalog() {
	s := &tables{infos: []syncd.TableInfo{{Table: users}}}
	c := &Catalog{Lister: s, Cache: s}
	c.Want([]syncd.Table{users, {Schema: "public", Name: "orders"}})
	_ = c.Step(context.Background())
	for _, info := range s.set[0] {
		fmt.Printf("%s %q\n", info.Table, info.Error)
	}
	// Output:
	// public.users ""
	// public.orders "the source does not sync it: add it to the source's tables"
}
