package source

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/syncd-io/syncd/internal/harness"
)

// smallDisk makes files for large transactions that take no more than so many bytes, as on a disk that is full.
type smallDisk struct {
	room       atomic.Int64 // bytes; 0 without limit
	made, open atomic.Int32
}

func (d *smallDisk) create() (spillFile, error) {
	f, err := tempSpill()
	d.made.Add(1)
	d.open.Add(1)
	return &smallFile{spillFile: f, disk: d}, err
}

type smallFile struct {
	spillFile
	disk *smallDisk
	used int64
}

func (f *smallFile) Write(b []byte) (int, error) {
	if room := f.disk.room.Load(); room > 0 && f.used+int64(len(b)) > room {
		return 0, &os.PathError{Op: "write", Path: "transaction", Err: syscall.ENOSPC}
	}
	n, err := f.spillFile.Write(b)
	f.used += int64(n)
	return n, err
}

func (f *smallFile) Close() error {
	f.disk.open.Add(-1)
	return f.spillFile.Close()
}

// TestDiskIsFullAmidALargeTransaction: nothing of it is published, nothing behind it confirmed, and with room it arrives whole.
func TestDiskIsFullAmidALargeTransaction(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text)`)
	var log lines
	cfg := configFor(t, db, "public.t")
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	watch := NewWatch(cfg, new(Memory))
	disk := &smallDisk{}
	disk.room.Store(1_000_000)
	watch.MaxTransaction, watch.disk = 100_000, disk.create
	w := run(t, watch)
	w.leads()
	db.Exec(`INSERT INTO public.t VALUES (-1, 'before')`)
	w.reach(db)
	at := db.LSN()
	db.Exec(`INSERT INTO public.t SELECT i, repeat('x', 3000) FROM generate_series(1, 1000) i`)
	db.Exec(`INSERT INTO public.t VALUES (-2, 'after')`)
	log.wait(t, "no space left on device")
	log.wait(t, "free space in "+os.TempDir()+", or set TMPDIR")
	harness.Eventually(t, "another try", func() error {
		if n := disk.made.Load(); n < 2 {
			return fmt.Errorf("%d were made", n)
		}
		return nil
	})
	flushes, _ := w.stream.Flushes()
	if r := follow(t, flushes); len(r.rows[tableT]) != 1 || r.commits != 1 {
		t.Errorf("%d rows of %d commits are in the stream while the disk is full, want one", len(r.rows[tableT]), r.commits)
	}
	if _, confirmed, _ := slotAt(db); confirmed == 0 || confirmed > at {
		t.Errorf("the slot is confirmed up to %s, the transaction begins behind %s", confirmed, at)
	}
	disk.room.Store(0)
	w.reach(db)
	flushes, _ = w.stream.Flushes()
	r := follow(t, flushes)
	r.equal(t, db, tableT)
	if r.commits != 3 {
		t.Errorf("%d commits in the stream, 3 were made", r.commits)
	}
	harness.Eventually(t, "its files are given up", func() error {
		if n := disk.open.Load(); n != 0 {
			return errors.New("some are open")
		}
		return nil
	})
}
