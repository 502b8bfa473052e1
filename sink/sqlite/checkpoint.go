package sqlite

import (
	"database/sql/driver"
	"sync"
)

// checkpointer takes pages from the write-ahead log into the file beside the commits: it waits for the disk twice, and a
// commit should not. It has a connection of its own, made when it is needed first. The log begins anew at the first commit
// that finds all of it in the file and no reader of it.
type checkpointer struct {
	soft, hard int64 // in pages of the log: from soft on it begins, and at hard a commit waits for it
	tried      int64 // where the log stood when a commit last did it itself

	mu   sync.Mutex // held while it works
	c    *conn
	done sync.WaitGroup
}

const (
	softPages = 16_000
	hardPages = 32_000
)

// heed is called after each commit. The caller holds wmu.
func (f *file) heed() {
	pages := f.walPages()
	k := &f.checkpoints
	switch {
	case pages < k.soft:
		k.tried = 0
	case pages >= k.hard && pages >= k.tried+k.soft: // a reader may keep the log from beginning anew: no commit waits for the same again
		k.tried = pages
		k.done.Wait()
		f.checkpoint()
	case k.mu.TryLock():
		k.mu.Unlock()
		k.done.Go(f.checkpoint)
	}
}

// walPages gives how many pages the log has; 0 where that can't be read.
func (f *file) walPages() (n int64) {
	_ = f.w.query("PRAGMA wal_checkpoint(NOOP)", func(row []driver.Value) error {
		n, _ = row[1].(int64)
		return errStop
	})
	return n
}

// checkpoint takes what the log has into the file, as far as readers of older commits let it. Commits go on meanwhile.
func (f *file) checkpoint() {
	k := &f.checkpoints
	k.mu.Lock()
	defer k.mu.Unlock()
	var err error
	if k.c == nil {
		k.c, err = openConn(f.path, "rw", "synchronous=NORMAL")
	}
	if err == nil {
		_, err = k.c.one("PRAGMA wal_checkpoint(PASSIVE)")
	}
	if err != nil && code(err) != codeBusy {
		f.log.Warn("the SQLite file's write-ahead log can't be taken into the file yet, and grows", "path", f.path, "error", err)
	}
}

// close waits for what runs.
func (k *checkpointer) close() error {
	k.done.Wait()
	if k.c == nil {
		return nil
	}
	return k.c.close()
}
