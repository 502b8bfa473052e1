package bus

import (
	"reflect"
	"testing"

	"github.com/syncd-io/syncd"
)

func TestFaultsSpoilTheSameDeltasEachTime(t *testing.T) {
	nc := testConn(t, nil)
	p := testPublisher(t, nc, nil)
	const flushes, each = 5, 2000
	for i := range syncd.LSN(flushes) {
		publish(t, p, testFlush(i*10, (i+1)*10, each))
	}
	waitAcked(t, p, flushes*10)
	f := &Faults{Stream: testStream(t, nc)}
	f.Set(FaultRates{Drop: 0.1, Duplicate: 0.2, Reorder: 0.05, Seed: 7})

	sub := subscribe(t, f, syncd.Cursor{})
	seen := map[syncd.Version]int{}
	late := 0
	var through syncd.LSN
	for through < flushes*10 {
		m := next(t, sub)
		if m.Marker != nil {
			through = m.Marker.Through
		}
		for _, d := range m.Deltas {
			seen[d.Version]++
			if d.Version.LSN <= through {
				late++
			}
		}
	}
	doubled := 0
	for _, n := range seen {
		doubled += n - 1
	}
	// 10,000 deltas; those held back by the last flush are still to come.
	if dropped := flushes*each - len(seen); dropped < 950 || dropped > 1250 || doubled < 1500 || doubled > 1900 || late < 250 || late > 450 {
		t.Errorf("%d dropped or held, %d doubled, %d late", dropped, doubled, late)
	}

	a, err := f.Read(testContext(t), 1, 4)
	if err != nil {
		t.Fatal(err)
	}
	b, err := f.Read(testContext(t), 1, 4)
	if err != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("read again it is spoiled differently: %v", err)
	}
	for _, m := range a {
		for _, d := range m.Deltas {
			if seen[d.Version] == 0 {
				t.Fatalf("%v is there when read again, and was not before", d.Version)
			}
		}
	}
	f.Set(FaultRates{})
	whole, err := f.Read(testContext(t), 1, 1)
	if err != nil || len(whole[0].Deltas) <= len(a[0].Deltas)/2 || f.Rates() != (FaultRates{}) {
		t.Errorf("without faults: %d deltas, %v", len(whole[0].Deltas), err)
	}
	if m, seq, ok, err := f.Tail(testContext(t)); err != nil || !ok || m.Through != flushes*10 || seq == 0 {
		t.Errorf("%+v, %d, %v, %v", m, seq, ok, err)
	}
}

func TestFaultsOfAllDropsAllButMarkers(t *testing.T) {
	nc := testConn(t, nil)
	threeFlushes(t, nc)
	f := &Faults{Stream: testStream(t, nc)}
	f.Set(FaultRates{Drop: 1})
	sub := subscribe(t, f, syncd.Cursor{})
	for i := range 3 {
		if m := next(t, sub); m.Marker == nil || m.Marker.Through != syncd.LSN(10*(i+1)) {
			t.Errorf("%+v", m)
		}
	}
	if list, err := f.Read(testContext(t), 1, 6); err != nil || len(list) != 3 {
		t.Errorf("%v, %v", list, err)
	}
}
