package bus

import (
	"errors"
	"testing"

	"github.com/syncd-io/syncd/internal/harness"
)

// TestPollGivesWhatHasArrived: the messages in their turn, with Next between them, and nothing where none is there.
func TestPollGivesWhatHasArrived(t *testing.T) {
	nc := testConn(t, nil)
	p := threeFlushes(t, nc)
	sub := subscribe(t, testStream(t, nc), cursor(2, 10)).(*subscription)
	poll := func(want uint64) {
		t.Helper()
		harness.Eventually(t, "the next message has arrived", func() error {
			m, ok, err := sub.Poll(t.Context())
			if err != nil || ok && m.Seq != want {
				t.Fatalf("message %d, %v; want %d", m.Seq, err, want)
			}
			if !ok {
				return errors.New("nothing has arrived")
			}
			return nil
		})
	}
	poll(3)
	if m := next(t, sub); m.Seq != 4 || m.Marker == nil {
		t.Errorf("%+v", m)
	}
	poll(5)
	poll(6)
	if m, ok, err := sub.Poll(t.Context()); ok || err != nil {
		t.Errorf("%+v, %v: nothing is there", m, err)
	}
	publish(t, p, testFlush(30, 40, 1))
	poll(7)
}
