package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/internal/redisserver"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/remote"
)

var users = syncd.Table{Schema: "public", Name: "users"}

// batch is a commit of one row.
func batch(at int, keys ...string) *sink.Batch {
	b := &sink.Batch{State: &sink.State{
		Cursor: syncd.Cursor{Seq: uint64(at), Position: syncd.Position{Epoch: 1, LSN: syncd.LSN(at)}},
		Tables: map[syncd.Table]*sink.TableState{users: {Listed: true, Info: syncd.TableInfo{Table: users, Key: []string{"id"}, Schema: 7}}},
	}}
	for _, k := range keys {
		b.Writes = append(b.Writes, sink.Write{Table: users, Key: syncd.MakeKey(k), Entry: sink.Entry{
			Row: fmt.Appendf(nil, `{"id":%s,"at":%d}`, k, at), Version: syncd.Version{Epoch: 1, LSN: syncd.LSN(at), Ordinal: 1}, XID: syncd.XID(at)}})
	}
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestNotAsItWasLeft has the server lose what it held, in each way there is: the next commit says so, and nothing that was
// there is served or left.
func TestNotAsItWasLeft(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, s *redisserver.Server, c *redis.Client){
		"FLUSHALL": func(t *testing.T, _ *redisserver.Server, c *redis.Client) { must(t, c.FlushAll(t.Context()).Err()) },
		"a restart without the data": func(t *testing.T, s *redisserver.Server, _ *redis.Client) {
			s.Kill()
			must(t, s.Start(t.Context()))
		},
		"the state alone is gone": func(t *testing.T, _ *redisserver.Server, c *redis.Client) {
			must(t, c.Del(t.Context(), "p:_syncd:state").Err())
		},
		"the state is overwritten": func(t *testing.T, _ *redisserver.Server, c *redis.Client) {
			must(t, c.HSet(t.Context(), "p:_syncd:state", "seq", "x").Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := ownServer(t)
			o := Options{URL: server.URL(), Prefix: "p:"}
			other := client(t, o)
			s := open(t, o)
			defer s.Close()
			must(t, s.Commit(batch(1, "1", "2")))
			must(t, s.Commit(batch(2, "1")))
			view := s.View()
			defer view.Close()
			lose(t, server, other)
			if _, ok := view.Get(users, "2"); ok || view.Err() == nil {
				t.Errorf("a view of what is gone gives %v, error %v", ok, view.Err())
			}
			err := s.Commit(batch(3, "3"))
			if !errors.Is(err, sink.ErrReset) {
				t.Fatalf("a commit upon a server that lost its data: %v", err)
			}
			st := s.State()
			if ts := st.Tables[users]; !st.Cursor.Position.IsZero() || ts == nil || ts.Listed || ts.Rows != 0 || ts.Info.Schema != 7 {
				t.Errorf("the state is %+v, its table %+v", st, ts)
			}
			must(t, s.Commit(batch(4, "4")))
			keys, err := other.Keys(t.Context(), "p:public*").Result()
			if err != nil || !slices.Equal(keys, []string{"p:public.users:4"}) {
				t.Errorf("the server holds %v, %v", keys, err)
			}
		})
	}
}

// TestBackAtAnOlderCommit fails over to a copy that lags.
func TestBackAtAnOlderCommit(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	o := Options{URL: server.URL(), Prefix: "p:"}
	s := open(t, o)
	defer s.Close()
	must(t, s.Commit(batch(1, "1", "2")))
	must(t, client(t, o).Save(t.Context()).Err())
	must(t, s.Commit(batch(2, "3")))
	server.Kill()
	if err := s.Commit(batch(3, "4")); err == nil || errors.Is(err, sink.ErrReset) || !strings.Contains(err.Error(), "is the server running") {
		t.Fatalf("a commit without a server: %v", err)
	}
	must(t, server.Start(t.Context()))
	if err := s.Commit(batch(3, "4")); !errors.Is(err, sink.ErrReset) {
		t.Fatalf("a commit upon an older copy: %v", err)
	}
	must(t, s.Commit(batch(4, "4")))
	if keys, err := client(t, o).Keys(t.Context(), "p:public*").Result(); err != nil || len(keys) != 1 {
		t.Errorf("the server holds %v, %v", keys, err)
	}
}

