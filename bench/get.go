package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/syncd-io/syncd/internal/api"
)

// getClients is how many connections ask at a time, getTime for how long in each round.
const (
	getClients = 4
	getTime    = 2 * time.Second
)

// get compares rows read through the API with a handler of net/http that writes a constant of the same size. The clients
// write ready-made requests and read no more of an answer than they must, so that the servers are what is measured.
func get(ctx context.Context, o options) error {
	c, err := newCaches(o.rows)
	if err != nil {
		return err
	}
	defer c.Close()
	floor, stopFloor, err := serveHTTP(constant())
	if err != nil {
		return err
	}
	defer stopFloor()
	ours, stopOurs, err := serveHTTP(newAPI(c))
	if err != nil {
		return err
	}
	defer stopOurs()
	path := func() string { return "/v1/tables/public.item/rows/" + strconv.Itoa(c.any(0)) }
	var floors, rates []float64
	for range o.rounds {
		for _, m := range []struct {
			address string
			into    *[]float64
		}{{floor, &floors}, {ours, &rates}} {
			rate, err := askFor(ctx, m.address, path, getTime)
			if err != nil {
				return err
			}
			*m.into = append(*m.into, rate)
		}
	}
	text0 := func(r float64) string { return fmt.Sprintf("%.0f", r) }
	fmt.Printf("get of one row of %d by HTTP: net/http's constant %.0f a second (%s), a row %.0f (%s): ratio %.2f (want 0.50 or more)\n", o.rows,
		median(floors), each(floors, text0), median(rates), each(rates, text0), median(rates)/median(floors))
	return nil
}

// constant is a handler of net/http that does nothing but write as many bytes as a row has.
func constant() http.Handler {
	text := `{"id":1,"note":"` + strings.Repeat("x", 182) + `"}`
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	})
}

// serveHTTP serves a handler as the sidecar does.
func serveHTTP(h http.Handler) (address string, stop func(), err error) {
	l, err := api.Listen("127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- (&api.Server{Listener: l, Handler: h}).Run(ctx) }()
	return l.Addr().String(), func() {
		cancel()
		<-done
	}, nil
}

// askFor asks over several connections for a while, and gives the answers a second.
func askFor(ctx context.Context, address string, path func() string, d time.Duration) (float64, error) {
	var wg sync.WaitGroup
	counts, errs := make([]int, getClients), make([]error, getClients)
	begin := time.Now()
	for i := range getClients {
		wg.Go(func() {
			a, err := newAsker(address)
			if err != nil {
				errs[i] = err
				return
			}
			defer a.close()
			for time.Since(begin) < d && ctx.Err() == nil {
				if errs[i] = a.ask(path()); errs[i] != nil {
					return
				}
				counts[i]++
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return float64(sum) / time.Since(begin).Seconds(), errors.Join(errs...)
}

// asker is a client of one kept-alive connection.
type asker struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
}

func newAsker(address string) (*asker, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &asker{conn: conn, in: bufio.NewReader(conn)}, nil
}

func (a *asker) close() { _ = a.conn.Close() }

// ask gets a path, which must be there.
func (a *asker) ask(path string) error {
	a.out = append(append(append(a.out[:0], "GET "...), path...), " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"...)
	if _, err := a.conn.Write(a.out); err != nil {
		return err
	}
	length := -1
	for first := true; ; first = false {
		line, err := a.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first && string(line) != "HTTP/1.1 200 OK\r\n" {
			return fmt.Errorf("get %s: %q", path, line)
		}
		if len(line) == 2 {
			break
		}
		if value, ok := strings.CutPrefix(string(line), "Content-Length: "); ok {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return fmt.Errorf("get %s: no Content-Length", path)
	}
	_, err := a.in.Discard(length)
	return err
}
