package redis

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// quiet takes what the client would log by itself, on stderr and in a form of its own: its errors say the same.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(quiet{}) }