// TestAwayAtTheStart opens a store whose server comes later: with nothing in it, and with what an earlier process left.
func TestAwayAtTheStart(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	o := Options{URL: server.URL(), Prefix: "p:", Lease: 50 * time.Millisecond}
	before := open(t, o)
	must(t, before.Commit(batch(5, "1")))
	must(t, client(t, o).Save(t.Context()).Err())
	must(t, before.Close())
	server.Kill()
	s := open(t, o)
	defer s.Close()
	if _, _, err := s.Load(users, "1"); err == nil || len(s.State().Tables) != 0 {
		t.Fatalf("without a server: %v, state %+v", err, s.State())
	}
	must(t, server.Start(t.Context()))
	harness.Eventually(t, "the state of before is taken over", func() error {
		_, _, err := s.Load(users, "1")
		if errors.Is(err, sink.ErrReset) {
			return nil
		}
		return fmt.Errorf("load: %w", err)
	})
	if got := s.State().Cursor.Seq; got != 5 {
		t.Errorf("the cursor is at %d, want 5", got)
	}
	if e, ok, err := s.Load(users, "1"); !ok || err != nil || string(e.Row) != `{"id":1,"at":5}` {
		t.Errorf("the row is %s, %v, %v", e.Row, ok, err)
	}
}

// TestOneProcessAtATime has two processes want one place: the second waits and says for whom, goes on when the first one's
// lease has run out, and then the first can't write any more.
func TestOneProcessAtATime(t *testing.T) {
	t.Parallel()
	o := options(sharedServer(t))
	first := open(t, o)
	must(t, first.Commit(batch(1, "1", "2")))
	second := open(t, o)
	var inUse *remote.InUseError
	if err := second.Commit(batch(2, "1")); !errors.As(err, &inUse) || !strings.Contains(err.Error(), "process ") {
		t.Fatalf("two processes in one place: %v", err)
	}
	must(t, client(t, o).Del(t.Context(), o.Prefix+"_syncd:owner").Err()) // the lease has run out
	if err := second.Commit(batch(2, "1")); !errors.Is(err, sink.ErrReset) || second.State().Cursor.Seq != 1 {
		t.Fatalf("the second does not take the place over: %v, state %+v", err, second.State())
	}
	must(t, second.Commit(batch(2, "1")))
	if err := first.Commit(batch(9, "1")); !errors.As(err, &inUse) {
		t.Fatalf("the first still writes: %v", err)
	}
	if e, _, err := second.Load(users, "1"); err != nil || e.Version.LSN != 2 {
		t.Fatalf("the row is of %s, %v", e.Version, err)
	}
	must(t, second.Close())
	if err := first.Commit(batch(9, "1")); !errors.Is(err, sink.ErrReset) || first.State().Cursor.Seq != 2 {
		t.Fatalf("the first does not see what the second did: %v, state %+v", err, first.State())
	}
	must(t, first.Close())
}

// lossy loses the answer to the next commit.
type lossy struct {
	redis.Hook
	armed bool
}

func (l *lossy) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *lossy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if l.armed && cmds[len(cmds)-1].Name() == "exec" && cmds[len(cmds)-2].Name() == "hset" && err == nil {
			l.armed = false
			for _, c := range cmds {
				c.SetErr(errDead)
			}
			return errDead
		}
		return err
	}
}

func (l *lossy) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if l.armed && cmd.Name() == "evalsha" && err == nil {
			l.armed = false
			cmd.SetErr(errDead)
			return errDead
		}
		return err
	}
}

