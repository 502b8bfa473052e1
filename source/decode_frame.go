package source

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/syncd-io/syncd"
)

// FrameKind is the first byte of what a walsender puts into CopyData.
type FrameKind byte

// The frames that a walsender sends.
const (
	XLogData  FrameKind = 'w' // one message of the output plugin
	Keepalive FrameKind = 'k'
)

// Frame is one message of the streaming replication protocol, as it lies in CopyData.
type Frame struct {
	Kind FrameKind
	// Start is where the data begins in the log (XLogData). For pgoutput it is the LSN of the change.
	Start syncd.LSN
	// End is how far the walsender had sent, or knows the log to reach, when it sent the frame.
	End  syncd.LSN
	Sent time.Time // by the server's clock
	// Reply says that the server wants a status update at once, else it ends the connection (Keepalive).
	Reply bool
	// Data is the message (XLogData). It lies in the buffer that was decoded.
	Data []byte
}

const frameName = "replication frame"

// Decode reads the contents of one CopyData message. What does not have exactly the form of its kind is a *DecodeError; a
// kind that is not known is an *UnknownKindError.
func (f *Frame) Decode(b []byte) error {
	if len(b) == 0 {
		return &DecodeError{Message: frameName, Field: "kind", Reason: "the frame is empty"}
	}
	*f = Frame{Kind: FrameKind(b[0])}
	r := reader{buf: b, pos: 1}
	name := "XLogData"
	switch f.Kind {
	case XLogData:
		f.Start, f.End, f.Sent = r.lsn("start LSN"), r.lsn("end LSN"), r.time("time")
		f.Data = r.take("data", len(b)-r.pos)
	case Keepalive:
		name = "keepalive"
		f.End, f.Sent = r.lsn("end LSN"), r.time("time")
		f.Reply = r.flags(1) != 0
		if r.pos != len(b) {
			r.fail("end", r.pos, "%d bytes are left over", len(b)-r.pos)
		}
	default:
		return &UnknownKindError{Protocol: frameName, Kind: b[0], Data: bytes.Clone(b)}
	}
	if r.err != nil {
		r.err.Message = name
		return r.err
	}
	return nil
}

// Status is a standby status update: how far the receiver has come. Flushed is what the slot's confirmed LSN moves to: up
// to there the server may forget the log. Every position has to be given; nothing is filled in.
type Status struct {
	Written, Flushed, Applied syncd.LSN
	Sent                      time.Time // by our clock
	Reply                     bool      // asks the server for a keepalive at once
}

// Append appends the update as it goes into CopyData.
func (s Status) Append(b []byte) []byte {
	b = append(b, 'r')
	b = binary.BigEndian.AppendUint64(b, uint64(s.Written))
	b = binary.BigEndian.AppendUint64(b, uint64(s.Flushed))
	b = binary.BigEndian.AppendUint64(b, uint64(s.Applied))
	b = binary.BigEndian.AppendUint64(b, uint64(toMicros(s.Sent)))
	if s.Reply {
		return append(b, 1)
	}
	return append(b, 0)
}
