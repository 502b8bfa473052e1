package source

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/syncd-io/syncd"
)

// message puts the fields of a message together: integers big endian, strings with a zero byte behind.
func message(fields ...any) []byte {
	var b []byte
	for _, f := range fields {
		switch f := f.(type) {
		case byte:
			b = append(b, f)
		case rune: // a kind
			b = append(b, byte(f))
		case uint16:
			b = binary.BigEndian.AppendUint16(b, f)
		case uint32:
			b = binary.BigEndian.AppendUint32(b, f)
		case uint64:
			b = binary.BigEndian.AppendUint64(b, f)
		case string:
			b = append(append(b, f...), 0)
		case []byte:
			b = append(b, f...)
		}
	}
	return b
}

// tuple encodes values: nil is NULL, 'u' unchanged, a string text.
func tuple(values ...any) []byte {
	b := message(uint16(len(values)))
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			b = append(b, 'n')
		case rune:
			b = append(b, byte(v))
		case string:
			b = append(append(b, message('t', uint32(len(v)))...), v...)
		}
	}
	return b
}

func text(s string) Value { return Value{Text, []byte(s)} }

var (
	null      = Value{Kind: Null}
	unchanged = Value{Kind: Unchanged}
	noon      = time.Date(2024, 2, 29, 12, 0, 0, 123456000, time.UTC)
)

const (
	minusOne   = uint32(0xffffffff)
	noonMicros = uint64((8825*24+12)*3600*1_000_000 + 123456)
)

