package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/syncd-io/syncd"
)

// format numbers the form of the file. A file of another one is put aside.
const format = 2

// applicationID marks the file as this package's ("sync").
const applicationID = 0x73796e63

// InUseError says that another process, or another sink of this one, writes to a file.
type InUseError struct{ Path string }

func (e *InUseError) Error() string {
	return fmt.Sprintf("SQLite file %s is in use by another sidecar: stop it, or give each sink a file of its own (path)", e.Path)
}

// file is an open file: the connection that writes, and those that read. Its stores, one of each generation, share it.
type file struct {
	path string
	log  *slog.Logger
	hash func(syncd.Key) uint64 // by which entries are stored: a field, so that tests can make it collide
	lock *conn                  // holds the lock file

	wmu sync.Mutex // held by whoever uses w
	w   *conn
	// version is PRAGMA data_version as of the last look: another number says that another process has written.
	version int64
	// touched counts what others wrote: each table is compared with its entries once for each number.
	touched int
	// indexes are those that the tables others see have.
	indexes map[syncd.Table][][]string
	// step is called between the steps of a commit; an error of it ends the commit as a crash would. For tests.
	step func() error

	checkpoints checkpointer

	mu sync.RWMutex // held by whoever begins to read, and, to write, by whoever makes a commit visible

	idleMu sync.Mutex
	idle   []*conn // that read
	done   bool
}

// openFile opens the file, or makes it. One that is no good is put aside first.
func openFile(path, name string, log *slog.Logger) (*file, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("SQLite file %s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(abs), 0o700); err != nil {
		return nil, fmt.Errorf("SQLite file %s: %w", abs, err)
	}
	f := &file{path: abs, log: log, hash: syncd.Key.Hash, touched: 1, checkpoints: checkpointer{soft: softPages, hard: hardPages}}
	if err := f.takeLock(); err != nil {
		return nil, err
	}
	err = f.begin(name)
	if why, ok := errors.AsType[*unfit](err); ok {
		err = f.afresh(name, why)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("SQLite file %s: %w", abs, err), f.close())
	}
	return f, nil
}

// takeLock holds a lock until the process ends, however it ends: an exclusive transaction on a database beside the file.
func (f *file) takeLock() error {
	var err error
	if f.lock, err = openConn(f.path+"-lock", "rwc"); err != nil {
		return fmt.Errorf("lock SQLite file %s: %w", f.path, err)
	}
	if err = f.lock.exec("BEGIN EXCLUSIVE"); err == nil {
		return nil
	}
	closed := f.lock.close()
	if code(err) == codeBusy {
		return errors.Join(&InUseError{f.path}, closed)
	}
	return errors.Join(fmt.Errorf("lock SQLite file %s: %w", f.path, err), closed)
}

// unfit says why a file can't be gone on with.
type unfit struct{ why string }

func (e *unfit) Error() string { return e.why }

// begin opens the connection that writes, and makes what an empty file lacks.
func (f *file) begin(name string) (err error) {
	f.w, err = openConn(f.path, "rwc", "busy_timeout=10000", "journal_mode=WAL", "synchronous=NORMAL", "cache_size=-65536",
		"wal_autocheckpoint=0", "journal_size_limit=134217728", "temp_store=MEMORY")
	if err == nil {
		err = f.inspect(name)
	}
	if damaged(err) {
		err = &unfit{"it is damaged: " + err.Error()}
	}
	if err != nil {
		if f.w != nil {
			err = errors.Join(err, f.w.close())
			f.w = nil
		}
		return err
	}
	f.version, err = f.w.oneInt("PRAGMA data_version")
	return err
}

// inspect says whether the file is this sync's, and sound.
func (f *file) inspect(name string) error {
	tables, err := f.w.oneInt("SELECT count(*) FROM sqlite_master")
	if err != nil {
		return err
	}
	id, err := f.w.oneInt("PRAGMA application_id")
	if err != nil {
		return err
	}
	if tables == 0 && id == 0 {
		return f.w.transaction(func() error { return f.create(name) })
	}
	if id != applicationID {
		return &unfit{"it was not written by syncd"}
	}
	checked, err := f.w.one("PRAGMA quick_check(1)")
	if err != nil {
		return err
	}
	if checked != "ok" {
		return &unfit{fmt.Sprintf("it is damaged: %v", checked)}
	}
	for key, want := range map[string]string{"format": strconv.Itoa(format), "name": name} {
		v, err := f.w.one("SELECT value FROM _syncd_meta WHERE key = ?", key)
		if err != nil {
			return &unfit{"it is damaged: " + err.Error()}
		}
		if v != want {
			return &unfit{fmt.Sprintf("its %s is %v, want %s", key, v, want)}
		}
	}
	return nil
}

