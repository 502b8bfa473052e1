package sink

import "errors"

// ErrReset says that a store outside this process is not as it was left: it lost what it held, or it was reached only now,
// or another process went on with it. Its State is what it holds now, which may be nothing. Whoever works from the state
// before has to begin again.
var ErrReset = errors.New("the store was not as it was left")

// notAsLeft is why all tables are to be read anew then.
const notAsLeft = "the sink was not as it was left"

// heed takes over the state of a store that was not as it was left. It is deferred by whatever uses the store; the caller
// holds mu.
func (c *Cache) heed(err *error) {
	if errors.Is(*err, ErrReset) {
		clear(c.judged)
		c.history.resetAll(c.serving.Load().State(), notAsLeft)
		c.publish(c.current())
	}
}
