package pgserver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// NewStandby makes a hot standby of s by pg_basebackup and starts it: it streams from s and answers reads. It is a
// server of its own, to be stopped before s. Its options are its own; Epoch has no meaning.
func (s *Server) NewStandby(ctx context.Context, o Options) (*Server, error) {
	return s.copy(ctx, o, "a standby", "--write-recovery-conf")
}

// NewCopy makes a primary out of a backup of s as it is now: the same system identifier and timeline, from then on with
// a life of its own, as after a restore from a backup. Slots are not in it.
func (s *Server) NewCopy(ctx context.Context, o Options) (*Server, error) {
	return s.copy(ctx, o, "a copy")
}

func (s *Server) copy(ctx context.Context, o Options, what string, args ...string) (*Server, error) {
	from, err := s.local("make " + what + " of")
	if err != nil {
		return nil, err
	}
	l, err := newLocal(from.bin)
	if err != nil {
		return nil, err
	}
	q := s.url.Query()
	port, err := strconv.Atoi(q.Get("port"))
	if err == nil {
		args = append([]string{"-D", l.data, "-h", q.Get("host"), "-p", strconv.Itoa(port), "-U", "postgres",
			"--wal-method=stream", "--checkpoint=fast", "--no-sync"}, args...)
		err = l.run(ctx, "pg_basebackup", args...)
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