// create makes what each file has.
func (f *file) create(name string) error {
	for _, text := range []string{
		"PRAGMA application_id = " + strconv.Itoa(applicationID),
		"CREATE TABLE _syncd_meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
		"CREATE TABLE _syncd_state (generation INTEGER PRIMARY KEY, commits INTEGER NOT NULL, state BLOB NOT NULL)",
		// table_schema and table_name are the source's; sqlite_table is what others read, empty where there is none.
		`CREATE TABLE _syncd_tables (id INTEGER PRIMARY KEY AUTOINCREMENT, generation INTEGER NOT NULL, table_schema TEXT NOT NULL,
			table_name TEXT NOT NULL, sqlite_table TEXT NOT NULL, UNIQUE (generation, table_schema, table_name))`,
	} {
		if err := f.w.once(text); err != nil {
			return err
		}
	}
	for key, value := range map[string]any{"format": strconv.Itoa(format), "name": name, "generation": int64(1)} {
		if err := f.w.exec("INSERT INTO _syncd_meta VALUES (?, ?)", key, value); err != nil {
			return err
		}
	}
	return nil
}

// afresh puts the file aside and begins with an empty one.
func (f *file) afresh(name string, why error) error {
	aside := f.path + ".bad-" + time.Now().UTC().Format("20060102T150405.000000Z")
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Rename(f.path+end, aside+end); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("put it aside, because %w: %w", why, err)
		}
	}
	f.log.Warn("the SQLite file is no good and was put aside: every table is listed anew", "path", f.path, "aside", aside, "error", why)
	return f.begin(name)
}

// looked takes note of what other processes wrote. The caller holds wmu.
func (f *file) looked() error {
	n, err := f.w.oneInt("PRAGMA data_version")
	if err != nil {
		return err
	}
	if n != f.version {
		f.version = n
		f.touched++
		f.log.Warn("another process wrote to the SQLite file: what is stored is read again and compared; open the file read-only", "path", f.path)
	}
	return nil
}

// maxIdle is how many connections wait for the next reader.
const maxIdle = 16

// reader gives a connection that reads one commit, and what the caller says is true of that commit: pinned is called when
// no other commit can become visible.
func (f *file) reader(pinned func()) (*conn, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	c, err := f.take()
	if err != nil {
		return nil, err
	}
	err = c.exec("BEGIN")
	if err == nil {
		_, err = c.one("SELECT value FROM _syncd_meta WHERE key = 'format'") // a transaction begins to read at its first statement
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	pinned()
	return c, nil
}

func (f *file) take() (*conn, error) {
	f.idleMu.Lock()
	if n := len(f.idle); n > 0 {
		c := f.idle[n-1]
		f.idle = f.idle[:n-1]
		f.idleMu.Unlock()
		return c, nil
	}
	f.idleMu.Unlock()
	return openConn(f.path, "ro", "busy_timeout=10000", "query_only=ON")
}

// giveBack ends a reader's transaction.
func (f *file) giveBack(c *conn, broken bool) {
	if c.exec("COMMIT") != nil {
		broken = true
	}
	f.idleMu.Lock()
	defer f.idleMu.Unlock()
	if broken || f.done || len(f.idle) >= maxIdle {
		_ = c.close() // it only read
		return
	}
	f.idle = append(f.idle, c)
}

// close gives everything up. Readers that are open close their own connections.
func (f *file) close() (err error) {
	f.wmu.Lock()
	defer f.wmu.Unlock()
	f.idleMu.Lock()
	idle := f.idle
	f.idle, f.done = nil, true
	f.idleMu.Unlock()
	for _, c := range idle {
		err = errors.Join(err, c.close())
	}
	err = errors.Join(err, f.checkpoints.close())
	if f.w != nil {
		err = errors.Join(err, f.w.close())
		f.w = nil
	}
	if f.lock != nil {
		err = errors.Join(err, f.lock.close())
		f.lock = nil
	}
	return err
}
