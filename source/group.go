package source

import (
	"context"
	"sync"
)

// group runs goroutines of which the first to end with an error ends the rest.
type group struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
}

func newGroup(ctx context.Context) *group {
	g := &group{}
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	return g
}

// start runs fn until it ends. Its error is the cause of the group's end.
func (g *group) start(fn func(context.Context) error) {
	g.wg.Go(func() {
		if err := fn(g.ctx); err != nil {
			g.cancel(err)
		}
	})
}

// wait waits for all, and gives the first error, or the cause for which the context that the group was made of ended.
func (g *group) wait() error {
	g.wg.Wait()
	err := context.Cause(g.ctx)
	g.cancel(nil)
	return err
}
