package source

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/syncd-io/syncd"
)

// Kind is the first byte of a pgoutput message: what it is.
type Kind byte

// The messages of protocol version 1.
const (
	KindBegin    Kind = 'B'
	KindCommit   Kind = 'C'
	KindOrigin   Kind = 'O'
	KindRelation Kind = 'R'
	KindType     Kind = 'Y'
	KindInsert   Kind = 'I'
	KindUpdate   Kind = 'U'
	KindDelete   Kind = 'D'
	KindTruncate Kind = 'T'
	KindMessage  Kind = 'M'
)

// The messages of later versions: streamed transactions (2), prepared ones (3), both (3). A server sends them only to who
// asked for them, except for StreamAbort, which Postgres 18 also sends on version 1 for a transaction it had not begun to
// send; there it means nothing. A StreamStart that was not asked for has to end the connection: the changes behind it carry
// a transaction id that Decode does not look for.
const (
	KindStreamStart      Kind = 'S'
	KindStreamStop       Kind = 'E'
	KindStreamCommit     Kind = 'c'
	KindStreamAbort      Kind = 'A'
	KindStreamPrepare    Kind = 'p'
	KindBeginPrepare     Kind = 'b'
	KindPrepare          Kind = 'P'
	KindCommitPrepared   Kind = 'K'
	KindRollbackPrepared Kind = 'r'
)

// String gives the name that Postgres's documentation of the message formats uses.
func (k Kind) String() string {
	switch k {
	case KindBegin:
		return "Begin"
	case KindCommit:
		return "Commit"
	case KindOrigin:
		return "Origin"
	case KindRelation:
		return "Relation"
	case KindType:
		return "Type"
	case KindInsert:
		return "Insert"
	case KindUpdate:
		return "Update"
	case KindDelete:
		return "Delete"
	case KindTruncate:
		return "Truncate"
	case KindMessage:
		return "Message"
	}
	return k.laterString()
}

func (k Kind) laterString() string {
	switch k {
	case KindStreamStart:
		return "Stream Start"
	case KindStreamStop:
		return "Stream Stop"
	case KindStreamCommit:
		return "Stream Commit"
	case KindStreamAbort:
		return "Stream Abort"
	case KindStreamPrepare:
		return "Stream Prepare"
	case KindBeginPrepare:
		return "Begin Prepare"
	case KindPrepare:
		return "Prepare"
	case KindCommitPrepared:
		return "Commit Prepared"
	case KindRollbackPrepared:
		return "Rollback Prepared"
	}
	return fmt.Sprintf("message %q", byte(k))
}

// ValueKind says how a column's value stands in a tuple.
type ValueKind byte

// The ways of a value. Unchanged is a large value (TOAST) that an update left alone: it is not in the stream, which is not
// the same as NULL.
const (
	Null      ValueKind = 'n'
	Unchanged ValueKind = 'u'
	Text      ValueKind = 't'
	Binary    ValueKind = 'b'
)

// Value is one column of a tuple. Data is set for Text and Binary, and lies in the buffer that was decoded.
type Value struct {
	Kind ValueKind
	Data []byte
}

// TextValues appends one Value for each column of a row that was read in the text format, where nil is NULL (as pgx's
// RawValues gives it).
func TextValues(dst []Value, raw [][]byte) []Value {
	for _, b := range raw {
		if b == nil {
			dst = append(dst, Value{Kind: Null})
			continue
		}
		dst = append(dst, Value{Text, b})
	}
	return dst
}

// Begin opens a transaction; its changes follow, and then its Commit.
type Begin struct {
	// Final is where the commit record starts. Versions are made of Commit.End, not of this.
	Final     syncd.LSN
	Committed time.Time
	XID       uint32 // of the top-level transaction, without its epoch
}

// Commit ends a transaction. A StreamCommit fills it in too, with XID set.
type Commit struct {
	LSN       syncd.LSN // where the commit record starts: the Begin's Final
	End       syncd.LSN // just behind the commit record
	Committed time.Time
	XID       uint32 // StreamCommit only
}

// Origin says where a transaction came from that another subscription wrote.
type Origin struct {
	LSN  syncd.LSN // of the commit on the origin
	Name []byte
}

// Relation describes a table before its first change on a connection, and again after it was altered: as it was at that
// place of the log, not as it is now.
type Relation struct {
	OID       uint32
	Namespace []byte
	Name      []byte
	// Identity is pg_class.relreplident: d (primary key), n (nothing), f (the whole row) or i (an index).
	Identity byte
	Columns  []RelationColumn
}

// clone copies a Relation out of the message that it was decoded in.
func (r *Relation) clone() *Relation {
	c := *r
	c.Namespace, c.Name, c.Columns = bytes.Clone(r.Namespace), bytes.Clone(r.Name), slices.Clone(r.Columns)
	for i := range c.Columns {
		c.Columns[i].Name = bytes.Clone(c.Columns[i].Name)
	}
	return &c
}

