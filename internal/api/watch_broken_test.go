package api

import (
	"errors"
	"strings"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// awayHistory is a History whose rows can't be read, as those of a sink in a server that is away.
type awayHistory struct{ History }

func (h awayHistory) Look() (sink.View, sink.Mark) {
	v, m := h.History.Look()
	return &awayView{View: v}, m
}

type awayView struct {
	sink.View
	asked bool
}

func (v *awayView) Rows(syncd.Table, uint64, func(syncd.Key, sink.Entry) bool) { v.asked = true }

func (v *awayView) Err() error {
	if v.asked {
		return errors.New("redis at 127.0.0.1:6379 is away")
	}
	return nil
}

// TestWatchOfASinkThatIsAway: a list that can't be read is not taken for the end of one. The client is told why, and to begin anew.
func TestWatchOfASinkThatIsAway(t *testing.T) {
	c := newChanging(t, 1, sink.HistoryLimits{})
	c.API.History = awayHistory{c.cache.History()}
	address := serveAs(t, &Server{Handler: c})
	b := open(t, client(t, "tcp", address), "http://127.0.0.1"+watchCounts+"?list=true")
	if e := next(t, b); e.name != "reset" || !strings.Contains(e.data.Reason, "127.0.0.1:6379 is away: list anew") {
		t.Errorf("the first event is %+v", e)
	}
	if rest, err := b.ReadString(0); rest != "" || err == nil {
		t.Errorf("it goes on with %q, %v", rest, err)
	}
}
