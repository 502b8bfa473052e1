package redis

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/remote"
)

// Values says what form a row's value has.
type Values string

// The forms of values.
const (
	JSON Values = "json" // a string: the row as HTTP serves it
	Hash Values = "hash" // a hash of the columns; see split
)

// Options say where a cache is kept.
type Options struct {
	// URL is the server's, as redis.ParseURL reads it. Required.
	URL string
	// Prefix begins every key. Two caches in one database need two, neither of which begins the other.
	Prefix string
	// Key is the template of rows' keys behind the prefix. Default DefaultKey.
	Key string
	// Values is the form of rows. Default JSON.
	Values Values
	// Lease is how long the place stays this process's after it was heard of last. Default 10 s.
	Lease time.Duration
	Log   *slog.Logger // nil: quiet
}

// New makes a store in a Redis server. One that is away is no error: see package remote.
func New(ctx context.Context, o Options) (*remote.Store, error) {
	p, err := newPlace(o)
	if err != nil {
		return nil, err
	}
	return remote.New(ctx, p, p.log)
}

// place is a remote.Place in a Redis server.
type place struct {
	rdb    *redis.Client
	once   *redis.Client // for commits: tries nothing again by itself, since a transaction that was given up watches no more
	log    *slog.Logger
	prefix string
	meta   string // begins the keys of what is syncd's own
	keys   template
	values Values
	lease  time.Duration
	token  string
	who    string

	density density

	checked bool // by Take's goroutine: the server is one that can be used
	keeping sync.WaitGroup
	end     context.CancelFunc // ends keeping; nil before it began
}

//go:embed script.lua
var scriptText string

var script = redis.NewScript(scriptText)

func newPlace(o Options) (*place, error) {
	opt, err := redis.ParseURL(o.URL)
	if err != nil {
		return nil, &unusableError{fmt.Errorf("redis: the url can't be read (%w): write redis://[user:password@]host:6379/0, rediss:// for TLS, or unix:///path?db=0", bare(err))}
	}
	keys, err := parseTemplate(o.Prefix, o.Key)
	if err != nil {
		return nil, &unusableError{err}
	}
	// A script of a large commit, or one that finds the server saving, takes its time.
	opt.ReadTimeout, opt.WriteTimeout, opt.DialTimeout = 30*time.Second, 30*time.Second, 5*time.Second
	opt.MaxRetries = 1 // every step may be done twice; longer waits are the caller's
	opt.DisableIdentity = true
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	once := *opt
	once.MaxRetries = -1
	p := &place{
		rdb: redis.NewClient(opt), once: redis.NewClient(&once), log: o.Log, prefix: o.Prefix, meta: o.Prefix + "_syncd:", keys: keys, values: o.Values, lease: o.Lease,
		token: rand.Text(), who: who(),
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	if p.values == "" {
		p.values = JSON
	}
	if p.lease == 0 {
		p.lease = 10 * time.Second
	}
	return p, nil
}

// bare takes a URL's error without the URL, which may hold a password.
func bare(err error) error {
	if u, ok := errors.AsType[interface {
		error
		Unwrap() error
	}](err); ok {
		return u.Unwrap()
	}
	if strings.Contains(err.Error(), "://") || strings.Contains(err.Error(), "@") {
		return errors.New("it is not of that form")
	}
	return err
}

// who names this process for people.
func who() string {
	host, err := os.Hostname()
	if err != nil {
		host = "a host without a name"
	}
	return fmt.Sprintf("process %d on %s", os.Getpid(), host)
}

// unusableError is an error that does not pass by waiting.
type unusableError struct{ error }

// Unusable says so to package remote.
func (e *unusableError) Unusable() bool { return true }
func (e *unusableError) Unwrap() error  { return e.error }

// String names the place for people.
func (p *place) String() string {
	return fmt.Sprintf("redis at %s, keys %s*", p.rdb.Options().Addr, p.prefix)
}

// say says of an error what was being done, and what mends it where that is known.
func (p *place) say(what string, err error) error {
	text := err.Error()
	mend := ""
	switch {
	case errors.As(err, new(net.Error)), errors.As(err, new(*net.OpError)):
		mend = ": is the server running, and is the url right?"
	case strings.HasPrefix(text, "NOAUTH"), strings.HasPrefix(text, "WRONGPASS"):
		mend = ": give user and password in the url"
	case strings.HasPrefix(text, "NOPERM"):
		mend = ": the user needs read, write, transaction and scripting commands on " + p.prefix + "*"
	case strings.HasPrefix(text, "OOM"):
		mend = ": the server has reached its maxmemory: give it more, or keep fewer tables"
	case strings.HasPrefix(text, "READONLY"):
		mend = ": it is a replica: name the primary in the url"
	case strings.HasPrefix(text, "WRONGTYPE"):
		mend = fmt.Sprintf(": a key below %s was overwritten by somebody: delete it", p.meta)
	}
	return fmt.Errorf("%s: %s: %w%s", p, what, err, mend)
}

// do makes a step of the script.
func (p *place) do(ctx context.Context, step string, args ...any) ([]any, error) {
	all := make([]any, 0, 5+len(args))
	all = append(all, step, p.meta, p.token, p.who, p.lease.Milliseconds())
	answer, err := script.Run(ctx, p.rdb, nil, append(all, args...)...).Slice()
	if err != nil {
		return nil, p.say(step, err)
	}
	switch word, _ := answer[0].(string); word {
	case "ok":
		return answer[1:], nil
	case "used":
		by, _ := answer[1].(string)
		return nil, &remote.InUseError{Place: p.String(), By: by}
	}
	return nil, fmt.Errorf("%s: %s: %w", p, step, remote.ErrMoved)
}

// after makes a step that follows a commit.
func (p *place) after(ctx context.Context, m remote.Mark, step string, args ...any) error {
	all := make([]any, 0, 3+len(args))
	_, err := p.do(ctx, step, append(append(all, m.Gen, m.Seq, m.Nonce), args...)...)
	return err
}

// Release gives the lease up.
func (p *place) Release(ctx context.Context) error {
	_, err := p.do(ctx, "release")
	return err
}

// Close ends what keeps the lease, and the connections.
func (p *place) Close() error {
	if p.end != nil {
		p.end()
	}
	p.keeping.Wait()
	return errors.Join(p.rdb.Close(), p.once.Close())
}

var (
	_ remote.Place = (*place)(nil)
	_ sink.Store   = (*remote.Store)(nil)
)