// RelationColumn is one published column of a Relation.
type RelationColumn struct {
	Key    bool // part of the replica identity; on identity f every column is
	Name   []byte
	Type   uint32 // OID
	Typmod int32
}

// TypeName names a type that is not built in, before the Relation that uses it.
type TypeName struct {
	OID       uint32
	Namespace []byte
	Name      []byte
}

// OldTuple says what of the old row a change carries.
type OldTuple byte

// The old tuples: none (the replica identity did not change); the replica identity's columns, others NULL; or the whole
// row (REPLICA IDENTITY FULL).
const (
	OldNone OldTuple = 0
	OldKey  OldTuple = 'K'
	OldRow  OldTuple = 'O'
)

// Change is an Insert (New), an Update (New, perhaps Old) or a Delete (Old).
//
// An update sends a large value that did not change once, in the old tuple, where that has it: always on REPLICA IDENTITY
// FULL, and for a key that is itself large. Decode has put it into New then; what is Unchanged is in neither tuple.
type Change struct {
	Relation uint32
	OldTuple OldTuple
	Old      []Value
	New      []Value
}

// Truncated lists the tables that one TRUNCATE emptied.
type Truncated struct {
	Cascade, RestartIdentity bool
	Relations                []uint32
}

// LogicalMessage is what pg_logical_emit_message wrote.
type LogicalMessage struct {
	Transactional bool
	LSN           syncd.LSN
	Prefix        []byte
	Content       []byte
}

// Stream holds what StreamStart and StreamAbort say.
type Stream struct {
	XID    uint32
	SubXID uint32 // StreamAbort: the subtransaction, or XID itself
	First  bool   // StreamStart: the first block of the transaction
}

// Prepared holds what the messages of two-phase commit say. End is just behind the record that the message tells of;
// Committed is that record's time.
type Prepared struct {
	LSN       syncd.LSN
	End       syncd.LSN
	Committed time.Time
	XID       uint32
	GID       []byte
}

// Decoder reads pgoutput messages one at a time. The zero Decoder is ready. Decode fills the field that belongs to the kind
// it returns; slices in it point into the message or are reused, so all of it is valid only until the next call, or until
// the message's buffer changes. A Decoder must not be used by two goroutines at once. It allocates nothing once its slices
// have grown.
//
// The formats are those of the chapter "Logical Replication Message Formats" of Postgres's documentation and of
// src/backend/replication/logical/proto.c.
type Decoder struct {
	Begin    Begin
	Commit   Commit         // Commit, StreamCommit
	Origin   Origin         // Origin
	Relation Relation       // Relation
	Type     TypeName       // Type
	Change   Change         // Insert, Update, Delete
	Truncate Truncated      // Truncate
	Message  LogicalMessage // Message
	Stream   Stream         // StreamStart, StreamAbort
	Prepared Prepared       // BeginPrepare, Prepare, CommitPrepared, RollbackPrepared, StreamPrepare
}

// DecodeError says where a message is malformed.
type DecodeError struct {
	Message string // what kind of message it is
	Field   string // the field that can't be read
	Offset  int    // of the field's first byte in the message, whose first byte, the kind, is at 0
	Reason  string
}

// Error names the kind, the field and the byte.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("decode %s: %s at byte %d: %s", e.Message, e.Field, e.Offset, e.Reason)
}

// UnknownKindError is a message of a kind that no known version of the protocol has. Nothing may be skipped, so the caller
// has to stop; it knows the LSN.
type UnknownKindError struct {
	Protocol string // pgoutput, or the frames around it
	Kind     byte
	Data     []byte // a copy of the whole message
}

// Error shows the first bytes of the message.
func (e *UnknownKindError) Error() string {
	const most = 64
	if len(e.Data) > most {
		return fmt.Sprintf("decode %s: unknown message kind %q, %d bytes beginning with %x", e.Protocol, e.Kind, len(e.Data), e.Data[:most])
	}
	return fmt.Sprintf("decode %s: unknown message kind %q, %d bytes: %x", e.Protocol, e.Kind, len(e.Data), e.Data)
}

const protocolName = "pgoutput"