func TestTheAnswerToACommitIsLost(t *testing.T) {
	t.Parallel()
	p, err := newPlace(options(sharedServer(t)))
	must(t, err)
	l := &lossy{}
	p.rdb.AddHook(l)
	p.once.AddHook(l)
	s, err := remote.New(t.Context(), p, nil)
	must(t, err)
	defer s.Close()
	must(t, s.Commit(batch(1, "1")))
	view := s.View()
	defer view.Close()
	l.armed = true
	must(t, s.Commit(batch(2, "1")))
	if e, ok, err := s.Load(users, "1"); !ok || err != nil || e.Version.LSN != 2 || s.State().Cursor.Seq != 2 {
		t.Errorf("behind a commit whose answer was lost: %+v, %v", e, err)
	}
	if e, _ := view.Get(users, "1"); e.Version.LSN != 1 || view.Err() != nil {
		t.Errorf("the view of before shows %+v, %v", e, view.Err())
	}
}

// TestStalled stops the server for longer than the lease, and has it go on: nothing was lost, and nobody else was there.
func TestStalled(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	s := open(t, Options{URL: server.URL(), Prefix: "p:", Lease: 30 * time.Millisecond})
	defer s.Close()
	must(t, s.Commit(batch(1, "1")))
	must(t, server.Signal(syscall.SIGSTOP))
	done := make(chan error, 1)
	go func() { done <- s.Commit(batch(2, "1")) }()
	must(t, server.Signal(syscall.SIGCONT))
	must(t, harness.Receive(t, "the commit ends", done))
}

func TestWhatCantBeUsed(t *testing.T) {
	t.Parallel()
	cluster := ownServer(t, "--cluster-enabled", "yes")
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{URL: cluster.URL(), Prefix: "p:"}, "it is a cluster"},
		{Options{URL: "http://u:secret@127.0.0.1", Prefix: "p:"}, "write redis://"},
		{Options{URL: "redis://u:secret@127.0.0.1:x", Prefix: "p:"}, "write redis://"},
		{Options{URL: "redis://127.0.0.1", Key: "{key}"}, "it must have {table} once"},
		{Options{URL: "redis://127.0.0.1", Key: "{table}{key}"}, "between {table} and {key}"},
		{Options{URL: "redis://127.0.0.1", Key: "{table}.{key}"}, "between {table} and {key}"},
		{Options{URL: "redis://127.0.0.1", Key: "{table}:"}, "it must have {key} once"},
		{Options{URL: "redis://127.0.0.1", Key: "{{table}:{key}}"}, "nothing but {table} and {key}"},
	} {
		s, err := New(t.Context(), c.o)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s %s: %v, want an error that says %q and no password", c.o.URL, c.o.Key, err, c.want)
		}
	}
}

// lines is a log that can be read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) has(text string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !strings.Contains(l.b.String(), text) {
		return fmt.Errorf("the log does not say %q: %s", text, l.b.String())
	}
	return nil
}

// TestEviction has the server throw rows away: it is warned of, and a walk shows what is gone as absent.
func TestEviction(t *testing.T) {
	t.Parallel()
	server := ownServer(t, "--maxmemory", "6mb", "--maxmemory-policy", "allkeys-random")
	var log lines
	s := open(t, Options{URL: server.URL(), Prefix: "p:", Lease: 30 * time.Millisecond, Log: slog.New(slog.NewTextHandler(&log, nil))})
	defer s.Close()
	must(t, log.has("may evict rows"))
	n := 0
	harness.Eventually(t, "evictions are warned of", func() error {
		n++
		b := batch(n, fmt.Sprint(n))
		b.Writes[0].Entry.Row = bytes.Repeat([]byte("x"), 200_000)
		if err := s.Commit(b); err != nil && !errors.Is(err, sink.ErrReset) {
			return err
		}
		return log.has("the server evicts keys")
	})
}
