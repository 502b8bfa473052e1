package postgres_test

import (
	"context"
	"fmt"

	"github.com/syncd-io/syncd/internal/pgserver"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/postgres"
)

// A cache over a store in a schema of another Postgres.
func Example() {
	ctx := context.Background()
	server, err := pgserver.Start(ctx, pgserver.Options{Own: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Stop()
	store, err := postgres.New(ctx, postgres.Options{URL: server.URL("postgres"), Schema: "shop"})
	if err != nil {
		fmt.Println(err)
		return
	}
	cache := sink.New(sink.Options{Store: store})
	defer cache.Close()
	fmt.Println("through", cache.Through())
	// Output: through 0-0/0
}
