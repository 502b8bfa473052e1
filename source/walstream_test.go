package source

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/syncd-io/syncd"
)

// scripted is a socket whose server says what it is given, in pieces of any size, and then ends the connection.
type scripted struct {
	io.Reader
	said bytes.Buffer
}

func (s *scripted) Write(b []byte) (int, error) { return s.said.Write(b) }
func (s *scripted) Interrupt()                  {}
func (s *scripted) Close() error                { return nil }

func packet(kind byte, body []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{kind}, uint32(4+len(body)))
	return append(b, body...)
}

func dataPacket(lsn syncd.LSN, sent time.Time, data []byte) []byte {
	b := binary.BigEndian.AppendUint64([]byte{'w'}, uint64(lsn))
	b = binary.BigEndian.AppendUint64(b, uint64(lsn))
	b = binary.BigEndian.AppendUint64(b, uint64(toMicros(sent)))
	return packet('d', append(b, data...))
}

func keepalivePacket(end syncd.LSN, reply bool) []byte {
	b := binary.BigEndian.AppendUint64([]byte{'k'}, uint64(end))
	b = binary.BigEndian.AppendUint64(b, 0)
	if reply {
		return packet('d', append(b, 1))
	}
	return packet('d', append(b, 0))
}

func beginOf(final syncd.LSN, at time.Time, xid uint32) []byte {
	b := binary.BigEndian.AppendUint64([]byte{'B'}, uint64(final))
	b = binary.BigEndian.AppendUint64(b, uint64(toMicros(at)))
	return binary.BigEndian.AppendUint32(b, xid)
}

func commitOf(final, end syncd.LSN, at time.Time) []byte {
	b := binary.BigEndian.AppendUint64([]byte{'C', 0}, uint64(final))
	b = binary.BigEndian.AppendUint64(b, uint64(end))
	return binary.BigEndian.AppendUint64(b, uint64(toMicros(at)))
}

func insertOf(k, a, x int) []byte {
	b := append(binary.BigEndian.AppendUint32([]byte{'I'}, 1), 'N', 0, 3)
	for _, n := range []int{k, a, x} {
		text := fmt.Sprint(n)
		b = append(binary.BigEndian.AppendUint32(append(b, 't'), uint32(len(text))), text...)
	}
	return b
}

// takeIn makes an intake on what a server says.
func takeIn(t *testing.T, says io.Reader) *intake {
	t.Helper()
	in := &intake{
		Stream: &walStream{conn: &scripted{Reader: says}, buf: make([]byte, streamBuffer)},
		Queue:  newQueue(1<<20, 0), Visible: newVisibility(), Recent: new(atomic.Uint64),
		Build: *testBuilder(t, 0), Answer: func() {}, Heard: func() {},
	}
	in.Recent.Store(5<<32 + 1000)
	return in
}

func TestIntakeReadsWhatComesInPieces(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	var says []byte
	want := 0
	for i := range 200 {
		lsn := syncd.LSN(1000 + 100*i)
		says = append(says, dataPacket(lsn, at, beginOf(lsn, at, uint32(1000+i)))...)
		for j := range 1 + i%5 {
			says = append(says, dataPacket(lsn, at, insertOf(1000*i+j, i, j))...)
			want++
		}
		says = append(says, dataPacket(lsn, at, commitOf(lsn, lsn+10, at))...)
		says = append(says, keepalivePacket(lsn+20, i%2 == 0)...)
		says = append(says, packet('N', []byte{'S', 'x', 0, 0})...) // a notice
	}
	for name, r := range map[string]io.Reader{
		"at once": bytes.NewReader(says), "bytewise": iotest.OneByteReader(bytes.NewReader(says)), "by halves": iotest.HalfReader(bytes.NewReader(says)),
	} {
		t.Run(name, func(t *testing.T) {
			in := takeIn(t, r)
			answers := 0
			in.Answer = func() { answers++ }
			if err := in.run(t.Context()); !errors.Is(err, io.EOF) {
				t.Fatalf("it ended with %v", err)
			}
			b, through := in.Queue.take(1 << 30)
			if len(b.deltas) != want || through != 1000+100*199+20 || answers != 100 {
				t.Errorf("%d deltas up to %s, %d answers; want %d", len(b.deltas), through, answers, want)
			}
			if last := b.deltas[len(b.deltas)-1]; last.XID != 5<<32+1199 || last.Version.LSN != 1000+100*199+10 || string(last.Row) != `{"k":199004,"a":199,"x":"4"}` {
				t.Errorf("the last is %+v", last)
			}
			if got := in.Visible.safe(through); got != 1009 {
				t.Errorf("safe is %s before any snapshot", got)
			}
		})
	}
}

