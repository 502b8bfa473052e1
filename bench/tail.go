package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/syncd-io/syncd"
)

// reads are the ways to read whose tails are compared: each reads for a while and gives how long each read took.
type reads struct {
	name string
	read func(ctx context.Context, d time.Duration) ([]time.Duration, error)
	took [2][]time.Duration // idle, and under load
}

// tail99 compares how long reads take while the cache is idle and while deltas are applied at 100,000 a second: of the cache in
// this process; by HTTP; and of a constant by HTTP, which has nothing to do with the cache, so that its ratio is what the load
// does to any server on this machine.
func tail99(ctx context.Context, o options) error {
	c, err := newCaches(o.rows)
	if err != nil {
		return err
	}
	defer c.Close()
	ours, stopOurs, err := serveHTTP(newAPI(c))
	if err != nil {
		return err
	}
	defer stopOurs()
	floor, stopFloor, err := serveHTTP(constant())
	if err != nil {
		return err
	}
	defer stopFloor()
	ways := []*reads{
		{name: "of the cache in this process", read: c.getPaced},
		{name: "by HTTP", read: func(ctx context.Context, d time.Duration) ([]time.Duration, error) { return c.askPaced(ctx, ours, d) }},
		{name: "of a constant by HTTP", read: func(ctx context.Context, d time.Duration) ([]time.Duration, error) { return c.askPaced(ctx, floor, d) }},
	}
	for range o.rounds {
		if err := c.tails(ctx, ways, time.Duration(o.seconds)*time.Second/12); err != nil {
			return err
		}
	}
	for _, w := range ways {
		i50, i99, b50, b99 := quantile(w.took[0], 0.5), quantile(w.took[0], 0.99), quantile(w.took[1], 0.5), quantile(w.took[1], 0.99)
		fmt.Printf("tail of a read of one row of %d %s: idle p50 %s p99 %s, under load p50 %s p99 %s: p99 ratio %.1f (want 3.0 or less)\n",
			o.rows, w.name, i50, i99, b50, b99, b99.Seconds()/i99.Seconds())
	}
	return nil
}

// tails is one round: each way for a time d, idle, and then again under load.
func (c *caches) tails(ctx context.Context, ways []*reads, d time.Duration) (err error) {
	for busy := range 2 {
		if busy == 1 {
			end := c.load(ctx)
			defer func() { err = errors.Join(err, end()) }()
		}
		for _, w := range ways {
			took, err := w.read(ctx, d)
			if err != nil {
				return err
			}
			w.took[busy] = append(w.took[busy], took...)
		}
	}
	return ctx.Err()
}

// getsAtATime is how many rows getPaced reads each millisecond.
const getsAtATime = 50

// getPaced reads rows of the cache, some each millisecond.
func (c *caches) getPaced(ctx context.Context, d time.Duration) (took []time.Duration, err error) {
	keys := make([]syncd.Key, getsAtATime)
	err = paced(ctx, d, func() error {
		for i := range keys {
			keys[i] = syncd.MakeKey(strconv.Itoa(c.any(0)))
		}
		for _, k := range keys {
			at := time.Now()
			v := c.View()
			_, ok := v.Get(c.info.Table, k)
			v.Close()
			took = append(took, time.Since(at))
			if !ok {
				return fmt.Errorf("row %s is missing", k)
			}
		}
		return nil
	})
	return took, err
}

// askPaced reads a row each millisecond on one connection.
func (c *caches) askPaced(ctx context.Context, address string, d time.Duration) (took []time.Duration, err error) {
	a, err := newAsker(address)
	if err != nil {
		return nil, err
	}
	defer a.close()
	err = paced(ctx, d, func() error {
		at := time.Now()
		err := a.ask("/v1/tables/public.item/rows/" + strconv.Itoa(c.any(0)))
		took = append(took, time.Since(at))
		return err
	})
	return took, err
}

// paced calls fn each millisecond for a time d.
func paced(ctx context.Context, d time.Duration, fn func() error) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); time.Since(begin) < d && ctx.Err() == nil; {
		<-tick.C
		if err := fn(); err != nil {
			return err
		}
	}
	return ctx.Err()
}
