package bus

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/syncd-io/syncd/internal/natsserver"
)

func TestConnectTellsWhyItCant(t *testing.T) {
	ctx := testContext(t)
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port where nobody is
	if err != nil {
		t.Fatal(err)
	}
	nobody := "nats://" + l.Addr().String()
	l.Close()
	locked := testServer(t, func(c *natsserver.Config) {
		c.Options = func(o *server.Options) { o.Username, o.Password = "ann", "secret" }
	})
	for _, c := range []struct {
		name string
		cfg  Config
		is   error
		want string
	}{
		{"nobody there", Config{URL: nobody}, ErrUnreachable, nobody},
		{"no credentials", Config{URL: locked.URL()}, ErrAuth, "credentials"},
		{"wrong password", Config{URL: locked.URL(), User: "ann", Password: "other"}, ErrAuth, "credentials"},
		{"no such creds file", Config{URL: locked.URL(), Creds: filepath.Join(t.TempDir(), "none")}, nil, "none"},
		{"no such nkey file", Config{URL: locked.URL(), NKey: filepath.Join(t.TempDir(), "none")}, nil, "none"},
		{"no such CA", Config{URL: locked.URL(), TLSCA: filepath.Join(t.TempDir(), "none")}, nil, "none"},
		{"two ways", Config{URL: locked.URL(), User: "ann", Token: "x"}, nil, "at most one"},
	} {
		nc, err := Connect(ctx, c.cfg)
		if err == nil {
			nc.Close()
			t.Errorf("%s: connected", c.name)
			continue
		}
		if c.is != nil && !errors.Is(err, c.is) || c.is == nil && (errors.Is(err, ErrUnreachable) || errors.Is(err, ErrAuth)) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	nc, err := Connect(ctx, Config{URL: nobody + "," + locked.URL(), User: "ann", Password: "secret", Name: "me"})
	if err != nil {
		t.Fatal(err)
	}
	if nc.Opts.Name != "me" {
		t.Errorf("named %q", nc.Opts.Name)
	}
	nc.Close()
}

func TestConnectByNKey(t *testing.T) {
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := user.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(file, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	srv := testServer(t, func(c *natsserver.Config) {
		c.Options = func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} }
	})
	nc, err := Connect(testContext(t), Config{URL: srv.URL(), NKey: file})
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
}

func TestConnectWaitsForTheServer(t *testing.T) {
	srv := testServer(t, nil)
	srv.Stop()
	short, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := ConnectWait(short, Config{URL: srv.URL()}); err == nil {
		t.Error("connected to nobody")
	}
	done := make(chan error, 1)
	go func() {
		nc, err := ConnectWait(testContext(t), Config{URL: srv.URL(), Log: testLog(t)})
		if err == nil {
			nc.Close()
		}
		done <- err
	}()
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := ConnectWait(testContext(t), Config{URL: srv.URL(), User: "a", Token: "b"}); err == nil {
		t.Error("a wrong configuration is tried for ever")
	}
}

// failed gives the detail of the first precondition that isn't met.
func failed(list []Finding) string {
	for _, f := range list {
		if !f.OK {
			return f.What + ": " + f.Detail
		}
	}
	return ""
}

func TestCheckSaysWhatMendsIt(t *testing.T) {
	ctx := testContext(t)
	limits := Limits{MaxAge: time.Hour, MaxBytes: 1 << 20}
	_, err := Connect(ctx, Config{URL: "nats://127.0.0.1:1"})
	if got := failed(Check(ctx, nil, err, "shop", limits)); !strings.Contains(got, "bus.url") {
		t.Errorf("unreachable: %s", got)
	}
	none := testServer(t, func(c *natsserver.Config) { c.NoJetStream = true })
	if got := failed(Check(ctx, testConn(t, none), nil, "shop", limits)); !strings.Contains(got, "-js") {
		t.Errorf("no JetStream: %s", got)
	}
	small := testServer(t, func(c *natsserver.Config) { c.MaxPayload = 8 << 10 })
	if got := failed(Check(ctx, testConn(t, small), nil, "shop", limits)); !strings.Contains(got, "max_payload is 8192") {
		t.Errorf("small messages: %s", got)
	}

	nc, name := testConn(t, nil), syncName(t)
	if got := failed(Check(ctx, nc, nil, name, limits)); got != "" {
		t.Errorf("nothing is wrong: %s", got)
	}
	if got := failed(Check(ctx, nc, nil, name, Limits{})); !strings.Contains(got, "bus.stream.max_age") {
		t.Errorf("no bounds: %s", got)
	}
	if got := failed(Check(ctx, nc, nil, name, Limits{MaxAge: time.Second})); !strings.Contains(got, "hours") {
		t.Errorf("a short age: %s", got)
	}
	js := testJetStream(t, nc)
	other := jetstream.StreamConfig{Name: "GREEDY_" + strings.ToUpper(name), Subjects: []string{"syncd." + name + ".>"}}
	if _, err := js.CreateStream(ctx, other); err != nil {
		t.Fatal(err)
	}
	if got := failed(Check(ctx, nc, nil, name, limits)); !strings.Contains(got, other.Name) {
		t.Errorf("captured by another: %s", got)
	}
	if err := js.DeleteStream(ctx, other.Name); err != nil {
		t.Fatal(err)
	}
	testPublisher(t, nc, nil)
	list := Check(ctx, nc, nil, name, limits)
	if got := failed(list); got != "" || !strings.Contains(list[len(list)-1].Detail, "holds 0 messages") {
		t.Errorf("ours: %+v", list)
	}
}

func TestCheckLooksAtTheAccountsLimits(t *testing.T) {
	ctx := testContext(t)
	srv := testServer(t, func(c *natsserver.Config) { c.Options = func(o *server.Options) { o.JetStreamMaxStore = 1 << 20 } })
	nc := testConn(t, srv)
	for _, c := range []struct {
		change func(*accountInfo)
		limits Limits
		want   string
	}{
		{func(i *accountInfo) { i.Limits.MaxStorage = 100 }, Limits{MaxBytes: 200}, "max_bytes"},
		{func(i *accountInfo) { i.Limits.MaxStorage, i.Storage = 100, 100 }, Limits{MaxAge: time.Hour}, "used up"},
		{func(i *accountInfo) { i.Limits.MaxBytesReq = true }, Limits{MaxAge: time.Hour}, "wants a size"},
		{func(i *accountInfo) {
			i.Tiers = map[string]accountUse{"R3": {Storage: 5}}
			u := i.Tiers["R3"]
			u.Limits.MaxStorage = 5
			i.Tiers["R3"] = u
		}, Limits{MaxAge: time.Hour, Replicas: 3}, "used up"},
		{func(i *accountInfo) { i.Limits.MaxStorage = 1000 }, Limits{MaxBytes: 200}, ""},
	} {
		var info accountInfo
		c.change(&info)
		if got := failed(checkLimits(&info, c.limits)); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("got %q, want …%s…", got, c.want)
		}
	}
	info := accountInfo{}
	info.Limits.MaxStreams, info.Streams = 1, 1
	if f := checkStream(ctx, nc, "shop", &info); f.OK || !strings.Contains(f.Detail, "1 streams") {
		t.Errorf("%+v", f)
	}
}