func TestIntakeStopsAtWhatItCantUnderstand(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	good := bytes.Join([][]byte{
		dataPacket(1000, at, beginOf(1000, at, 7)), dataPacket(1001, at, insertOf(1, 2, 3)), dataPacket(1000, at, commitOf(1000, 1010, at)),
	}, nil)
	tests := []struct {
		name string
		bad  []byte
		says string
	}{
		{"an unknown message", dataPacket(2000, at, []byte("?what")), "0/7D0"},
		{"a garbled message", dataPacket(2000, at, insertOf(1, 2, 3)[:9]), "0/7D0"},
		{"an unknown frame", packet('d', []byte("?")), "0/3F2"},
		{"a message of another protocol", packet('X', nil), "kind 'X'"},
		{"a length that can't be", []byte{'d', 0, 0, 0, 1}, "length is 1"},
		{"a streamed transaction that was not asked for", dataPacket(2000, at, []byte{'S', 0, 0, 0, 9, 1}), "not asked for"},
		{"a change outside of a transaction", dataPacket(2000, at, insertOf(1, 2, 3)), "outside of a transaction"},
		{"a commit of another transaction", append(dataPacket(2000, at, beginOf(2000, at, 8)), dataPacket(2000, at, commitOf(2008, 2010, at))...), "does not end"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := takeIn(t, bytes.NewReader(append(good[:len(good):len(good)], append(tt.bad, good...)...)))
			err := in.run(t.Context())
			var protocol *ProtocolError
			if !errors.As(err, &protocol) || !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("it ended with %v, want %q", err, tt.says)
			}
			if !final(err) {
				t.Error("it would be tried again")
			}
			if in.through != 1010 {
				t.Errorf("it went on to %s", in.through)
			}
		})
	}
}

func TestIntakeGivesTheServersError(t *testing.T) {
	in := takeIn(t, bytes.NewReader(packet('E', []byte("SFATAL\x00C57P01\x00Mterminating connection\x00\x00"))))
	err := in.run(t.Context())
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "57P01" || final(err) {
		t.Errorf("it ended with %v", err)
	}
}

func TestMessagesLargerThanTheBuffer(t *testing.T) {
	sizes := []int{10, streamBuffer - 5, streamBuffer - 4, 3 * streamBuffer, 1, 2*streamBuffer + 1, streamBuffer / 2, streamBuffer / 2, 7}
	var says []byte
	for i, n := range sizes {
		says = append(says, packet('d', bytes.Repeat([]byte{byte(i)}, n))...)
	}
	s := &walStream{conn: &scripted{Reader: iotest.HalfReader(bytes.NewReader(says))}, buf: make([]byte, streamBuffer)}
	for i, n := range sizes {
		body, err := s.next(nil)
		if err != nil || len(body) != n || bytes.Count(body, []byte{byte(i)}) != n {
			t.Fatalf("message %d has %d bytes, want %d (%v)", i, len(body), n, err)
		}
	}
	if len(s.buf) != streamBuffer {
		t.Errorf("the buffer stays at %d bytes", len(s.buf))
	}
}

func TestSocketIsInterrupted(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server := <-accepted
	defer server.Close()
	conn, err := newSocket(c)
	if err != nil {
		t.Fatal(err)
	}
	s := &walStream{conn: conn, buf: make([]byte, streamBuffer)}
	defer s.close()
	if _, err := server.Write(packet('d', []byte("hello"))); err != nil {
		t.Fatal(err)
	}
	body, err := s.next(nil)
	if err != nil || string(body) != "hello" {
		t.Fatalf("%q, %v", body, err)
	}
	if err := s.status(Status{Written: 1, Flushed: 2, Applied: 3, Sent: time.Unix(1, 0)}); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 1+4+34)
	if _, err := io.ReadFull(server, got); err != nil || got[0] != 'd' || got[5] != 'r' {
		t.Fatalf("the server got %q, %v", got, err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := s.next(nil)
		ended <- err
	}()
	ctx, cancel := context.WithCancel(t.Context())
	defer context.AfterFunc(ctx, s.interrupt)()
	cancel()
	if err := <-ended; err == nil {
		t.Error("a read that was interrupted gives no error")
	}
}
