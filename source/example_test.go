package source_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/pgserver"
	"github.com/syncd-io/syncd/source"
)

var users = syncd.Table{Schema: "public", Name: "users"}

// withServer runs fn against a throwaway Postgres that has the table users.
func withServer(fn func(ctx context.Context, db *pgx.Conn, cfg source.Config)) {
	ctx := context.Background()
	s, err := pgserver.Start(ctx, pgserver.Options{Own: true})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Stop()
	db, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close(ctx)
	if _, err := db.Exec(ctx, `CREATE TABLE users (id int PRIMARY KEY, name text)`); err != nil {
		log.Fatal(err)
	}
	fn(ctx, db, source.Config{
		Name: "shop", Postgres: s.URL("postgres"), Manage: true,
		Tables: []source.TableConfig{{Table: users}},
	})
}

// running runs fn while a Watch leads.
func running(ctx context.Context, cfg source.Config, stream *source.Memory, fn func(*source.Watch)) {
	w := source.NewWatch(cfg, stream)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	for {
		flushes, more := stream.Flushes()
		if len(flushes) > 0 {
			break
		}
		<-more
	}
	fn(w)
	cancel()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
}

// A Watch publishes whole transactions, each flush of them with a marker.
func ExampleWatch() {
	withServer(func(ctx context.Context, db *pgx.Conn, cfg source.Config) {
		stream := new(source.Memory)
		running(ctx, cfg, stream, func(*source.Watch) {
			if _, err := db.Exec(ctx, `INSERT INTO users VALUES (1, 'Ann')`); err != nil {
				log.Fatal(err)
			}
			for {
				flushes, more := stream.Flushes()
				for _, f := range flushes {
					for _, d := range f.Deltas {
						fmt.Printf("%s %s %s: %s\n", d.Op, d.Table, d.Key, d.Row)
						return
					}
				}
				<-more
			}
		})
	})
	// Output: upsert public.users 1: {"id":1,"name":"Ann"}
}

// A Lister reads a table page by page; each page carries the snapshot by which a cache judges it.
func ExampleLister() {
	withServer(func(ctx context.Context, db *pgx.Conn, cfg source.Config) {
		if _, err := db.Exec(ctx, `INSERT INTO users VALUES (1, 'Ann'), (2, 'Bob'), (3, 'Cid')`); err != nil {
			log.Fatal(err)
		}
		running(ctx, cfg, new(source.Memory), func(w *source.Watch) {
			l := source.NewLister(w)
			defer l.Close()
			r := syncd.ListRequest{Table: users, Limit: 2}
			for {
				page, err := l.List(ctx, r)
				if err != nil {
					log.Fatal(err)
				}
				for _, row := range page.Rows {
					fmt.Printf("%s %s\n", row.Key, row.JSON)
				}
				if page.Last {
					fmt.Println(page.Sent.Rows, "rows")
					return
				}
				r.Started, r.After, r.Sent = true, page.After, page.Sent
			}
		})
	})
	// Output:
	// 1 {"id":1,"name":"Ann"}
	// 2 {"id":2,"name":"Bob"}
	// 3 {"id":3,"name":"Cid"}
	// 3 rows
}

// Check says beforehand what is missing, and what mends it.
func ExampleCheck() {
	withServer(func(ctx context.Context, db *pgx.Conn, cfg source.Config) {
		if _, err := db.Exec(ctx, `ALTER TABLE users DROP CONSTRAINT users_pkey`); err != nil {
			log.Fatal(err)
		}
		for _, r := range source.Check(ctx, cfg) {
			if !r.OK {
				fmt.Printf("%s: %s\n%s\n", r.Name, r.Detail, r.Mend)
			}
		}
	})
	// Output:
	// table public.users: public.users has no primary key
	// ALTER TABLE "public"."users" ADD PRIMARY KEY (…)
}
