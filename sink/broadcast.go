package sink

import "sync"

// broadcast wakes any number of waiters: a hint to look again.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{} // nil: nobody has asked since the last wake
}

// next gives a channel that the next wake closes.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcast) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
