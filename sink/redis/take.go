package redis

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/codec"
	"github.com/syncd-io/syncd/sink/remote"
)

// format numbers the form of what is in the server. A place of an older one is begun anew; one of a newer is refused.
const format = 1

// Take implements remote.Place.
func (p *place) Take(ctx context.Context) (remote.Mark, *sink.State, error) {
	if err := p.check(ctx); err != nil {
		return remote.Mark{}, nil, err
	}
	f, err := p.do(ctx, "take")
	if err != nil {
		return remote.Mark{}, nil, err
	}
	p.keep()
	text := func(i int) string { s, _ := f[i].(string); return s }
	if f[0] == nil || f[1] == nil {
		return remote.Mark{}, nil, nil
	}
	if n, err := strconv.Atoi(text(0)); err != nil || n > format {
		return remote.Mark{}, nil, &unusableError{fmt.Errorf("%s: it has form %q, this program knows %d: use the newer program, or another prefix", p, text(0), format)}
	} else if n < format {
		return remote.Mark{}, nil, nil
	}
	seq, err := strconv.ParseUint(text(2), 10, 64)
	if err != nil {
		return remote.Mark{}, nil, nil // somebody has overwritten it: as good as nothing
	}
	mark := remote.Mark{Gen: text(1), Seq: seq, Nonce: text(3)}
	if f[5] != nil {
		return p.finish(ctx, mark, text(6))
	}
	state, err := codec.ParseState([]byte(text(4)))
	if err != nil {
		p.log.Warn("the state in the sink can't be read: it is begun anew", "place", p.String(), "error", err)
		return remote.Mark{}, nil, nil
	}
	return mark, state, nil
}

// check looks once whether the server is one that can be used.
func (p *place) check(ctx context.Context) error {
	if p.checked {
		return nil
	}
	info, err := p.rdb.Info(ctx, "cluster", "memory", "server").Result()
	if err != nil {
		return p.say("look at the server", err)
	}
	facts := facts(info)
	if facts["cluster_enabled"] == "1" {
		return &unusableError{fmt.Errorf("%s: it is a cluster, which syncd does not support: a commit changes keys of many slots at once; name a server without cluster mode", p)}
	}
	if policy := facts["maxmemory_policy"]; strings.HasPrefix(policy, "allkeys-") && facts["maxmemory"] != "0" {
		p.log.Warn("the server may evict rows of the sink: set maxmemory-policy to noeviction or to one of volatile-*", "place", p.String(), "maxmemory_policy", policy)
	}
	p.checked = true
	return nil
}

// facts reads what INFO answers.
func facts(info string) map[string]string {
	all := map[string]string{}
	for line := range strings.SplitSeq(info, "\n") {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all
}

// Begin implements remote.Place.
func (p *place) Begin(ctx context.Context, gen string, s *sink.State) (remote.Mark, error) {
	if _, err := p.do(ctx, "forget"); err != nil {
		return remote.Mark{}, err
	}
	var tables []syncd.Table
	for name := range s.Tables {
		tables = append(tables, name)
	}
	err := p.each(ctx, p.ours(tables, true), func(keys []any) error {
		_, err := p.do(ctx, "sweep", keys...)
		return err
	})
	if err != nil {
		return remote.Mark{}, err
	}
	m := remote.Mark{Gen: gen, Nonce: rand.Text()[:10]}
	if _, err := p.do(ctx, "begin", format, m.Gen, m.Nonce, codec.AppendState(nil, s)); err != nil {
		return remote.Mark{}, err
	}
	return m, nil
}

// ours says of a key whether it belongs to one of some tables, or, where all is true, to what syncd keeps beside the rows.
func (p *place) ours(tables []syncd.Table, all bool) func(string) bool {
	begins := make([]string, 0, 2*len(tables))
	for _, t := range tables {
		begins = append(begins, p.keys.table(t), p.entries(t))
	}
	return func(key string) bool {
		if rest, ok := strings.CutPrefix(key, p.meta); ok && all {
			return rest != "owner" && rest != "state"
		}
		for _, b := range begins {
			if strings.HasPrefix(key, b) {
				return true
			}
		}
		return false
	}
}

// scanKeys is how many keys the server is asked to look at, at a time.
const scanKeys = 5000

// each gives the keys below the prefix that fit, some at a time.
func (p *place) each(ctx context.Context, fit func(string) bool, fn func(keys []any) error) error {
	for cursor := uint64(0); ; {
		found, next, err := p.rdb.Scan(ctx, cursor, escapeGlob(p.prefix)+"*", scanKeys).Result()
		if err != nil {
			return p.say("look for keys of before", err)
		}
		var keys []any
		for _, k := range found {
			if fit(k) {
				keys = append(keys, k)
			}
		}
		if len(keys) > 0 {
			if err := fn(keys); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