// Decode reads one message. Whatever does not have exactly the form of its kind, from the first byte to the last, is a
// *DecodeError; a kind that is not known is an *UnknownKindError. After an error the fields hold nothing of use.
func (d *Decoder) Decode(msg []byte) (Kind, error) {
	if len(msg) == 0 {
		return 0, &DecodeError{Message: protocolName, Field: "kind", Reason: "the message is empty"}
	}
	k := Kind(msg[0])
	r := reader{buf: msg, pos: 1}
	switch k {
	case KindInsert, KindUpdate, KindDelete:
		d.change(&r, k)
	case KindBegin:
		d.begin(&r)
	case KindCommit, KindStreamCommit:
		d.commit(&r, k)
	case KindOrigin:
		d.Origin = Origin{LSN: r.lsn("commit LSN"), Name: r.cstring("name")}
	case KindRelation:
		d.relation(&r)
	case KindType:
		d.Type = TypeName{OID: r.uint32("type OID"), Namespace: r.namespace(), Name: r.cstring("name")}
	case KindTruncate:
		d.truncate(&r)
	case KindMessage:
		d.message(&r)
	case KindStreamStart, KindStreamStop, KindStreamAbort:
		d.stream(&r, k)
	case KindBeginPrepare, KindPrepare, KindCommitPrepared, KindRollbackPrepared, KindStreamPrepare:
		d.prepared(&r, k)
	default:
		return k, &UnknownKindError{Protocol: protocolName, Kind: msg[0], Data: bytes.Clone(msg)}
	}
	if r.pos != len(msg) {
		r.fail("end", r.pos, "%d bytes are left over", len(msg)-r.pos)
	}
	if r.err != nil {
		r.err.Message = k.String()
		return k, r.err
	}
	return k, nil
}

func (d *Decoder) begin(r *reader) {
	at := r.pos
	d.Begin = Begin{Final: r.lsn("final LSN"), Committed: r.time("commit time"), XID: r.uint32("xid")}
	if d.Begin.Final == 0 {
		r.fail("final LSN", at, "it is 0")
	}
}

func (d *Decoder) commit(r *reader, k Kind) {
	d.Commit = Commit{}
	if k == KindStreamCommit {
		d.Commit.XID = r.uint32("xid")
	}
	r.flags(0)
	d.Commit.LSN = r.lsn("commit LSN")
	at := r.pos
	d.Commit.End = r.lsn("end LSN")
	if d.Commit.End <= d.Commit.LSN {
		r.fail("end LSN", at, "it is not behind the commit LSN %s", d.Commit.LSN)
	}
	d.Commit.Committed = r.time("commit time")
}

func (d *Decoder) relation(r *reader) {
	rel := &d.Relation
	rel.Columns = rel.Columns[:0]
	rel.OID = r.uint32("relation OID")
	rel.Namespace = r.namespace()
	rel.Name = r.cstring("name")
	at := r.pos
	rel.Identity = r.uint8("replica identity")
	if bytes.IndexByte([]byte("dnfi"), rel.Identity) < 0 {
		r.fail("replica identity", at, "%q is not d, n, f or i", rel.Identity)
	}
	for n := r.uint16("number of columns"); n > 0 && r.err == nil; n-- {
		rel.Columns = append(rel.Columns, RelationColumn{
			Key:    r.flags(1) != 0,
			Name:   r.cstring("column name"),
			Type:   r.uint32("column type OID"),
			Typmod: int32(r.uint32("column type modifier")),
		})
	}
}

func (d *Decoder) change(r *reader, k Kind) {
	c := &d.Change
	c.OldTuple, c.Old, c.New = OldNone, c.Old[:0], c.New[:0]
	c.Relation = r.uint32("relation OID")
	at := r.pos
	tag := r.uint8("tuple kind")
	if (tag == 'K' || tag == 'O') && k != KindInsert {
		c.OldTuple = OldTuple(tag)
		c.Old = r.tuple(c.Old, "old tuple")
		if k == KindDelete {
			return
		}
		at = r.pos
		tag = r.uint8("tuple kind")
	}
	if tag != 'N' || k == KindDelete {
		r.fail("tuple kind", at, "%q does not belong here", tag)
		return
	}
	c.New = r.tuple(c.New, "new tuple")
	for i := range min(len(c.New), len(c.Old)) {
		if c.New[i].Kind == Unchanged && c.Old[i].Kind == Text {
			c.New[i] = c.Old[i]
		}
	}
}

func (d *Decoder) truncate(r *reader) {
	t := &d.Truncate
	t.Relations = t.Relations[:0]
	n := r.uint32("number of relations")
	flags := r.flags(3)
	t.Cascade, t.RestartIdentity = flags&1 != 0, flags&2 != 0
	for ; n > 0 && r.err == nil; n-- {
		t.Relations = append(t.Relations, r.uint32("relation OID"))
	}
}

func (d *Decoder) message(r *reader) {
	d.Message = LogicalMessage{
		Transactional: r.flags(1) != 0,
		LSN:           r.lsn("LSN"),
		Prefix:        r.cstring("prefix"),
		Content:       r.counted("content", -1),
	}
}

