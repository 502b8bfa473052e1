// Package metrics gives the stages' Observer interfaces a Prometheus form. Source observes what reads Postgres and
// publishes, Sidecar what keeps a cache. Each registers its metrics on the Registerer it is given, when it is made.
//
// Names begin with syncd_, units are seconds, bytes and counts. Labels are tables, and words of which there are few: no key
// and no row is ever a label, so the number of series is bounded by the number of tables.
//
// It takes over the stages' method sets without importing them: a method that fits several interfaces is one method here.
// A metric costs a counter's increment; the label values of a table are resolved once.
package metrics

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/syncd-io/syncd"
)

// ops are the operations, whose names are the values of the label op.
var ops = [...]syncd.Op{syncd.Upsert, syncd.Delete, syncd.Truncate}

// opCounters counts by operation.
type opCounters [len(ops)]prometheus.Counter

func newOpCounters(v *prometheus.CounterVec, table string) (c opCounters) {
	for i, op := range ops {
		c[i] = v.WithLabelValues(table, op.String())
	}
	return c
}

func (c *opCounters) add(op syncd.Op, n int) {
	for i := range ops {
		if ops[i] == op {
			c[i].Add(float64(n))
		}
	}
}

// delays are the bounds of histograms of what takes between half a millisecond and a minute.
var delays = prometheus.ExponentialBuckets(0.0005, 2, 18)

// perTable keeps what is resolved for a table, so that the data path looks up no labels. Tables come seldom and are few, so
// the map is copied when one does, and read without a lock.
type perTable[T any] struct {
	make func(table string) *T
	mu   sync.Mutex
	all  atomic.Pointer[map[syncd.Table]*T]
}

func (p *perTable[T]) of(t syncd.Table) *T {
	if m := p.all.Load(); m != nil {
		if v, ok := (*m)[t]; ok {
			return v
		}
	}
	return p.add(t)
}

func (p *perTable[T]) add(t syncd.Table) *T {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := map[syncd.Table]*T{}
	if old := p.all.Load(); old != nil {
		if v, ok := (*old)[t]; ok {
			return v
		}
		m = maps.Clone(*old)
	}
	m[t] = p.make(t.String())
	p.all.Store(&m)
	return m[t]
}

// seconds gives a duration for a histogram, none below zero: clocks differ.
func seconds(d time.Duration) float64 { return max(d, 0).Seconds() }