// samples has a valid message of each form, and what the decoder's field of that kind holds then.
var samples = []struct {
	name string
	msg  []byte
	kind Kind
	want any
}{
	{"begin", message('B', uint64(0x1_000000A0), noonMicros, uint32(741)), KindBegin,
		Begin{Final: 0x1_000000A0, Committed: noon, XID: 741}},
	{"commit", message('C', byte(0), uint64(0xA0), uint64(0xD8), noonMicros), KindCommit,
		Commit{LSN: 0xA0, End: 0xD8, Committed: noon}},
	{"origin", message('O', uint64(7), "upstream"), KindOrigin, Origin{LSN: 7, Name: []byte("upstream")}},
	{"relation", message('R', uint32(16390), "public", "users", byte('d'), uint16(2), byte(1), "id", uint32(23), minusOne, byte(0), "näme", uint32(1043), uint32(13)), KindRelation,
		Relation{OID: 16390, Namespace: []byte("public"), Name: []byte("users"), Identity: 'd', Columns: []RelationColumn{
			{Key: true, Name: []byte("id"), Type: 23, Typmod: -1}, {Name: []byte("näme"), Type: 1043, Typmod: 13}}}},
	{"relation of pg_catalog without columns", message('R', uint32(1), "", "x", byte('n'), uint16(0)), KindRelation,
		Relation{OID: 1, Namespace: []byte("pg_catalog"), Name: []byte("x"), Identity: 'n'}},
	{"type", message('Y', uint32(16400), "public", "mood"), KindType, TypeName{16400, []byte("public"), []byte("mood")}},
	{"insert", message('I', uint32(16390), 'N', tuple("1", nil, "", "\x00ü")), KindInsert,
		Change{Relation: 16390, New: []Value{text("1"), null, text(""), text("\x00ü")}}},
	{"insert of a binary value", message('I', uint32(16390), 'N', uint16(1), 'b', uint32(2), []byte{1, 2}), KindInsert,
		Change{Relation: 16390, New: []Value{{Binary, []byte{1, 2}}}}},
	{"insert without columns", message('I', uint32(16390), 'N', uint16(0)), KindInsert, Change{Relation: 16390}},
	{"update", message('U', uint32(16390), 'N', tuple("1", 'u')), KindUpdate,
		Change{Relation: 16390, New: []Value{text("1"), unchanged}}},
	{"update of the key", message('U', uint32(16390), 'K', tuple("1", nil, nil), 'N', tuple("2", "x", 'u')), KindUpdate,
		Change{Relation: 16390, OldTuple: OldKey, Old: []Value{text("1"), null, null}, New: []Value{text("2"), text("x"), unchanged}}},
	{"update with a large key", message('U', uint32(16390), 'K', tuple("large", nil), 'N', tuple('u', 'u')), KindUpdate,
		Change{Relation: 16390, OldTuple: OldKey, Old: []Value{text("large"), null}, New: []Value{text("large"), unchanged}}},
	{"update, full", message('U', uint32(16390), 'O', tuple("1", "large", nil), 'N', tuple("1", 'u', nil)), KindUpdate,
		Change{Relation: 16390, OldTuple: OldRow, Old: []Value{text("1"), text("large"), null}, New: []Value{text("1"), text("large"), null}}},
	{"delete", message('D', uint32(16390), 'K', tuple("1", nil)), KindDelete,
		Change{Relation: 16390, OldTuple: OldKey, Old: []Value{text("1"), null}}},
	{"delete, full", message('D', uint32(16390), 'O', tuple("1", "x")), KindDelete,
		Change{Relation: 16390, OldTuple: OldRow, Old: []Value{text("1"), text("x")}}},
	{"truncate", message('T', uint32(2), byte(3), uint32(16390), uint32(16395)), KindTruncate,
		Truncated{Cascade: true, RestartIdentity: true, Relations: []uint32{16390, 16395}}},
	{"message", message('M', byte(1), uint64(0xB0), "syncd", uint32(3), []byte("a\x00b")), KindMessage,
		LogicalMessage{Transactional: true, LSN: 0xB0, Prefix: []byte("syncd"), Content: []byte("a\x00b")}},
	{"stream start", message('S', uint32(741), byte(1)), KindStreamStart, Stream{XID: 741, First: true}},
	{"stream stop", message('E'), KindStreamStop, Stream{}},
	{"stream commit", message('c', uint32(741), byte(0), uint64(0xA0), uint64(0xD8), noonMicros), KindStreamCommit,
		Commit{LSN: 0xA0, End: 0xD8, Committed: noon, XID: 741}},
	{"stream abort", message('A', uint32(741), uint32(742)), KindStreamAbort, Stream{XID: 741, SubXID: 742}},
	{"stream abort of version 4", message('A', uint32(741), uint32(742), uint64(0xB0), noonMicros), KindStreamAbort, Stream{XID: 741, SubXID: 742}},
	{"begin prepare", message('b', uint64(0xA0), uint64(0xD8), noonMicros, uint32(741), "gid"), KindBeginPrepare,
		Prepared{LSN: 0xA0, End: 0xD8, Committed: noon, XID: 741, GID: []byte("gid")}},
	{"prepare", message('P', byte(0), uint64(0xA0), uint64(0xD8), noonMicros, uint32(741), "gid"), KindPrepare,
		Prepared{LSN: 0xA0, End: 0xD8, Committed: noon, XID: 741, GID: []byte("gid")}},
	{"commit prepared", message('K', byte(0), uint64(0xA0), uint64(0xD8), noonMicros, uint32(741), "gid"), KindCommitPrepared,
		Prepared{LSN: 0xA0, End: 0xD8, Committed: noon, XID: 741, GID: []byte("gid")}},
	{"rollback prepared", message('r', byte(0), uint64(0xA0), uint64(0xD8), uint64(1), noonMicros, uint32(741), "gid"), KindRollbackPrepared,
		Prepared{LSN: 0xA0, End: 0xD8, Committed: noon, XID: 741, GID: []byte("gid")}},
	{"stream prepare", message('p', byte(0), uint64(0xA0), uint64(0xD8), noonMicros, uint32(741), "gid"), KindStreamPrepare,
		Prepared{LSN: 0xA0, End: 0xD8, Committed: noon, XID: 741, GID: []byte("gid")}},
}

