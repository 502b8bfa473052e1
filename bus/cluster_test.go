package bus

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/natsserver"
)

// testCluster starts three servers that keep streams together.
func testCluster(t *testing.T) []*natsserver.Server {
	t.Helper()
	var ports []int
	var routes []string
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", ports[len(ports)-1]))
		l.Close()
	}
	var list []*natsserver.Server
	started := make(chan *natsserver.Server, 3)
	for i := range 3 {
		go func() { // a server waits for its peers until JetStream is ready
			s, err := natsserver.Start(natsserver.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Options: func(o *server.Options) {
				o.ServerName = fmt.Sprintf("s%d", i)
				o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: ports[i]}
				o.Routes = server.RoutesFromStr(strings.Join(routes, ","))
			}})
			if err != nil {
				t.Error(err)
			}
			started <- s
		}()
	}
	for range 3 {
		if s := <-started; s != nil {
			list = append(list, s)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	if len(list) != 3 {
		t.FailNow()
	}
	return list
}

// The leader of a replicated stream steps down again and again while flushes are under way, and one server goes and comes
// back: each change is on the stream once, in order.
func TestLeaderChangesAmidPublishing(t *testing.T) {
	const flushes = 300
	cluster := testCluster(t)
	nc, ctx := testConn(t, cluster[0]), testContext(t)
	eventually(t, "the cluster is ready", func() bool { return accountError(ctx, nc) == nil })
	p := &Publisher{Conn: nc, Name: syncName(t), Log: testLog(t), Limits: Limits{Replicas: 3}, AckTimeout: time.Second}
	runPublisher(t, p)
	eventually(t, "the stream is made", func() bool { return p.Create(ctx, false) == nil })
	eventually(t, "a session begins", func() bool {
		_, _, _, err := p.Last(ctx)
		return err == nil
	})
	sub := subscribe(t, testStream(t, testConn(t, cluster[1])), syncd.Cursor{})
	disturb := make(chan int, 4)
	done := make(chan error, 1)
	go func() {
		for i := range disturb {
			if i == 2 {
				cluster[2].Stop()
				if err := cluster[2].Start(); err != nil {
					done <- err
					return
				}
				continue
			}
			var resp struct{ Error *apiError }
			if err := p.api().call(ctx, "STREAM.LEADER.STEPDOWN", struct{}{}, &resp); err != nil || resp.Error != nil {
				t.Logf("step down: %v, %v", err, resp.Error)
			}
		}
		done <- nil
	}()
	for i := range flushes {
		if i%75 == 10 {
			disturb <- i / 75
		}
		publish(t, p, testFlush(syncd.LSN(i), syncd.LSN(i+1), 2))
		if i%10 == 0 {
			waitAcked(t, p, syncd.LSN(max(0, i-20)))
		}
	}
	close(disturb)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	waitAcked(t, p, flushes)
	deltas, markers := collect(t, sub, flushes)
	if len(deltas) != 2*flushes || len(markers) != flushes {
		t.Fatalf("%d deltas, %d markers", len(deltas), len(markers))
	}
	for i, d := range deltas {
		if want := (syncd.Version{Epoch: 1, LSN: syncd.LSN(i/2 + 1), Ordinal: uint32(i%2 + 1)}); d.Version != want {
			t.Fatalf("delta %d is %v, not %v", i, d.Version, want)
		}
	}
	// A second publisher fences the first on a replicated stream, too.
	young := &Publisher{Conn: testConn(t, cluster[1]), Name: p.Name, Log: testLog(t), Limits: p.Limits}
	runPublisher(t, young)
	eventually(t, "another session begins", func() bool {
		_, _, _, err := young.Last(ctx)
		return err == nil
	})
	publish(t, young, testFlush(flushes, flushes+1, 1))
	waitAcked(t, young, flushes+1)
	var err error
	for lsn := syncd.LSN(flushes + 1); err == nil; lsn++ {
		err = p.Publish(ctx, testFlush(lsn-1, lsn, 1))
	}
	if !errors.Is(err, syncd.ErrFenced) {
		t.Error(err)
	}
}
