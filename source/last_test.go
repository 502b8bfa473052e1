package source

import (
	"context"
	"testing"

	"github.com/syncd-io/syncd/internal/harness"
)

// TestLastMarkerIsKnownBetweenTerms: a source whose first term was cut, and which has not found its place again, still knows
// where the stream ends, so that it goes on listing.
func TestLastMarkerIsKnownBetweenTerms(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec("CREATE TABLE public.t (id int PRIMARY KEY)")
	w := NewWatch(configFor(t, db, "public.t"), new(Memory))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- w.Step(ctx) }()
	r := &running{t: t, watch: w}
	r.leads()
	led, _ := w.Last()
	cancel()
	_ = harness.Receive(t, "the term's end", ended) // it says that ctx has ended
	if m, ok := w.Last(); !ok || m.Epoch != led.Epoch || m.Through < led.Through {
		t.Errorf("the last marker is %+v, known %v; it was %+v", m, ok, led)
	}
}
