package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/syncd-io/syncd/sink/remote"
)

// between does something when a commit was allowed, before its transaction is sent.
type between struct {
	lossy
	do func()
}

func (b *between) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (b *between) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if do := b.do; do != nil && cmds[len(cmds)-1].Name() == "exec" && cmds[len(cmds)-2].Name() == "hset" {
			b.do = nil
			do()
		}
		return next(ctx, cmds)
	}
}

// TestCommitIsFencedToTheLast has another process take the place over when this one's commit was allowed and not yet sent: nothing
// of it is done. Where it was only the lease that was renewed, the commit is tried again.
func TestCommitIsFencedToTheLast(t *testing.T) {
	t.Parallel()
	o := options(sharedServer(t))
	other := client(t, o)
	p, err := newPlace(o)
	must(t, err)
	hook := &between{}
	p.once.AddHook(hook)
	s, err := remote.New(t.Context(), p, nil)
	must(t, err)
	defer s.Close()
	must(t, s.Commit(batch(1, "1")))
	hook.do = func() { must(t, other.PExpire(t.Context(), o.Prefix+"_syncd:owner", o.Lease).Err()) }
	must(t, s.Commit(batch(2, "1")))
	if e, _, err := s.Load(users, "1"); err != nil || e.Version.LSN != 2 || hook.do != nil {
		t.Fatalf("a commit while the lease was renewed left %s, %v", e.Version, err)
	}
	hook.do = func() { must(t, other.Set(t.Context(), o.Prefix+"_syncd:owner", rand.Text()+" one", 0).Err()) }
	var inUse *remote.InUseError
	if err := s.Commit(batch(3, "1", "2")); !errors.As(err, &inUse) || inUse.By != "one" {
		t.Fatalf("a commit of who was replaced: %v", err)
	}
	hook.do = nil
	must(t, other.Del(t.Context(), o.Prefix+"_syncd:owner").Err())
	if got, err := other.Get(t.Context(), o.Prefix+"public.users:1").Result(); err != nil || got != `{"id":1,"at":2}` {
		t.Errorf("the row is %s, %v", got, err)
	}
	must(t, s.Commit(batch(3, "1", "2")))
}
