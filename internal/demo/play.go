package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/syncd-io/syncd/bus"
	"github.com/syncd-io/syncd/internal/api"
	"github.com/syncd-io/syncd/internal/daemon"
	"github.com/syncd-io/syncd/resync"
)

// play is the story that the demonstration tells.
type play struct {
	out      io.Writer
	conn     *pgx.Conn // to look at Postgres
	shop     *shop
	sidecar  sidecar
	trial    *daemon.Trial
	duration time.Duration

	began time.Time
	own   []time.Duration // how long each look took to read its own write
}

// The share of deltas that is lost on purpose.
var loss = bus.FaultRates{Drop: 0.3, Seed: 1}

// run tells the story: the cache follows; changes are lost; they are repaired; the cache follows on.
func (p *play) run(ctx context.Context) error {
	if err := p.ready(ctx); err != nil {
		return err
	}
	fmt.Fprintf(p.out, "status page %s/\n", p.sidecar.base)
	fmt.Fprintf(p.out, "ask it from another terminal: syncd status --addr %s\n\n", p.sidecar.base)
	p.began = time.Now()
	writing, stop := context.WithCancel(ctx)
	defer stop()
	g, both := errgroup.WithContext(writing)
	g.Go(func() error { return interrupted(both, p.shop.run(both)) })
	g.Go(func() error {
		defer stop()
		return p.acts(both)
	})
	if err := g.Wait(); err != nil {
		return err
	}
	return p.summary(ctx)
}

func (p *play) acts(ctx context.Context) error {
	calm, spoiled := p.phases()
	p.say("A shop writes to Postgres; the cache follows.")
	if err := p.look(ctx, calm); err != nil {
		return err
	}
	if err := p.lose(ctx, spoiled); err != nil {
		return err
	}
	if err := p.mend(ctx); err != nil {
		return err
	}
	p.say("And on it goes.")
	return p.look(ctx, p.left())
}

// phases gives how long the cache follows before changes are lost, and how long they are.
func (p *play) phases() (calm, spoiled time.Duration) {
	if p.duration == 0 {
		return 6 * time.Second, 4 * time.Second
	}
	return p.duration * 3 / 10, p.duration * 2 / 10
}

// left is what is left of the duration; without one a very long time.
func (p *play) left() time.Duration {
	if p.duration == 0 {
		return 1 << 62
	}
	return max(p.duration-time.Since(p.began), 0)
}

func (p *play) say(format string, args ...any) { fmt.Fprintf(p.out, "-- "+format+"\n", args...) }

// ready waits for the first list.
func (p *play) ready(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var status api.Status
		err := p.sidecar.get(ctx, "/v1/status", &status)
		if err == nil && status.Ready {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// look prints one line a second for some time.
func (p *play) look(ctx context.Context, d time.Duration) error {
	return p.each(ctx, d, func() error { return p.line(ctx, "") })
}

// each calls fn at once, and then each second for some time.
func (p *play) each(ctx context.Context, d time.Duration, fn func() error) error {
	end := time.NewTimer(d)
	defer end.Stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end.C:
			return nil
		case <-tick.C:
			if err := fn(); err != nil {
				return err
			}
		}
	}
}

// line prints how things stand.
func (p *play) line(ctx context.Context, more string) error {
	var tables []api.Table
	if err := p.sidecar.get(ctx, "/v1/tables", &tables); err != nil {
		return err
	}
	rows, lag := 0, 0.0
	for _, t := range tables {
		rows += t.Rows
		if t.LagSeconds != nil {
			lag = max(lag, *t.LagSeconds)
		}
	}
	own, err := p.readOwnWrite(ctx)
	if err != nil {
		return err
	}
	repaired, err := p.metric(ctx, "syncd_resync_repaired_total")
	if err != nil {
		return err
	}
	fmt.Fprintf(p.out, "%4.0fs  %7s changes  %7s rows cached  lag %3.0f ms  own write read %s  %5s repaired%s\n",
		time.Since(p.began).Seconds(), group(p.shop.changes.Load()), group(int64(rows)), lag*1000, own, group(int64(repaired)), more)
	return nil
}

// readOwnWrite takes the place in the log where Postgres is, and measures how long it takes until the cache of products
// can be read from there.
func (p *play) readOwnWrite(ctx context.Context) (string, error) {
	var lsn string
	if err := p.conn.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn()::text").Scan(&lsn); err != nil {
		return "", err
	}
	began := time.Now()
	var row struct{ ID int }
	q := url.Values{"min_version": {lsn}, "timeout": {"500ms"}}
	if err := p.sidecar.get(ctx, "/v1/tables/public.products/rows/1?"+q.Encode(), &row); err != nil {
		var answer *statusError
		if errors.As(err, &answer) && answer.status == http.StatusGatewayTimeout {
			return "   waits", nil
		}
		return "", err
	}
	took := time.Since(began)
	p.own = append(p.own, took)
	return fmt.Sprintf("%5.1f ms", float64(took.Microseconds())/1000), nil
}

