package source

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/syncd-io/syncd"
)

// walStream is a replication connection that streams. It reads frames into one big buffer, where they are decoded in place;
// pgconn, which brought the connection about, has nothing to do with it any more. next is called by one goroutine, status
// and interrupt by any.
type walStream struct {
	conn socket
	buf  []byte
	r, w int // what has been read and not given out is buf[r:w]
	need int // bytes of the message at r, as far as is known

	// behind says that we are behind the server. Then messages are left to pile up in the kernel for a moment after a read
	// that brought little: being woken for each costs the server more than decoding it.
	behind bool
	little bool

	writing sync.Mutex
	out     []byte

	closing sync.Mutex
	closed  bool
}

const (
	streamBuffer = 256 << 10
	// pileUp is the pause after a short read while behind.
	pileUp = time.Millisecond
)

// errStreamEnded says that the server ended the stream by itself.
var errStreamEnded = errors.New("the server ended the replication stream")

// startStream starts replication from the slot's confirmed position on. It takes the connection over.
func startStream(ctx context.Context, c *pgconn.PgConn, slot, publication string) (*walStream, error) {
	sql := fmt.Sprintf("START_REPLICATION SLOT %s LOGICAL 0/0 (proto_version '1', publication_names %s, messages 'true')",
		syncd.QuoteIdent(slot), quoteLiteral(syncd.QuoteIdent(publication)))
	if _, err := c.Exec(ctx, "SET lock_timeout = 0").ReadAll(); err != nil {
		return nil, fmt.Errorf("prepare the replication session: %w", err)
	}
	if err := c.SyncConn(ctx); err != nil {
		return nil, fmt.Errorf("prepare the replication session: %w", err)
	}
	h, err := c.Hijack()
	if err != nil {
		return nil, fmt.Errorf("take over the replication connection: %w", err)
	}
	conn, err := newSocket(h.Conn)
	if err != nil {
		h.Conn.Close()
		return nil, fmt.Errorf("take over the replication connection: %w", err)
	}
	s := &walStream{conn: conn, buf: make([]byte, streamBuffer)}
	stop := context.AfterFunc(ctx, s.interrupt)
	err = s.start(sql)
	stop()
	if err != nil {
		s.close()
		return nil, fmt.Errorf("start replication from slot %s: %w", slot, err)
	}
	return s, nil
}

func (s *walStream) start(sql string) error {
	msg, err := (&pgproto3.Query{String: sql}).Encode(nil)
	if err != nil {
		return err
	}
	if _, err := s.conn.Write(msg); err != nil {
		return err
	}
	for {
		kind, body, err := s.message(nil)
		switch {
		case err != nil:
			return err
		case kind == 'W':
			return nil
		case kind == 'd':
			return fmt.Errorf("%d bytes of data before the answer", len(body))
		}
	}
}

// interrupt ends the connection at once, and with it next and status.
func (s *walStream) interrupt() {
	s.closing.Lock()
	defer s.closing.Unlock()
	if !s.closed {
		s.conn.Interrupt()
	}
}

// close gives the connection up when nobody calls next or status any more.
func (s *walStream) close() {
	s.closing.Lock()
	defer s.closing.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.conn.Interrupt()
	_ = s.conn.Close() // there is nothing left to be lost
}

// next gives the contents of the next CopyData message, valid until the next call. Before it has to wait for more it calls
// drained, and ends with that one's error.
func (s *walStream) next(drained func() error) ([]byte, error) {
	for {
		kind, body, err := s.message(drained)
		switch {
		case err != nil:
			return nil, err
		case kind == 'd':
			return body, nil
		case kind == 'c', kind == 'C', kind == 'Z':
			return nil, errStreamEnded
		}
	}
}

// message gives the next message of Postgres's frontend/backend protocol. Those that may come at any time and mean nothing
// here are left out; an ErrorResponse is a *pgconn.PgError.
func (s *walStream) message(drained func() error) (byte, []byte, error) {
	for {
		kind, body, ok, err := s.buffered()
		if err != nil {
			return 0, nil, err
		}
		if !ok {
			if drained != nil {
				if err := drained(); err != nil {
					return 0, nil, err
				}
			}
			if err := s.fill(); err != nil {
				return 0, nil, err
			}
			continue
		}
		switch kind {
		case 'N', 'S', 'A': // NoticeResponse, ParameterStatus, NotificationResponse
		case 'E':
			return 0, nil, parseError(body)
		case 'd', 'W', 'c', 'C', 'Z':
			return kind, body, nil
		default:
			return 0, nil, &ProtocolError{Err: fmt.Errorf("a message of kind %q does not belong into a replication stream", kind)}
		}
	}
}

// buffered gives the message at r where it is there as a whole.
func (s *walStream) buffered() (kind byte, body []byte, ok bool, err error) {
	const header = 5
	s.need = header
	if s.w-s.r < header {
		return 0, nil, false, nil
	}
	n := int(int32(binary.BigEndian.Uint32(s.buf[s.r+1:])))
	if n < 4 {
		return 0, nil, false, &ProtocolError{Err: fmt.Errorf("a message of kind %q says its length is %d", s.buf[s.r], n)}
	}
	if s.need = 1 + n; s.w-s.r < s.need {
		return 0, nil, false, nil
	}
	kind, body = s.buf[s.r], s.buf[s.r+header:s.r+s.need]
	s.r += s.need
	return kind, body, true, nil
}

// fill reads what there is, at least a byte.
func (s *walStream) fill() error {
	s.makeRoom()
	if s.behind && s.little {
		time.Sleep(pileUp)
	}
	n, err := s.conn.Read(s.buf[s.w:])
	s.w += n
	s.little = n < streamBuffer/2
	if n > 0 {
		return nil
	}
	if err == nil {
		err = errStreamEnded
	}
	return fmt.Errorf("read the replication stream: %w", err)
}

// makeRoom moves what is left to the buffer's beginning, and makes the buffer as large as the message that is to come, or as
// small again.
func (s *walStream) makeRoom() {
	left := s.w - s.r
	switch {
	case s.need > len(s.buf) || left == 0 && len(s.buf) > streamBuffer:
		buf := make([]byte, max(streamBuffer, s.need))
		copy(buf, s.buf[s.r:s.w])
		s.buf = buf
	case left == 0:
	case len(s.buf)-s.r < s.need || len(s.buf)-s.w < streamBuffer/4:
		copy(s.buf, s.buf[s.r:s.w])
	default:
		return
	}
	s.r, s.w = 0, left
}

// status sends a status update.
func (s *walStream) status(st Status) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	b := append(s.out[:0], 'd', 0, 0, 0, 0)
	b = st.Append(b)
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-1))
	s.out = b
	if _, err := s.conn.Write(b); err != nil {
		return fmt.Errorf("send a status update: %w", err)
	}
	return nil
}

func parseError(body []byte) error {
	var e pgproto3.ErrorResponse
	if err := e.Decode(body); err != nil {
		return &ProtocolError{Err: fmt.Errorf("an error message that can't be read: %w", err)}
	}
	return pgconn.ErrorResponseToPgError(&e)
}

// ProtocolError says that the replication stream holds what can't be understood. Nothing behind it may be confirmed, so the
// source stops.
type ProtocolError struct {
	LSN syncd.LSN // of the message; 0 where it has none
	Err error
}

// Error names the LSN.
func (e *ProtocolError) Error() string {
	return fmt.Sprintf("replication stream at %s: %v", e.LSN, e.Err)
}

// Unwrap gives the error of the decoder.
func (e *ProtocolError) Unwrap() error { return e.Err }
