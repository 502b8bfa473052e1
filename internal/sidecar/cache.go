package sidecar

import (
	"context"
	"errors"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/resync"
	"github.com/syncd-io/syncd/sink"
)

// cache is a sink.Cache in the words of package resync, which knows no sink.
type cache struct{ *sink.Cache }

var (
	_ resync.FetchCache = cache{}
	_ resync.CheckCache = cache{}
	_ resync.TableSet   = cache{}
)

// States gives the state of each table, in the generation that lists are for.
func (c cache) States() []resync.State {
	newest := c.Cache.State()
	served := c.served(newest)
	all := make([]resync.State, 0, len(newest.Tables))
	for name, t := range newest.Tables {
		all = append(all, resync.State{
			Table: name, Refused: t.Info.Error, Listed: t.Listed, Rows: t.Rows, Served: served[name],
			Cause: t.Relist, Changed: t.Changed, Loss: t.Loss, Open: len(t.Open), Parked: parked(t), Stopped: t.Stopped, Resynced: t.Resynced,
			Floor: t.Floor,
		})
	}
	return all
}

// served gives the rows that readers see of each table while a new epoch's cache is being built; else nothing, because
// then what is listed is what is read.
func (c cache) served(newest *sink.State) map[syncd.Table]int {
	v := c.Cache.View()
	if v == nil {
		return nil
	}
	defer v.Close()
	if v.State().Cursor.Position.Epoch == newest.Cursor.Position.Epoch {
		return nil
	}
	rows := map[syncd.Table]int{}
	for name, t := range v.State().Tables {
		if t.Listed {
			rows[name] = t.Rows
		}
	}
	return rows
}

func parked(t *sink.TableState) (n int) {
	for _, o := range t.Open {
		if o.Parked {
			n++
		}
	}
	return n
}

// Open gives the open keys of a table.
func (c cache) Open(t syncd.Table, fn func(syncd.Key) bool) {
	s := c.Cache.State().Tables[t]
	if s == nil {
		return
	}
	for k := range s.Open {
		if !fn(k) {
			return
		}
	}
}

// IsOpen says whether a key is open.
func (c cache) IsOpen(t syncd.Table, k syncd.Key) bool {
	s := c.Cache.State().Tables[t]
	if s == nil {
		return false
	}
	_, open := s.Open[k]
	return open
}

// Judge has the gate judge a page.
func (c cache) Judge(p *syncd.Page, how resync.How) ([]resync.Finding, error) {
	found, err := c.Cache.Judge(p, sink.How(how))
	if err != nil {
		return nil, err
	}
	all := make([]resync.Finding, len(found))
	for i, f := range found {
		all[i] = resync.Finding{Key: f.Key, Kind: string(f.Kind)}
		if f.Kind == sink.NoRepair {
			all[i].Kind = resync.Unclear
		}
	}
	return all, nil
}

// Compare has a digest compared.
func (c cache) Compare(d *syncd.Digest, how resync.How) (*resync.Comparison, error) {
	found, err := c.Cache.Compare(d, sink.How(how))
	if errors.Is(err, sink.ErrNoDigest) {
		return nil, &noDigest{err}
	}
	return (*resync.Comparison)(found), err
}

// noDigest is a sink.ErrNoDigest in the words of package resync.
type noDigest struct{ error }

func (e *noDigest) Is(target error) bool { return target == resync.ErrNoDigest }
func (e *noDigest) Unwrap() error        { return e.error }

// Walk gives what is held, in the order of the keys' hash.
func (c cache) Walk(t syncd.Table, from uint64, fn func(syncd.Key, resync.Held) bool) error {
	return c.Cache.Walk(t, from, func(k syncd.Key, e sink.Entry) bool {
		return fn(k, resync.Held{Row: e.Row != nil, Version: e.Version, XID: e.XID, Snap: e.Snap})
	})
}

// Done hands over a complete list.
func (c cache) Done(ctx context.Context, l *resync.List) (syncd.Position, bool, error) {
	return c.Cache.Done(ctx, (*sink.List)(l))
}
