package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/syncd-io/syncd/sink/remote"
)

// commitTries is how often a commit is tried where something else than a commit came in between: this process's own lease was
// renewed.
const commitTries = 5

// errBetween says that a transaction was not carried out, because its owner or its state was touched.
var errBetween = errors.New("the lease or the state was touched in between")

// commit makes a commit of one part, as a transaction of Redis. Owner and state are watched before they are compared with what
// they should be, so nothing is changed where either is another by then; and plain commands cost the server less than a script's.
func (p *place) commit(ctx context.Context, c *remote.Change, state []byte, w *part) error {
	conn := p.once.Conn()
	defer conn.Close()
	var err error
	for range commitTries {
		if err = p.may(ctx, conn, c.From); err != nil {
			break
		}
		_, err = conn.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			w.send(ctx, pipe)
			pipe.Set(ctx, p.meta+"owner", p.token+" "+p.who, p.lease)
			pipe.HSet(ctx, p.meta+"state", "seq", c.To.Seq, "nonce", c.To.Nonce, "state", state)
			return nil
		})
		if err == nil {
			return nil
		}
		if !errors.Is(err, redis.TxFailedErr) {
			return p.say("commit", err)
		}
		err = p.say("commit", errBetween)
	}
	// What is watched stays so until the connection's next transaction, which is another's.
	if e := conn.Do(ctx, "UNWATCH").Err(); e != nil && !errors.Is(err, remote.ErrMoved) {
		err = errors.Join(err, e)
	}
	return err
}

// may says whether this process may change the place that is at a mark: nil, an *remote.InUseError, or remote.ErrMoved. Owner and
// state are watched from then on.
func (p *place) may(ctx context.Context, conn *redis.Conn, from remote.Mark) error {
	pipe := conn.Pipeline()
	watch := pipe.Do(ctx, "WATCH", p.meta+"owner", p.meta+"state")
	owner := pipe.Get(ctx, p.meta+"owner")
	at := p.askMark(ctx, pipe)
	_, _ = pipe.Exec(ctx) // each answer is looked at
	if err := watch.Err(); err != nil {
		return p.say("commit", err)
	}
	has, err := owner.Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return p.say("commit", err)
	}
	if by, ours := strings.CutPrefix(has, p.token); err == nil && !ours {
		_, by, _ = strings.Cut(by, " ")
		return &remote.InUseError{Place: p.String(), By: by}
	}
	mark, err := markOf(at)
	if err != nil {
		return p.say("commit", err)
	}
	if mark != from {
		return fmt.Errorf("%s: commit: %w", p, remote.ErrMoved)
	}
	return nil
}

// send queues the part's commands. A script's take the same from args.
func (c *part) send(ctx context.Context, pipe redis.Pipeliner) {
	for texts := c.texts; len(texts) > 0; {
		n := min(len(texts), 2*sendRows)
		pipe.MSet(ctx, texts[:n]...)
		texts = texts[n:]
	}
	for rest := c.hash; len(rest) > 0; {
		n, _ := rest[1].(int)
		key, _ := rest[0].(string)
		pipe.Unlink(ctx, key)
		pipe.HSet(ctx, key, rest[2:2+n]...)
		rest = rest[2+n:]
	}
	if len(c.gone) > 0 {
		pipe.Do(ctx, append([]any{"UNLINK"}, c.gone...)...)
	}
	for _, name := range c.names {
		h := c.held[name]
		if len(h.sets) > 0 {
			pipe.HSet(ctx, name, h.sets...)
		}
		if len(h.gone) > 0 {
			pipe.Do(ctx, append([]any{"HDEL", name}, h.gone...)...)
		}
	}
}

// sendRows is how many rows are sent in a command: the server begins with the first while the others are on their way.
const sendRows = 100