// held gives the field of d that belongs to a kind, its empty slices as nil.
func held(d *Decoder, k Kind) any {
	switch k {
	case KindBegin:
		return d.Begin
	case KindCommit, KindStreamCommit:
		return d.Commit
	case KindOrigin:
		return d.Origin
	case KindRelation:
		r := d.Relation
		r.Columns = nilIfEmpty(r.Columns)
		return r
	case KindType:
		return d.Type
	case KindInsert, KindUpdate, KindDelete:
		c := d.Change
		c.Old, c.New = nilIfEmpty(c.Old), nilIfEmpty(c.New)
		return c
	case KindTruncate:
		return d.Truncate
	case KindMessage:
		return d.Message
	case KindStreamStart, KindStreamStop, KindStreamAbort:
		return d.Stream
	}
	return d.Prepared
}

func nilIfEmpty[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return s
}

func TestDecode(t *testing.T) {
	var reused Decoder // what one message leaves behind must not show in the next
	for _, s := range samples {
		for _, d := range []*Decoder{new(Decoder), &reused} {
			k, err := d.Decode(s.msg)
			if err != nil || k != s.kind {
				t.Errorf("%s: kind %q, error %v", s.name, k, err)
			} else if got := held(d, k); !reflect.DeepEqual(got, s.want) {
				t.Errorf("%s:\n got %+v\nwant %+v", s.name, got, s.want)
			}
		}
	}
}

