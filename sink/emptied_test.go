package sink_test

import (
	"context"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// emptied is a stream that its limits have emptied, until it has a marker.
type emptied struct{ sink.Stream }

func (emptied) Tail(context.Context) (syncd.Marker, uint64, bool, error) {
	return syncd.Marker{}, 0, false, nil
}

func (emptied) Subscribe(_ context.Context, c syncd.Cursor) (sink.Subscription, error) {
	if c.Seq > 0 {
		return nil, syncd.ErrTooOld
	}
	return emptiedSub{}, nil
}

type emptiedSub struct{}

func (emptiedSub) Close() error { return nil }

func (emptiedSub) Next(context.Context) (syncd.Message, error) {
	return syncd.Message{Seq: 9, Marker: &syncd.Marker{Epoch: 1, Previous: 400, Through: 500, Safe: 500, First: 9, Start: 1}}, nil
}

// TestEmptiedStreamSaysNotHowFarItHadCome: a restarted cache is not ready because the stream is empty: what a former
// life had shown may be later than what it left on disk. The first marker says where to get to.
func TestEmptiedStreamSaysNotHowFarItHadCome(t *testing.T) {
	t.Parallel()
	c := sink.New(sink.Options{Store: following(t).store}) // what a former life left
	f := &sink.Feed{Stream: emptied{}, Cache: c}
	for _, when := range []string{"the stream is empty", "the first marker came, and what lies before it was not listed"} {
		if err := f.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c.Ready() == nil {
			t.Errorf("ready, though %s", when)
		}
	}
}
