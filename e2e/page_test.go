//go:build browser

package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/internal/daemon"
	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/internal/natsserver"
)

// browser starts a headless Chromium (Debian's package chromium) whose console must stay free of errors.
func browser(t *testing.T) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.WindowSize(1280, 1240))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithErrorf(t.Errorf))
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start a browser (apt-get install chromium): %v", err)
	}
	return ctx
}

type action = chromedp.Action[chromedp.Void]

// holds waits until a script gives true.
func holds(what, script string) action {
	poll := chromedp.Poll[chromedp.Void](script, chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(0))
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		v, err := poll(ctx, t)
		if err != nil {
			err = fmt.Errorf("wait until %s: %w", what, err)
		}
		return v, err
	}
}

// shows waits until an element shows a text.
func shows(selector, text string) action {
	return holds(selector+" shows "+text, fmt.Sprintf(`[...document.querySelectorAll(%q)].some(e => e.textContent.includes(%q))`, selector, text))
}

// sets gives a field a value.
func sets(field, value string) action {
	return chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector(%q).value = %q; undefined`, field, value))
}

// enters puts a text into a field and presses the key of its form.
func enters(field, text string) action {
	return chromedp.Steps(sets(field, ""), chromedp.SendKeys(chromedp.CSS(field), text+"\r"))
}

// TestStatusPage opens the status page in a browser: it loads, follows the cache, explains a key, runs a resync, and shows a
// fault for as long as it lasts. SYNCD_SCREENSHOTS names a directory to put pictures in.
func TestStatusPage(t *testing.T) {
	f := fleetOn(t, harness.Database(t), harness.NATSServer(t, natsserver.Config{}), "public.orders", "public.customers", "public.events")
	f.db.Exec(`CREATE TABLE customers (id int PRIMARY KEY, name text); INSERT INTO customers SELECT i, 'Customer ' || i FROM generate_series(1, 300) i;
		CREATE TABLE orders (id int PRIMARY KEY, customer int, state text, total numeric); INSERT INTO orders SELECT i, i % 300, 'open', i * 1.25 FROM generate_series(1, 2000) i;
		CREATE TABLE events (at timestamptz, what text)`)
	ctx, address := browser(t), f.page()
	do := func(what string, actions ...action) {
		t.Helper()
		one, cancel := context.WithTimeout(ctx, harness.HangGuard)
		defer cancel()
		if err := chromedp.Do(one, actions...); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	do("it loads", chromedp.Navigate(address), shows("#state", "ready"), shows("#name", f.bus.Name), shows("#tiles", "2,300"),
		shows("#tables tbody tr", "public.orders"), shows("#faults li", "public.events is refused"), shows("#reports tbody", "public.customers"))
	stop := f.writes("UPDATE orders SET total = total + 1, state = 'paid' WHERE id = 1 + (random() * 1999)::int")
	do("it follows", holds("the plots move", `samples.filter(s => s.applied > 0 && s.p50 > 0).length > 20`), shows("#charts", "Commit to applied"), shows("#charts", "Log held by the slot"))
	shot(t, ctx, "status-light", false, 1280)
	shot(t, ctx, "status-dark", true, 1280)
	shot(t, ctx, "status-phone", true, 390)
	stop()
	f.db.Exec("INSERT INTO customers VALUES (1000, '<b>x</b>')")
	do("it updates", shows("#tables tbody tr", "301"))

	do("it explains a key", sets("#explain-table", "public.customers"), enters("#explain-key", "1000"),
		shows("#explained .pill", "equal"), shows("#explained pre", "<b>x</b>"), shows("#explained pre", "upsert"))
	do("a key that is none", enters("#explain-key", "1,2"), holds("the mistake is named", `(document.querySelector("#explained .bad") || {textContent: ""}).textContent.includes("id")`))

	do("it runs a resync", chromedp.Focus(chromedp.CSS(`button[data-table="public.customers"]`)), chromedp.KeyEvent("\r"),
		holds("the report is there", `[...document.querySelectorAll('#reports tbody tr')].some(r => r.cells[0].textContent === 'public.customers' && r.cells[1].textContent === 'digest')`),
		holds("the button can be pressed again, and has the focus", `document.activeElement.dataset.table === 'public.customers' && document.activeElement.getAttribute('aria-disabled') !== 'true'`))

	f.bus.Server.Stop()
	do("it shows a fault", shows("#faults li", "NATS is away"), shows("#state", "ready, with faults"))
	shot(t, ctx, "status-fault", false, 1280)
	if err := f.bus.Server.Start(); err != nil {
		t.Fatal(err)
	}
	do("the fault is over", holds("no fault", `![...document.querySelectorAll('#faults li')].some(e => e.textContent.includes('NATS'))`),
		holds("the state is plain", `document.querySelector('#state').textContent === 'ready'`))
	do("nothing is wider than a phone", chromedp.EmulateViewport(360, 800, chromedp.EmulateMobile), holds("no scrolling sideways", `document.documentElement.scrollWidth <= 360`))
}

// TestStatusPageAsksForTheToken: the page itself is given to everybody, what it shows is not.
func TestStatusPageAsksForTheToken(t *testing.T) {
	f := newFleet(t, "public.t")
	f.db.Exec("CREATE TABLE t (id int PRIMARY KEY)")
	f.more.sidecar = "token: s3cret"
	ctx, address := browser(t), f.page()
	one, cancel := context.WithTimeout(ctx, harness.HangGuard)
	defer cancel()
	err := chromedp.Do(one, chromedp.Navigate(address), chromedp.WaitVisible(chromedp.CSS("#login")), enters("#token", "wrong"), shows("#state", "token required"),
		chromedp.WaitVisible(chromedp.CSS("#login")), enters("#token", "s3cret"), shows("#tables tbody", "public.t"), chromedp.WaitNotVisible(chromedp.CSS("#login")))
	if err != nil {
		t.Fatal(err)
	}
}

// page runs source and sidecar in one process and gives the status page's address.
func (f *fleet) page() string {
	f.t.Helper()
	var b strings.Builder
	f.configureSource(&b)
	more := f.more.sidecar
	if more == "" {
		more = "insecure: false"
	}
	text := fmt.Sprintf("name: %s\nbus: {url: %s}\n%ssidecar:\n  listen: '127.0.0.1:0'\n  data: %s\n  %s\n", f.bus.Name, text(f.bus.URL),
		strings.Replace(b.String(), "metrics: {listen: '127.0.0.1:0'}\n", "", 1), text(filepath.Join(f.dir, "page")), more)
	path := filepath.Join(f.dir, "page.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	c, err := config.Load(config.Sources{File: path}, config.SourceRole|config.SidecarRole)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended, address := make(chan error, 1), make(chan string, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Options{Config: c, Roles: config.SourceRole | config.SidecarRole, Program: program,
			Log: slog.New(slog.NewTextHandler(f.t.Output(), nil)), Listening: func(a string) { address <- a }})
	}()
	f.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			f.t.Error(err)
		}
	})
	return <-address + "/"
}

// writes runs a statement again and again until the function it gives is called.
func (f *fleet) writes(sql string) (stop func()) {
	conn := f.db.Conn()
	ctx, cancel := context.WithCancel(f.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
				if _, err := conn.Exec(ctx, sql); err != nil && ctx.Err() == nil {
					f.t.Errorf("%s: %v", sql, err)
					return
				}
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// shot puts a picture of the page where pictures are asked for.
func shot(t *testing.T, ctx context.Context, name string, dark bool, width int64) {
	t.Helper()
	dir := os.Getenv("SYNCD_SCREENSHOTS")
	if dir == "" {
		return
	}
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	if err == nil {
		err = chromedp.Do(ctx, chromedp.EmulateViewport(width, 1240))
	}
	var png []byte
	if err == nil {
		png, err = chromedp.Run(ctx, chromedp.FullScreenshot(100))
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644)
	}
	if err != nil {
		t.Errorf("picture %s: %v", name, err)
	}
}