// TestDecodeCutOff: a message that ends too early, wherever, is an error that names its kind and a byte within it; so is
// one with a byte too many.
func TestDecodeCutOff(t *testing.T) {
	var d Decoder
	for _, s := range samples {
		cut := len(s.msg)
		for n := 1; n <= cut+1; n++ {
			msg := append(bytes.Clone(s.msg), 0)[:n]
			if n == cut || s.kind == KindStreamAbort && n == 9 {
				continue
			}
			_, err := d.Decode(msg)
			var e *DecodeError
			if !errors.As(err, &e) {
				t.Errorf("%s, %d of %d bytes: error %v, want a *DecodeError", s.name, n, cut, err)
			} else if e.Message != s.kind.String() || e.Offset < 1 || e.Offset > n || e.Field == "" || e.Reason == "" {
				t.Errorf("%s, %d of %d bytes: %#v", s.name, n, cut, e)
			}
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		msg  []byte
		want string
	}{
		{"nothing", nil, "decode pgoutput: kind at byte 0: the message is empty"},
		{"commit flags", message('C', byte(4), uint64(1), uint64(2), uint64(0)), "decode Commit: flags at byte 1: 0x04 has bits that are not known"},
		{"commit that ends before it starts", message('C', byte(0), uint64(2), uint64(2), uint64(0)), "decode Commit: end LSN at byte 10: it is not behind the commit LSN 0/2"},
		{"begin without an LSN", message('B', uint64(0), uint64(0), uint32(1)), "decode Begin: final LSN at byte 1: it is 0"},
		{"identity", message('R', uint32(1), "a", "b", byte('x'), uint16(0)), "decode Relation: replica identity at byte 9: 'x' is not d, n, f or i"},
		{"name without an end", message('Y', uint32(1), []byte("abc")), "decode Type: namespace at byte 5: the zero byte that ends it is missing"},
		{"value that is too long", message('I', uint32(1), 'N', uint16(2), 'n', 't', uint32(5), []byte("abcd")), "decode Insert: new tuple, column 2 at byte 10: its length is 5, 4 bytes are left"},
		{"value of negative length", message('I', uint32(1), 'N', uint16(1), 't', minusOne), "decode Insert: new tuple, column 1 at byte 9: its length is -1, 0 bytes are left"},
		{"value without a length", message('I', uint32(1), 'N', uint16(1), 't', uint16(0)), "decode Insert: new tuple, column 1 at byte 9: it needs 4 bytes, 2 are left"},
		{"value of an unknown kind", message('U', uint32(1), 'K', uint16(1), 'x', 'N', tuple("1")), "decode Update: old tuple, column 1 at byte 8: 'x' is not n, u, t or b"},
		{"tuple too short", message('I', uint32(1), 'N', uint16(3), 'n', 'n'), "decode Insert: new tuple at byte 10: it has 2 of 3 columns"},
		{"old tuple in an insert", message('I', uint32(1), 'K', tuple("1"), 'N', tuple("1")), "decode Insert: tuple kind at byte 5: 'K' does not belong here"},
		{"two old tuples", message('U', uint32(1), 'K', tuple(), 'O', tuple()), "decode Update: tuple kind at byte 8: 'O' does not belong here"},
		{"new tuple in a delete", message('D', uint32(1), 'N', tuple("1")), "decode Delete: tuple kind at byte 5: 'N' does not belong here"},
		{"content too long", message('M', byte(0), uint64(1), "p", uint32(9), []byte("short")), "decode Message: content at byte 12: its length is 9, 5 bytes are left"},
		{"truncate of too many", message('T', minusOne, byte(0), uint32(1)), "decode Truncate: relation OID at byte 10: it needs 4 bytes, 0 are left"},
		{"rest", message('E', byte(1)), "decode Stream Stop: end at byte 1: 1 bytes are left over"},
		{"unknown", message('z', uint32(1)), `decode pgoutput: unknown message kind 'z', 5 bytes: 7a00000001`},
		{"unknown, long", append([]byte{'z'}, make([]byte, 100)...), `decode pgoutput: unknown message kind 'z', 101 bytes beginning with 7a` + strings.Repeat("00", 63)},
	} {
		var d Decoder
		_, err := d.Decode(c.msg)
		if err == nil || err.Error() != c.want {
			t.Errorf("%s:\n got %v\nwant %s", c.name, err, c.want)
		}
	}
	var unknown *UnknownKindError
	msg := message('z', uint32(1))
	if _, err := new(Decoder).Decode(msg); !errors.As(err, &unknown) || unknown.Kind != 'z' || !bytes.Equal(unknown.Data, msg) {
		t.Errorf("unknown kind: %#v", err)
	}
}

func TestKindNames(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range samples {
		seen[s.kind.String()] = true
		if strings.HasPrefix(s.kind.String(), "message") {
			t.Errorf("kind %q has no name", byte(s.kind))
		}
	}
	if len(seen) != 19 {
		t.Errorf("%d kinds have a name of their own, want 19", len(seen))
	}
	if got := Kind('z').String(); got != "message 'z'" {
		t.Errorf("an unknown kind is %s", got)
	}
}

func TestDecodeAllocatesNothing(t *testing.T) {
	var d Decoder
	for _, s := range samples {
		if n := testing.AllocsPerRun(100, func() {
			if _, err := d.Decode(s.msg); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", s.name, n)
		}
	}
}

// theirs puts a message that pglogrepl parsed into the decoder's terms.
func theirs(m pglogrepl.Message) any {
	switch m := m.(type) {
	case *pglogrepl.BeginMessage:
		return Begin{syncd.LSN(m.FinalLSN), m.CommitTime.UTC(), m.Xid}
	case *pglogrepl.CommitMessage:
		return Commit{LSN: syncd.LSN(m.CommitLSN), End: syncd.LSN(m.TransactionEndLSN), Committed: m.CommitTime.UTC()}
	case *pglogrepl.OriginMessage:
		return Origin{syncd.LSN(m.CommitLSN), []byte(m.Name)}
	case *pglogrepl.RelationMessage:
		r := Relation{OID: m.RelationID, Namespace: catalogIfEmpty(m.Namespace), Name: []byte(m.RelationName), Identity: m.ReplicaIdentity}
		for _, c := range m.Columns {
			r.Columns = append(r.Columns, RelationColumn{c.Flags == 1, []byte(c.Name), c.DataType, c.TypeModifier})
		}
		return r
	case *pglogrepl.TypeMessage:
		return TypeName{m.DataType, catalogIfEmpty(m.Namespace), []byte(m.Name)}
	case *pglogrepl.InsertMessage:
		return Change{Relation: m.RelationID, New: theirValues(m.Tuple)}
	case *pglogrepl.UpdateMessage:
		c := Change{m.RelationID, OldTuple(m.OldTupleType), theirValues(m.OldTuple), theirValues(m.NewTuple)}
		for i := range c.New {
			if c.New[i].Kind == Unchanged && i < len(c.Old) && c.Old[i].Kind == Text {
				c.New[i] = c.Old[i]
			}
		}
		return c
	case *pglogrepl.DeleteMessage:
		return Change{Relation: m.RelationID, OldTuple: OldTuple(m.OldTupleType), Old: theirValues(m.OldTuple)}
	case *pglogrepl.TruncateMessage:
		return Truncated{m.Option&1 != 0, m.Option&2 != 0, nilIfEmpty(m.RelationIDs)}
	case *pglogrepl.LogicalDecodingMessage:
		return LogicalMessage{m.Transactional, syncd.LSN(m.LSN), []byte(m.Prefix), m.Content}
	}
	return nil
}

func catalogIfEmpty(s string) []byte {
	if s == "" {
		s = "pg_catalog"
	}
	return []byte(s)
}

func theirValues(tuple *pglogrepl.TupleData) []Value {
	if tuple == nil {
		return nil
	}
	var values []Value
	for _, c := range tuple.Columns {
		v := Value{Kind: ValueKind(c.DataType)}
		if v.Kind == Text || v.Kind == Binary {
			v.Data = c.Data
		}
		values = append(values, v)
	}
	return values
}

// far times overflow in pglogrepl, which counts nanoseconds.
func far(t time.Time) bool { return t.Year() < 1800 || t.Year() > 2200 }

// sameAsPglogrepl compares what d holds with what pglogrepl makes of the same bytes.
func sameAsPglogrepl(t testing.TB, d *Decoder, k Kind, msg []byte) {
	t.Helper()
	switch k {
	case KindStreamStart, KindStreamStop, KindStreamCommit, KindStreamAbort, KindStreamPrepare,
		KindBeginPrepare, KindPrepare, KindCommitPrepared, KindRollbackPrepared:
		return // Parse reads version 1 only
	case KindInsert:
		if len(d.Change.New) == 0 {
			return // Parse wants at least a byte more
		}
	case KindTruncate:
		if len(d.Truncate.Relations) == 0 {
			return // likewise
		}
		d.Truncate.Relations = nilIfEmpty(d.Truncate.Relations)
	}
	m, err := pglogrepl.Parse(msg)
	if err != nil {
		t.Errorf("pglogrepl refuses %x: %v", msg, err)
		return
	}
	if far(d.Begin.Committed) && k == KindBegin || far(d.Commit.Committed) && k == KindCommit {
		return
	}
	if got, want := held(d, k), theirs(m); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("%x:\n     got %+v\npglogrepl %+v", msg, got, want)
	}
}

func TestDecodeAgreesWithPglogrepl(t *testing.T) {
	var d Decoder
	for _, s := range samples {
		k, err := d.Decode(s.msg)
		if err != nil {
			t.Fatal(err)
		}
		sameAsPglogrepl(t, &d, k, s.msg)
	}
}

// FuzzDecode: no bytes make Decode panic; what it refuses it refuses with one of its errors and a place within the message;
// and what it takes, pglogrepl reads the same way.
func FuzzDecode(f *testing.F) {
	for _, s := range samples {
		f.Add(s.msg)
		f.Add(s.msg[:len(s.msg)-1])
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		var d Decoder
		k, err := d.Decode(msg)
		var decode *DecodeError
		var unknown *UnknownKindError
		switch {
		case err == nil:
			sameAsPglogrepl(t, &d, k, msg)
		case errors.As(err, &decode):
			if decode.Offset < 0 || decode.Offset > len(msg) || decode.Message == "" {
				t.Errorf("%x: %#v", msg, decode)
			}
		case !errors.As(err, &unknown):
			t.Errorf("%x: error %v of an unknown type", msg, err)
		}
	})
}

