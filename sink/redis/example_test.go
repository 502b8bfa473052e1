package redis_test

import (
	"context"
	"fmt"

	"github.com/syncd-io/syncd/internal/redisserver"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/redis"
)

// A cache over a store in Redis.
func Example() {
	ctx := context.Background()
	server, err := redisserver.Start(ctx, redisserver.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Stop()
	store, err := redis.New(ctx, redis.Options{URL: server.URL(), Prefix: "shop:"})
	if err != nil {
		fmt.Println(err)
		return
	}
	cache := sink.New(sink.Options{Store: store})
	defer cache.Close()
	fmt.Println("through", cache.Through())
	// Output: through 0-0/0
}
