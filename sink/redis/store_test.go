package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/redisserver"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/remote"
	"github.com/syncd-io/syncd/sink/storetest"
)

// shared is the server of the tests that don't harm it.
var shared = sync.OnceValues(func() (*redisserver.Server, error) {
	return redisserver.Start(context.Background(), redisserver.Options{Args: []string{"--databases", "1000"}})
})

func TestMain(m *testing.M) {
	code := m.Run()
	if s, err := shared(); err == nil {
		if err := s.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func sharedServer(t testing.TB) *redisserver.Server {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ownServer gives a server that a test may do anything to.
func ownServer(t testing.TB, args ...string) *redisserver.Server {
	t.Helper()
	s, err := redisserver.Start(t.Context(), redisserver.Options{Args: args})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var places atomic.Int64

// options give a place of the test's own on the shared server: a database.
func options(s *redisserver.Server) Options {
	// Prefixes hold what means something to MATCH.
	return Options{URL: fmt.Sprintf("redis://%s/%d", s.Addr(), places.Add(1)), Prefix: "p[1-2]*:", Lease: time.Hour}
}

// client gives a connection of another program.
func client(t testing.TB, o Options) *redis.Client {
	t.Helper()
	opt, err := redis.ParseURL(o.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(opt)
	t.Cleanup(func() { c.Close() })
	return c
}

func open(t testing.TB, o Options) sink.Store {
	t.Helper()
	s, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// dying fails each command from some step of a commit on.
type dying struct {
	armed, dead atomic.Bool
	left        atomic.Int64
}

var errDead = errors.New("killed by the test")

func (d *dying) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (d *dying) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if d.armed.Load() && (cmd.Name() == "evalsha" || cmd.Name() == "eval" || cmd.Name() == "lrange") && d.left.Add(-1) < 0 {
			d.dead.Store(true)
		}
		if d.dead.Load() {
			cmd.SetErr(errDead)
			return errDead
		}
		return next(ctx, cmd)
	}
}

func (d *dying) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		// A commit is a look with WATCH, and a transaction of writes.
		if d.armed.Load() && (cmds[0].Name() == "watch" || cmds[len(cmds)-1].Name() == "exec" && cmds[len(cmds)-2].Name() == "hset") && d.left.Add(-1) < 0 {
			d.dead.Store(true)
		}
		if d.dead.Load() {
			for _, c := range cmds {
				c.SetErr(errDead)
			}
			return errDead
		}
		return next(ctx, cmds)
	}
}

// suite is a place for the conformance suite.
func suite(values Values) func(testing.TB) storetest.Place {
	return func(t testing.TB) storetest.Place {
		o := options(sharedServer(t))
		o.Values = values
		other := client(t, o)
		keys, err := parseTemplate(o.Prefix, "")
		if err != nil {
			t.Fatal(err)
		}
		var now *dying
		must := func(t testing.TB, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		rowOf := func(table syncd.Table, k syncd.Key) string { return keys.row(keys.table(table), k) }
		return storetest.Place{
			Keeps: true,
			Open: func(t testing.TB) sink.Store {
				if now != nil && now.dead.Load() {
					must(t, other.Del(t.Context(), o.Prefix+"_syncd:owner").Err()) // its lease has run out
				}
				p, err := newPlace(o)
				must(t, err)
				now = &dying{}
				p.rdb.AddHook(now)
				p.once.AddHook(now)
				s, err := remote.New(t.Context(), p, nil)
				must(t, err)
				return s
			},
			Crash: func(t testing.TB, _ sink.Store, step int) {
				now.left.Store(int64(step))
				now.armed.Store(true)
			},
			Spoils: []storetest.Spoil{
				{Name: "another value", Do: func(t testing.TB, table syncd.Table, k syncd.Key) {
					if values == Hash {
						must(t, other.HSet(t.Context(), rowOf(table, k), "name", "Mallory").Err())
						return
					}
					must(t, other.Set(t.Context(), rowOf(table, k), `{"id":1,"name":"Mallory"}`, 0).Err())
				}},
				{Name: "no value", Do: func(t testing.TB, table syncd.Table, k syncd.Key) {
					must(t, other.Del(t.Context(), rowOf(table, k)).Err())
				}},
				{Name: "a value of another kind", Do: func(t testing.TB, table syncd.Table, k syncd.Key) {
					must(t, other.Del(t.Context(), rowOf(table, k)).Err())
					must(t, other.LPush(t.Context(), rowOf(table, k), "x").Err())
				}},
				{Name: "no entry", Do: func(t testing.TB, table syncd.Table, k syncd.Key) {
					must(t, other.HDel(t.Context(), bucket(o.Prefix+"_syncd:e:"+table.String()+":", k), string(k)).Err())
				}},
				{Name: "a garbled entry", Do: func(t testing.TB, table syncd.Table, k syncd.Key) {
					must(t, other.HSet(t.Context(), bucket(o.Prefix+"_syncd:e:"+table.String()+":", k), string(k), "\xff").Err())
				}},
			},
		}
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, suite(JSON))
}

func TestStoreOfHashes(t *testing.T) {
	t.Parallel()
	storetest.Run(t, suite(Hash))
}