func TestFrames(t *testing.T) {
	var f Frame
	data := message('w', uint64(0xA0), uint64(0xB0), noonMicros, []byte("payload"))
	if err := f.Decode(data); err != nil {
		t.Fatal(err)
	}
	if want := (Frame{Kind: XLogData, Start: 0xA0, End: 0xB0, Sent: noon, Data: []byte("payload")}); !reflect.DeepEqual(f, want) {
		t.Errorf("XLogData: %+v, want %+v", f, want)
	}
	alive := message('k', uint64(0xB0), noonMicros, byte(1))
	if err := f.Decode(alive); err != nil {
		t.Fatal(err)
	}
	if want := (Frame{Kind: Keepalive, End: 0xB0, Sent: noon, Reply: true}); !reflect.DeepEqual(f, want) {
		t.Errorf("keepalive: %+v, want %+v", f, want)
	}
	got := Status{Written: 3, Flushed: 2, Applied: 1, Sent: noon, Reply: true}.Append([]byte("x"))
	if want := message(byte('x'), 'r', uint64(3), uint64(2), uint64(1), noonMicros, byte(1)); !bytes.Equal(got, want) {
		t.Errorf("status %x, want %x", got, want)
	}
	for _, c := range []struct {
		b    []byte
		want string
	}{
		{nil, "decode replication frame: kind at byte 0: the frame is empty"},
		{data[:24], "decode XLogData: time at byte 17: it needs 8 bytes, 7 are left"},
		{alive[:17], "decode keepalive: flags at byte 17: it needs 1 bytes, 0 are left"},
		{append(bytes.Clone(alive), 0), "decode keepalive: end at byte 18: 1 bytes are left over"},
		{message('x', byte(1)), "decode replication frame: unknown message kind 'x', 2 bytes: 7801"},
	} {
		if err := f.Decode(c.b); err == nil || err.Error() != c.want {
			t.Errorf("%x:\n got %v\nwant %s", c.b, err, c.want)
		}
	}
}

