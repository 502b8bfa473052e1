package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/micro"
)

// announce runs an announcer until the test ends or stop is called.
func announce(t *testing.T, a *Announcer) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	done := false
	stop = func() {
		if done {
			return
		}
		done = true
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// TestFleet: each member says how it is now, of every sync on the bus, and is gone when it ends.
func TestFleet(t *testing.T) {
	t.Parallel()
	server := testServer(t, nil)
	conn := testConn(t, server)
	var rows atomic.Int64
	old := 12.5
	announce(t, &Announcer{Conn: testConn(t, server), Tell: func() Member { return Member{Sync: "shop", Role: "source", Host: "a", State: "leads"} }})
	announce(t, &Announcer{Conn: testConn(t, server), Tell: func() Member {
		return Member{Sync: "shop", Role: "sidecar", Host: "b", State: "ready", Version: "1-0/1",
			Tables: []MemberTable{{Table: "public.t", Rows: int(rows.Load()), Ready: true, VerifiedAgeSeconds: &old, Drift: 3}}}
	}})
	stop := announce(t, &Announcer{Conn: testConn(t, server), Tell: func() Member {
		return Member{Sync: "crm", Role: "sidecar", Host: "c", State: "not ready", Why: "lists"}
	}})
	fleet := func() (text string, members []Member) {
		members, err := Fleet(testContext(t), conn, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range members {
			text += fmt.Sprintf("%s %s %s %s;", m.Sync, m.Role, m.Host, m.State)
		}
		return text, members
	}
	eventually(t, "all are there", func() bool {
		text, _ := fleet()
		return text == "crm sidecar c not ready;shop source a leads;shop sidecar b ready;"
	})
	rows.Store(7)
	_, members := fleet()
	if s := members[2]; s.ID == "" || len(s.Tables) != 1 || s.Tables[0].Rows != 7 || *s.Tables[0].VerifiedAgeSeconds != old || s.Tables[0].Drift != 3 {
		t.Errorf("the sidecar says %+v", s)
	}
	stop()
	eventually(t, "one is gone", func() bool { text, _ := fleet(); return !strings.Contains(text, "crm") })

	inbox := conn.NewInbox() // what other programs can ask: all members of one sync answer
	sub, err := conn.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.PublishRequest("syncd.shop.status", inbox, nil); err != nil {
		t.Fatal(err)
	}
	roles := map[string]bool{}
	for range 2 {
		m, err := sub.NextMsgWithContext(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		var one Member
		if err := json.Unmarshal(m.Data, &one); err != nil || m.Header.Get(headerFormat) != "1" || one.ID == "" {
			t.Errorf("%s: %v, %v", m.Data, m.Header, err)
		}
		roles[one.Role] = true
	}
	if len(roles) != 2 {
		t.Errorf("roles %v answered", roles)
	}
}

// TestFleetOfNobody: where nobody answers there is nobody.
func TestFleetOfNobody(t *testing.T) {
	t.Parallel()
	members, err := Fleet(testContext(t), testConn(t, testServer(t, nil)), time.Second)
	if err != nil || members == nil || len(members) != 0 {
		t.Errorf("%v, %v", members, err)
	}
}

// TestFleetOfOther: what is not a member's answer is an error that says so, and one that just starts is told as such.
func TestFleetOfOther(t *testing.T) {
	t.Parallel()
	conn := testConn(t, testServer(t, nil))
	svc, err := micro.AddService(conn, micro.Config{Name: fleetService, Version: "0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	defer svc.Stop()
	if members, err := Fleet(testContext(t), conn, time.Second); err != nil || len(members) != 1 || members[0].State != "starts" {
		t.Errorf("%v, %v", members, err)
	}
	if _, err := readMember([]byte(`{"endpoints":[{"data":7}]}`)); err == nil || !strings.Contains(err.Error(), "can't be read") {
		t.Errorf("nonsense: %v", err)
	}
}

// TestMemberFitsAMessage: of very many tables a part is told, and how many are not.
func TestMemberFitsAMessage(t *testing.T) {
	t.Parallel()
	m := Member{Sync: "shop"}
	for i := range 20_000 {
		m.Tables = append(m.Tables, MemberTable{Table: fmt.Sprintf("public.t%d", i), Error: strings.Repeat("x", 50)})
	}
	b := m.encode()
	var back Member
	if err := json.Unmarshal(b, &back); err != nil || len(b) > memberBytes || len(back.Tables) == 0 || len(back.Tables)+back.TablesLeftOut != 20_000 {
		t.Errorf("%d bytes, %d tables and %d left out: %v", len(b), len(back.Tables), back.TablesLeftOut, err)
	}
}