// lose has deltas lost on their way to the cache, and lists held up so that it can be seen.
func (p *play) lose(ctx context.Context, d time.Duration) error {
	p.say("Now %.0f %% of the changes are lost on their way, on purpose, and lists are held up.", loss.Drop*100)
	p.trial.HoldLists(true)
	p.trial.Spoil(loss)
	defer p.trial.HoldLists(false)
	defer p.trial.Spoil(bus.FaultRates{})
	worst := 0
	count := func() error {
		n, err := wrong(ctx, p.conn, &p.sidecar)
		if err != nil {
			return err
		}
		worst = max(worst, n)
		return p.line(ctx, fmt.Sprintf("  %s rows wrong", group(int64(n))))
	}
	if err := p.each(ctx, d, count); err != nil {
		return err
	}
	if err := count(); err != nil {
		return err
	}
	if worst == 0 {
		return errors.New("the demonstration lost changes, and no row of the cache was wrong")
	}
	gaps, err := p.metric(ctx, "syncd_gaps_total")
	if err != nil {
		return err
	}
	p.say("The sidecar has noticed: %.0f gaps. It answers no read of these tables that asks for what is missing.", gaps)
	return nil
}

// mend waits until the sidecar has repaired itself, and has it compared with Postgres.
func (p *play) mend(ctx context.Context) error {
	p.say("Nothing is lost any more, and lists pass. The sidecar lists the tables again and repairs them.")
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		whole, err := p.whole(ctx)
		if err != nil {
			return err
		}
		if whole {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	if err := p.line(ctx, ""); err != nil {
		return err
	}
	return p.diff(ctx)
}

// whole says whether nothing is left to be repaired.
func (p *play) whole(ctx context.Context) (bool, error) {
	var tables []api.Table
	if err := p.sidecar.get(ctx, "/v1/tables", &tables); err != nil {
		return false, err
	}
	for _, t := range tables {
		if t.Relist != "" || t.OpenKeys+t.ParkedKeys > 0 {
			return false, nil
		}
	}
	return true, nil
}

// diff compares the whole cache with Postgres, while the shop writes on.
func (p *play) diff(ctx context.Context) error {
	for _, t := range tables {
		var r resync.Report
		if err := p.sidecar.get(ctx, "/v1/tables/"+url.PathEscape(t.String())+"/diff", &r); err != nil {
			return err
		}
		answer := "equal"
		if !r.Equal() {
			answer = fmt.Sprintf("different: %d missing, %d stale, %d ghost, %d corrupt, %d undecided", r.Missing, r.Stale, r.Ghost, r.Corrupt, r.Undecided)
		}
		p.say("diff %-16s %6s rows compared with Postgres in %.2f s: %s", r.Table, group(int64(r.Rows)), r.Seconds, answer)
		if !r.Equal() {
			return fmt.Errorf("%s is not equal to Postgres after the repair", r.Table)
		}
	}
	return nil
}

// summary compares all rows a last time, now that nobody writes.
func (p *play) summary(ctx context.Context) error {
	n, err := wrong(ctx, p.conn, &p.sidecar)
	if err != nil {
		return err
	}
	repaired, err := p.metric(ctx, "syncd_resync_repaired_total")
	if err != nil {
		return err
	}
	slices.Sort(p.own)
	median := time.Duration(0)
	if len(p.own) > 0 {
		median = p.own[len(p.own)/2]
	}
	p.say("In %.0f s the shop made %s changes; %s rows were repaired; an own write was read after %.1f ms (median); %d rows of the cache are wrong.",
		time.Since(p.began).Seconds(), group(p.shop.changes.Load()), group(int64(repaired)), float64(median.Microseconds())/1000, n)
	if n != 0 {
		return fmt.Errorf("%d rows of the cache are not as in Postgres", n)
	}
	return nil
}

// metric sums the values of a metric.
func (p *play) metric(ctx context.Context, name string) (sum float64, err error) {
	body, err := p.sidecar.body(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(strings.NewReader(string(body)))
	for lines.Scan() {
		series, value, _ := strings.Cut(lines.Text(), " ")
		if metric, _, _ := strings.Cut(series, "{"); metric != name {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", series, err)
		}
		sum += v
	}
	return sum, lines.Err()
}

// group writes a number with commas.
func group(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