func (d *Decoder) stream(r *reader, k Kind) {
	d.Stream = Stream{}
	switch k {
	case KindStreamStart:
		d.Stream.XID = r.uint32("xid")
		d.Stream.First = r.flags(1) != 0
	case KindStreamAbort:
		d.Stream.XID = r.uint32("xid")
		d.Stream.SubXID = r.uint32("subtransaction xid")
		if r.pos < len(r.buf) { // version 4, where parallel streaming is on
			r.lsn("abort LSN")
			r.time("abort time")
		}
	}
}

func (d *Decoder) prepared(r *reader, k Kind) {
	if k != KindBeginPrepare {
		r.flags(0)
	}
	p := Prepared{LSN: r.lsn("LSN"), End: r.lsn("end LSN"), Committed: r.time("time")}
	if k == KindRollbackPrepared {
		p.Committed = r.time("rollback time")
	}
	p.XID, p.GID = r.uint32("xid"), r.cstring("gid")
	d.Prepared = p
}

// reader takes the fields of one message in turn. After the first fault it gives zeros and stays where it is.
type reader struct {
	buf []byte
	pos int
	err *DecodeError
}

func (r *reader) fail(field string, at int, format string, args ...any) {
	if r.err == nil {
		r.err = &DecodeError{Field: field, Offset: at, Reason: fmt.Sprintf(format, args...)}
	}
}

// take gives the next n bytes, or nil after a fault.
func (r *reader) take(field string, n int) []byte {
	if r.err != nil {
		return nil
	}
	if n > len(r.buf)-r.pos {
		r.fail(field, r.pos, "it needs %d bytes, %d are left", n, len(r.buf)-r.pos)
		return nil
	}
	r.pos += n
	return r.buf[r.pos-n : r.pos : r.pos]
}

func (r *reader) uint8(field string) byte {
	if b := r.take(field, 1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint16(field string) uint16 {
	if b := r.take(field, 2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) uint32(field string) uint32 {
	if b := r.take(field, 4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) uint64(field string) uint64 {
	if b := r.take(field, 8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) lsn(field string) syncd.LSN { return syncd.LSN(r.uint64(field)) }

func (r *reader) time(field string) time.Time { return fromMicros(int64(r.uint64(field))) }

// flags reads a byte in which only the bits of known may be set.
func (r *reader) flags(known byte) byte {
	at := r.pos
	b := r.uint8("flags")
	if b&^known != 0 {
		r.fail("flags", at, "%#02x has bits that are not known", b)
	}
	return b
}

func (r *reader) cstring(field string) []byte {
	if r.err != nil {
		return nil
	}
	n := bytes.IndexByte(r.buf[r.pos:], 0)
	if n < 0 {
		r.fail(field, r.pos, "the zero byte that ends it is missing")
		return nil
	}
	return r.take(field, n+1)[:n:n]
}

// namespace reads a schema's name, which is empty for pg_catalog.
func (r *reader) namespace() []byte {
	if b := r.cstring("namespace"); len(b) > 0 || r.err != nil {
		return b
	}
	return pgCatalog
}

var pgCatalog = []byte("pg_catalog")

// counted reads a length and that many bytes. column, where not negative, is the place in a tuple that an error names.
func (r *reader) counted(field string, column int) []byte {
	at := r.pos
	n := int32(r.uint32(field))
	if r.err == nil && (n < 0 || int(n) > len(r.buf)-r.pos) {
		r.fail(field, at, "its length is %d, %d bytes are left", n, len(r.buf)-r.pos)
	}
	if r.err != nil {
		if column >= 0 {
			r.err.Field = fmt.Sprintf("%s, column %d", field, column+1)
		}
		return nil
	}
	return r.take(field, int(n))
}

func (r *reader) tuple(dst []Value, field string) []Value {
	n := int(r.uint16(field))
	for i := range n {
		if r.err != nil {
			break
		}
		if r.pos == len(r.buf) {
			r.fail(field, r.pos, "it has %d of %d columns", i, n)
			break
		}
		kind := ValueKind(r.buf[r.pos])
		r.pos++
		switch kind {
		case Text, Binary:
			dst = append(dst, Value{kind, r.counted(field, i)})
		case Null, Unchanged:
			dst = append(dst, Value{Kind: kind})
		default:
			r.fail(fmt.Sprintf("%s, column %d", field, i+1), r.pos-1, "%q is not n, u, t or b", byte(kind))
		}
	}
	return dst
}

// Postgres counts microseconds from 2000-01-01 00:00:00 UTC; this is that moment in Unix time.
const postgresEpoch = 946684800 * 1_000_000

func fromMicros(us int64) time.Time { return time.UnixMicro(postgresEpoch + us).UTC() }

func toMicros(t time.Time) int64 { return t.UnixMicro() - postgresEpoch }