// FuzzFrame: no bytes make Decode panic, and what it takes, pglogrepl reads the same way.
func FuzzFrame(f *testing.F) {
	f.Add(message('w', uint64(0xA0), uint64(0xB0), noonMicros, []byte("payload")))
	f.Add(message('k', uint64(0xB0), noonMicros, byte(1)))
	f.Fuzz(func(t *testing.T, b []byte) {
		var got Frame
		if got.Decode(b) != nil || far(got.Sent) {
			return
		}
		want := Frame{Kind: got.Kind}
		if got.Kind == Keepalive {
			m, err := pglogrepl.ParsePrimaryKeepaliveMessage(b[1:])
			if err != nil {
				t.Fatalf("%x: pglogrepl: %v", b, err)
			}
			want.End, want.Sent, want.Reply = syncd.LSN(m.ServerWALEnd), m.ServerTime.UTC(), m.ReplyRequested
		} else {
			m, err := pglogrepl.ParseXLogData(b[1:])
			if err != nil {
				t.Fatalf("%x: pglogrepl: %v", b, err)
			}
			want.Start, want.End, want.Sent, want.Data = syncd.LSN(m.WALStart), syncd.LSN(m.ServerWALEnd), m.ServerTime.UTC(), m.WALData
		}
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("%x:\n     got %+v\npglogrepl %+v", b, got, want)
		}
	})
}
