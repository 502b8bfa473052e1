package sqlite

import (
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// Digest gives a table's digests: made of what is stored at the first call, after each start and after another process wrote
// to the file, and kept up to date by commits from then on. A row whose columns are not those of its entry counts as another.
func (s *Store) Digest(name syncd.Table, bits int) ([]syncd.Totals, syncd.Epoch, error) {
	s.f.wmu.Lock()
	defer s.f.wmu.Unlock()
	t := s.tables[name]
	if t == nil {
		return make([]syncd.Totals, 1<<bits), 0, nil
	}
	err := s.fresh(t)
	if err == nil && t.sums == nil {
		err = s.verify(t)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("digest %s in %s: %w", name, s.f.path, err)
	}
	all := syncd.Fold(t.sums, bits)
	for k := range t.spoilt {
		all[syncd.BucketOf(k.Hash(), bits)].Digest++
	}
	oldest := syncd.Epoch(0)
	for e, n := range t.epochs {
		if n > 0 && (oldest == 0 || e < oldest) {
			oldest = e
		}
	}
	return all, oldest, nil
}

// shown gives an entry as it is judged: one whose columns are not those of its row has another row, so that it can't be taken
// for right.
func (t *table) shown(k syncd.Key, e sink.Entry) sink.Entry {
	if t.spoilt[k] && e.Row != nil {
		e.Row = append(e.Row[:len(e.Row):len(e.Row)], ' ')
	}
	return e
}

// fresh compares a table with its entries, where another process may have written since that was done.
func (s *Store) fresh(t *table) error {
	if err := s.f.looked(); err != nil {
		return err
	}
	if t.checked == s.f.touched {
		return nil
	}
	t.loaded = nil
	return s.verify(t)
}

// verify makes a table's digests of its entries, and compares the table that others see with them. Two scans and a sum of
// hashes show whether they are equal; what differs is looked for only where they are not.
func (s *Store) verify(t *table) error {
	sums, epochs, rows := make([]syncd.Totals, 1<<syncd.MaxDigestBits), map[syncd.Epoch]int{}, 0
	var want totals
	err := s.entries(t, func(k syncd.Key, e *sink.Entry, sum uint64, has bool) {
		epochs[e.Version.Epoch]++
		if e.Row == nil {
			return
		}
		rows++
		sums[syncd.BucketOf(k.Hash(), syncd.MaxDigestBits)].Add(k, e.Row)
		if has {
			want.add(sum)
		}
	})
	var got totals
	if err == nil {
		err = s.columns(t, func(sum uint64, _ []any) { got.add(sum) })
	}
	spoilt := map[syncd.Key]bool{}
	if err == nil && got != want {
		err = s.differences(t, spoilt)
	}
	if err != nil {
		return err
	}
	t.sums, t.epochs, t.rows, t.spoilt, t.checked = sums, epochs, rows, spoilt, s.f.touched
	return nil
}

// totals tell whether two sets of hashes are equal.
type totals struct{ n, sum uint64 }

func (t *totals) add(sum uint64) { t.n, t.sum = t.n+1, t.sum+sum }

// entries calls fn for each entry, with the hash of the columns that its row should have, where it should have some.
func (s *Store) entries(t *table, fn func(k syncd.Key, e *sink.Entry, sum uint64, has bool)) error {
	var values []any
	var buf []byte
	return walk(s.f.w, t.id, 0, false, func(k syncd.Key, e sink.Entry) bool {
		sum, has := uint64(0), false
		if t.shape != nil && e.Row != nil {
			if values = t.shape.values(e.Row, values); values != nil {
				buf, has = appendValues(buf[:0], values), true
				sum = syncd.KeyHash(buf)
			}
		}
		fn(k, &e, sum, has)
		return true
	})
}

// columns calls fn for each row that others see, with its hash.
func (s *Store) columns(t *table, fn func(sum uint64, values []any)) error {
	if t.shape == nil {
		return nil
	}
	var buf []byte
	values := make([]any, len(t.shape.columns))
	return s.f.w.query("SELECT "+t.shape.names()+" FROM "+quote(t.physical), func(row []driver.Value) error {
		for i, v := range row {
			values[i] = v
		}
		buf = appendValues(buf[:0], values)
		fn(syncd.KeyHash(buf), values)
		return nil
	})
}

// differences finds the keys whose columns are not those of their entries, and takes away the rows that belong to no entry.
func (s *Store) differences(t *table, spoilt map[syncd.Key]bool) error {
	seen := map[uint64]int{}
	if err := s.columns(t, func(sum uint64, _ []any) { seen[sum]++ }); err != nil {
		return err
	}
	err := s.entries(t, func(k syncd.Key, _ *sink.Entry, sum uint64, has bool) {
		switch {
		case !has:
		case seen[sum] > 0:
			seen[sum]--
		default:
			spoilt[k] = true
		}
	})
	var strays [][]any
	if err == nil {
		err = s.columns(t, func(sum uint64, values []any) {
			if seen[sum] > 0 {
				seen[sum]--
				strays = append(strays, t.shape.keyOf(values, nil))
			}
		})
	}
	if err != nil {
		return err
	}
	s.f.log.Warn("rows in the SQLite file were changed behind its back: those without an entry were taken away, the others the next resync puts right",
		"table", t.name, "differ", len(spoilt), "taken_away", len(strays))
	return s.f.w.transaction(func() error {
		for _, key := range strays {
			if err := s.f.w.exec("DELETE FROM "+quote(t.physical)+" WHERE "+t.shape.where(), key...); err != nil {
				return err
			}
		}
		return nil
	})
}

// appendValues writes values so that different ones are different bytes. Zeros have no sign: SQLite keeps none.
func appendValues(b []byte, values []any) []byte {
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			b = append(b, 'n')
		case int64:
			b = binary.LittleEndian.AppendUint64(append(b, 'i'), uint64(v))
		case float64:
			if v == 0 {
				v = 0
			}
			b = binary.LittleEndian.AppendUint64(append(b, 'f'), math.Float64bits(v))
		case string:
			b = append(binary.AppendUvarint(append(b, 't'), uint64(len(v))), v...)
		case []byte:
			b = append(binary.AppendUvarint(append(b, 'b'), uint64(len(v))), v...)
		}
	}
	return b
}
