package memory

import (
	"unsafe"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// digestFrom is how many entries a table has when its digests begin to be kept: 2^syncd.MaxDigestBits buckets are 256 KiB,
// and of fewer entries they are made in less than a millisecond when somebody asks.
const digestFrom = 4096

var _ sink.Digester = (*Store)(nil)

// Digest implements sink.Digester. It never fails. Where the table is large its buckets were kept up to date by each commit,
// and are only added up.
func (s *Store) Digest(t syncd.Table, bits int) ([]syncd.Totals, syncd.Epoch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.writers[t]
	if !ok {
		return make([]syncd.Totals, 1<<bits), 0, nil
	}
	if w.digest != nil {
		return syncd.Fold(w.digest, bits), w.oldest(), nil
	}
	return w.makeDigest(bits), w.oldest(), nil
}

// makeDigest reads the whole table.
func (t *table) makeDigest(bits int) []syncd.Totals {
	all := make([]syncd.Totals, 1<<bits)
	t.walk(0, func(r *record) bool {
		if r.row != nil {
			hash := t.hash(keyOf(r.key))
			b := &all[syncd.BucketOf(hash, bits)]
			b.Rows++
			b.Digest += syncd.RowDigestOf(hash, r.row)
		}
		return true
	})
	return all
}

// keepDigest begins to keep the digests, once that is worth it. It is called between two commits' writes, when the index is
// complete.
func (w *writer) keepDigest() {
	if w.digest == nil && w.entries >= digestFrom {
		w.digest = w.makeDigest(syncd.MaxDigestBits)
	}
}

// addDigest and subDigest take a row into the digests and out of them.
func (w *writer) addDigest(hash uint64, row []byte) {
	if w.digest == nil || row == nil {
		return
	}
	b := &w.digest[syncd.BucketOf(hash, syncd.MaxDigestBits)]
	b.Rows++
	b.Digest += syncd.RowDigestOf(hash, row)
}

func (w *writer) subDigest(hash uint64, row []byte) {
	if w.digest == nil || row == nil {
		return
	}
	b := &w.digest[syncd.BucketOf(hash, syncd.MaxDigestBits)]
	b.Rows--
	b.Digest -= syncd.RowDigestOf(hash, row)
}

func (w *writer) digestBytes() int { return len(w.digest) * int(unsafe.Sizeof(syncd.Totals{})) }

// oldest is the least epoch of the table's entries.
func (w *writer) oldest() (e syncd.Epoch) {
	first := true
	for no := range w.origins.n {
		if o := w.origins.at(no); o.used && w.interned.refs[no] > 0 && (first || o.epoch < e) {
			e, first = o.epoch, false
		}
	}
	return e
}
