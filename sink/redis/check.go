package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/syncd-io/syncd/sink"
)

// What is asked of a server: oldest lacks UNLINK, and tested is what the tests run on.
const (
	oldest = 4
	tested = 7
)

// Check looks at everything that a store needs of its server, and changes nothing. Preconditions come in a fixed order; where the
// server can't be reached there is only that one.
func Check(ctx context.Context, o Options) []sink.Precondition {
	o.Log = slog.New(slog.DiscardHandler)
	p, err := newPlace(o)
	if err != nil {
		return []sink.Precondition{{Name: "url", Detail: err.Error()}}
	}
	defer p.Close()
	c := &checker{place: p, ctx: ctx}
	info, err := p.rdb.Info(ctx).Result()
	if err != nil {
		c.server(p.say("look at the server", err), err)
		return c.all
	}
	c.facts = facts(info)
	c.add("server", true, fmt.Sprintf("Redis %s at %s, keys %s*", c.facts["redis_version"], p.rdb.Options().Addr, p.prefix), "")
	c.version()
	c.mode()
	c.memory()
	c.rights()
	c.owner()
	return c.all
}

type checker struct {
	*place
	ctx   context.Context
	facts map[string]string
	all   []sink.Precondition
}

func (c *checker) add(name string, ok bool, detail, mend string) {
	c.all = append(c.all, sink.Precondition{Name: name, OK: ok, Detail: detail, Mend: mend})
}

// server says why the server could not be asked.
func (c *checker) server(said, err error) {
	var away net.Error
	mend := ""
	if strings.HasPrefix(err.Error(), "NOPERM") {
		mend = c.grant()
	}
	c.all = append(c.all, sink.Precondition{Name: "server", Detail: said.Error(), Mend: mend, Unreachable: errors.As(err, &away) || errors.Is(err, context.DeadlineExceeded)})
}

// grant is what lets the user do all that a store does.
func (c *checker) grant() string {
	user := c.rdb.Options().Username
	if user == "" {
		user = "default"
	}
	return fmt.Sprintf("ACL SETUSER %s ~%s* +@read +@write +@scripting +info +scan", user, c.prefix)
}

func (c *checker) version() {
	text := c.facts["redis_version"]
	major, _, _ := strings.Cut(text, ".")
	switch n, err := strconv.Atoi(major); {
	case err != nil:
		c.add("version", true, "the server does not tell it", "")
	case n < oldest:
		c.add("version", false, text, fmt.Sprintf("upgrade the server to Redis %d or newer: older ones lack UNLINK and HSET of many fields", oldest))
	case n < tested:
		c.add("version", true, text, fmt.Sprintf("the tests run on Redis %d.0: upgrade where you can", tested))
	default:
		c.add("version", true, text, "")
	}
}

// mode looks whether the server takes a commit's keys in one step.
func (c *checker) mode() {
	if c.facts["cluster_enabled"] == "1" {
		c.add("cluster mode", false, "it is on: a commit changes keys of many slots at once", "name a server with cluster-enabled no")
	} else {
		c.add("cluster mode", true, "off", "")
	}
	if role := c.facts["role"]; role == "slave" {
		c.add("role", false, fmt.Sprintf("it is a replica of %s:%s", c.facts["master_host"], c.facts["master_port"]), "name the primary in the url")
	} else {
		c.add("role", true, "primary", "")
	}
}

func (c *checker) memory() {
	policy, most := c.facts["maxmemory_policy"], c.facts["maxmemory"]
	switch {
	case most == "0" || most == "":
		c.add("maxmemory", true, "no limit", "")
	case strings.HasPrefix(policy, "allkeys-"):
		c.add("maxmemory", false, fmt.Sprintf("%s bytes, and with maxmemory-policy %s the server evicts rows of the sink", most, policy),
			"CONFIG SET maxmemory-policy noeviction, or one of volatile-*, and the same in redis.conf")
	default:
		c.add("maxmemory", true, fmt.Sprintf("%s bytes, maxmemory-policy %s", most, policy), "")
	}
}

// harmless are commands of each kind that a store sends, on a key that there is none of, so that none does anything.
const harmless = `
redis.call('GET', KEYS[1])
redis.call('HMGET', KEYS[1], 'a')
redis.call('LRANGE', KEYS[1], 0, -1)
redis.call('SET', KEYS[1], '', 'XX')
redis.call('RPUSHX', KEYS[1], '')
redis.call('HDEL', KEYS[1], 'a')
redis.call('PEXPIRE', KEYS[1], 1)
redis.call('UNLINK', KEYS[1])
return redis.status_reply('OK')`

// rights makes calls as a store does.
func (c *checker) rights() {
	key := c.meta + "check:" + c.token
	err := c.rdb.Eval(c.ctx, harmless, []string{key}).Err()
	if err == nil {
		err = c.rdb.Scan(c.ctx, 0, escapeGlob(c.prefix)+"*", 1).Err()
	}
	if err == nil {
		c.add("rights", true, "the user may read, write, scan and run scripts on "+c.prefix+"*", "")
		return
	}
	mend := ""
	switch text := err.Error(); {
	case strings.Contains(text, "NOPERM") || strings.Contains(text, "can't run this command or subcommand") || strings.Contains(text, "permissions"):
		mend = c.grant()
	case strings.Contains(text, "OOM"):
		mend = "give the server more maxmemory, or keep fewer tables: it has reached it"
	case strings.Contains(text, "READONLY"):
		mend = "name the primary in the url"
	case strings.Contains(text, "MISCONF"):
		mend = "mend what keeps the server from saving, which its log names; or CONFIG SET stop-writes-on-bgsave-error no"
	}
	c.add("rights", false, c.say("read, write and scan", err).Error(), mend)
}

// owner says who writes to the place now. That is nothing to be mended: a second process waits.
func (c *checker) owner() {
	has, err := c.rdb.Get(c.ctx, c.meta+"owner").Result()
	switch {
	case errors.Is(err, redis.Nil):
		c.add("in use", true, "by nobody", "")
	case err != nil:
		return // the rights say why
	default:
		_, by, _ := strings.Cut(has, " ")
		c.add("in use", true, "by "+by, "where that is not the sidecar of this configuration, give this one another prefix: it serves nothing while it waits")
	}
}
