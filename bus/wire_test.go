package bus

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/syncd-io/syncd"
)

var update = flag.Bool("update", false, "write the golden files anew")

var (
	users = syncd.Table{Schema: "public", Name: "users"}
	odd   = syncd.Table{Schema: "Odd.Schema", Name: `a "b" > *%` + "\n"}
	when  = time.Date(2025, 11, 30, 20, 0, 0, 123456000, time.UTC)
)

func version(lsn syncd.LSN, ordinal uint32) syncd.Version {
	return syncd.Version{Epoch: 1764534000000, LSN: lsn, Ordinal: ordinal}
}

// sampleDeltas has one delta of each kind.
func sampleDeltas() []syncd.Delta {
	d := func(n uint32, op syncd.Op, key ...string) syncd.Delta {
		x := syncd.Delta{Table: users, Op: op, Version: version(0x16B3748, n), XID: 4294968027, Committed: when, Schema: 0xfedcba9876543210}
		if len(key) > 0 {
			x.Key = syncd.MakeKey(key...)
		}
		return x
	}
	upsert := d(1, syncd.Upsert, "42")
	upsert.Row = []byte(`{"id":42,"name":"Ann \"A\"","price":1.10,"tags":["x",null,true],"note":"é\n"}`)
	absent := d(2, syncd.Upsert, "43")
	absent.Row, absent.Absent = []byte(`{"id":43}`), []string{"big", `odd "name"`}
	moved := d(4, syncd.Upsert, "45")
	moved.Row, moved.Moved, moved.From = []byte(`{"id":45}`), true, syncd.MakeKey("44")
	composite := d(5, syncd.Upsert, "a\tb", "", `"`, "é\x01")
	composite.Row = []byte(`{"a":"a\tb"}`)
	pointer := d(6, syncd.Upsert, "46")
	pointer.Pointer = true
	spaced := d(7, syncd.Upsert, "47")
	spaced.Row = []byte("{\"id\":47,\"doc\":{\"a\":\n 1}}")
	return []syncd.Delta{upsert, absent, d(3, syncd.Delete, "44"), moved, composite, pointer, spaced, d(8, syncd.Truncate), d(9, syncd.Delete, "")}
}

func sampleMarkers() []syncd.Marker {
	return []syncd.Marker{{
		Epoch: 1764534000000, Previous: 0x16B3700, Through: 0x16B3748, First: 41, Safe: 0x16B3748, Commit: 0x16B3748, XID: 4294968027,
		Counts: map[syncd.Table]int{users: 9, odd: 1}, Start: 0x1600000, System: 7312345678901234567, Timeline: 1, Sent: when,
		Relist: map[syncd.Table]string{users: `column "x" was added`},
	}, {
		Epoch: 1764534000001, Through: 0x1600000, First: 42, Counts: map[syncd.Table]int{}, Safe: 0x1600000, Start: 0x1600000,
		System: 7312345678901234567, Timeline: 2, Sent: when, Part: true, Catalog: "y3RqAg",
	}}
}

func samplePages() []syncd.Page {
	return []syncd.Page{{
		Table: users, Schema: 0xfedcba9876543210, System: 7312345678901234567, Timeline: 1,
		Snapshot: &syncd.Snapshot{Epoch: 1764534000000, Xmin: 700, Xmax: 710, Xip: []syncd.XID{700, 705}, H: 0x16B3800},
		Safe:     0x16B3748, Sent: syncd.Totals{Rows: 2, Digest: 18446744073709551615}, After: syncd.MakeKey("43"),
		Rows: []syncd.Row{
			{Key: syncd.MakeKey("42"), JSON: []byte(`{"id":42}`)},
			{Key: syncd.MakeKey("43"), JSON: []byte("{\"id\":43,\"doc\":[1,\n2]}")},
		},
	}, {
		Table: odd, Schema: 1, System: 1, Timeline: 3,
		Snapshot: &syncd.Snapshot{Epoch: 2, Xmin: 738, Xmax: 742, Standby: true, R: 0x100, R2: 0x180, H: 0x180},
		Safe:     0x100, Asked: []syncd.Key{syncd.MakeKey("a", "b"), syncd.MakeKey("")}, Rows: []syncd.Row{},
	}, {
		Table: users, Schema: 2, System: 1, Timeline: 3, Snapshot: &syncd.Snapshot{Epoch: 2, Xmin: 1, Xmax: 1, H: 1}, Last: true, Rows: []syncd.Row{},
	}, {
		Table: users, Selector: "name=eq.a%2Bb&status=eq.active", Schema: 2, System: 1, Timeline: 3, Snapshot: &syncd.Snapshot{Epoch: 2, Xmin: 1, Xmax: 1, H: 1},
		Asked: []syncd.Key{syncd.MakeKey("1")}, Rows: []syncd.Row{},
	}}
}

func sampleDigests() []syncd.Digest {
	return []syncd.Digest{{
		Table: users, Schema: 0xfedcba9876543210, System: 7312345678901234567, Timeline: 1, Form: 1, Bits: 2, Safe: 0x16B3748,
		Snapshot: &syncd.Snapshot{Epoch: 1764534000000, Xmin: 700, Xmax: 710, Xip: []syncd.XID{700, 705}, H: 0x16B3800},
		Buckets:  []syncd.Totals{{Rows: 2, Digest: 1}, {}, {Rows: 300, Digest: 18446744073709551615}, {Rows: 1}},
	}, {
		Table: odd, Schema: 1, System: 1, Timeline: 3, Form: 1, Safe: 0x100, Buckets: []syncd.Totals{{}},
		Snapshot: &syncd.Snapshot{Epoch: 2, Xmin: 738, Xmax: 742, Standby: true, R: 0x100, R2: 0x180, H: 0x180},
	}, {
		Table: users, Selector: "status=eq.active", Schema: 1, System: 1, Timeline: 3, Form: 1, Safe: 0x100, Buckets: []syncd.Totals{{Rows: 1, Digest: 5}},
		Snapshot: &syncd.Snapshot{Epoch: 2, Xmin: 1, Xmax: 1, H: 1},
	}}
}

func TestDigestsRoundTripAndStayAsTheyAre(t *testing.T) {
	var all []byte
	for _, want := range sampleDigests() {
		body := appendDigest(nil, &want)
		all = append(append(all, body...), '\n')
		var p parser
		got, err := p.digest(body)
		if err != nil {
			t.Fatal(err)
		}
		want.Bytes = len(body)
		equal(t, "digest", got, &want)
	}
	golden(t, "digests.jsonl", all)
}

func TestBadDigestsAreRefused(t *testing.T) {
	good := string(appendDigest(nil, &sampleDigests()[0]))
	_, before, _ := strings.Cut(good, `"buckets":"`)
	buckets := strings.TrimSuffix(before, `"}`)
	for _, c := range []struct{ old, new, want string }{
		{`"form":1`, `"for":1`, "missing"},
		{`"bits":2`, `"bits":3`, "cut off"},
		{`"bits":2`, `"bits":1`, "not as many"},
		{`"bits":2`, `"bits":15`, "too large"},
		{buckets, buckets[:len(buckets)-4], "cut off"},
		{buckets, "gACA", "cut off"},
		{buckets, "*", "illegal base64"},
		{`"xmin":700`, `"xmin":711`, "ascend"},
		{`"bits":2`, `"bits":2,"bits":2`, "twice"},
	} {
		var p parser
		body := strings.Replace(good, c.old, c.new, 1)
		if _, err := p.digest([]byte(body)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\ngot %v, want …%s…", body, err, c.want)
		}
	}
}

// A digest of a million rows in buckets of about 256 stays below 256 KiB.
func TestADigestIsSmall(t *testing.T) {
	for _, bits := range []int{12, syncd.MaxDigestBits} {
		d := sampleDigests()[0]
		d.Bits, d.Buckets = bits, make([]syncd.Totals, 1<<bits)
		for i := range d.Buckets {
			d.Buckets[i] = syncd.Totals{Rows: 1_000_000 >> bits, Digest: uint64(i) * 0x9E3779B185EBCA87}
		}
		size := len(appendDigest(nil, &d))
		t.Logf("1,000,000 rows in %d buckets: %d bytes", 1<<bits, size)
		if size > 256<<10 {
			t.Errorf("%d bytes for 1,000,000 rows", size)
		}
	}
}

func encodeDeltas(list []syncd.Delta) []byte {
	var b []byte
	for i := range list {
		b = AppendDelta(b, &list[i])
	}
	return b
}

func deltaHeader(t syncd.Table, schema uint64) nats.Header {
	return nats.Header{headerFormat: {"1"}, headerTable: {tableHeader(t)}, headerSchema: {schemaText(schema)}}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs:\ngot  %s\nwant %s", file, got, want)
	}
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\ngot  %+v\nwant %+v", what, got, want)
	}
}

func TestDeltasRoundTripAndStayAsTheyAre(t *testing.T) {
	body := encodeDeltas(sampleDeltas())
	golden(t, "deltas.jsonl", body)
	d := decoder{name: "shop"}
	m, err := d.message(DeltaSubject("shop", users), 7, deltaHeader(users, 0xfedcba9876543210), body)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "deltas", m, syncd.Message{Seq: 7, Deltas: sampleDeltas()})
	for line := range bytes.Lines(body) {
		if !json.Valid(line) {
			t.Errorf("not JSON: %s", line)
		}
	}
}

func TestMarkersRoundTripAndStayAsTheyAre(t *testing.T) {
	var all []byte
	d := decoder{name: "shop"}
	for _, m := range sampleMarkers() {
		body := AppendMarker(nil, &m)
		all = append(append(all, body...), '\n')
		got, err := d.message(CommitSubject("shop"), 9, nats.Header{headerFormat: {"1"}}, body)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "marker", got, syncd.Message{Seq: 9, Marker: &m})
	}
	golden(t, "markers.jsonl", all)
}

func TestPagesRoundTripAndStayAsTheyAre(t *testing.T) {
	for i, want := range samplePages() {
		body := appendPage(nil, &want)
		golden(t, fmt.Sprintf("page-%d.jsonl", i+1), body)
		var p parser
		got, err := p.page(body)
		if err != nil {
			t.Fatal(err)
		}
		want.Bytes = len(body)
		equal(t, "page", got, &want)
	}
}

func TestRequestsAndTablesRoundTripAndStayAsTheyAre(t *testing.T) {
	var p parser
	list := syncd.ListRequest{Table: odd, Started: true, After: syncd.MakeKey("a", ""), Limit: 5000, Sent: syncd.Totals{Rows: 7, Digest: 1 << 63}}
	some := syncd.ListRequest{Table: users, Buckets: &syncd.BucketSet{Bits: 12, Ranges: []syncd.BucketRange{{First: 7, Last: 7}, {First: 4090, Last: 4095}}}}
	fresh := syncd.ListRequest{Table: users, Since: &syncd.Snapshot{Epoch: 3, Xmin: 700, Xmax: 710, Xip: []syncd.XID{700, 705}, H: 0x16B3800}}
	freshStandby := syncd.ListRequest{Table: users, Since: &syncd.Snapshot{Epoch: 3, Xmin: 700, Xmax: 710, Standby: true, R: 0x16B3748, R2: 0x16B3800, H: 0x16B3800}}
	digest := syncd.DigestRequest{Table: users, Bits: 12}
	freshDigest := syncd.DigestRequest{Table: users, Bits: 12, Since: fresh.Since}
	get := syncd.GetRequest{Table: users, Keys: []syncd.Key{syncd.MakeKey("1"), syncd.MakeKey("x", "y")}}
	kept := syncd.ListRequest{Table: users, Limit: 10, Selector: "name=eq.a%2Bb&status=eq.active"}
	keptDigest := syncd.DigestRequest{Table: users, Bits: 4, Selector: "status=eq.active"}
	keptGet := syncd.GetRequest{Table: users, Keys: []syncd.Key{syncd.MakeKey("1")}, Selector: "status=eq.active"}
	infos := []syncd.TableInfo{
		{Table: users, Columns: []string{"id", "name"}, Types: []string{"integer", "text"}, Key: []string{"id"}, Schema: 5},
		{Table: odd, Columns: nil, Types: nil, Key: nil, Error: "it has no key: ALTER TABLE …"},
	}
	pos := syncd.Position{Epoch: 3, LSN: 0xAB}
	golden(t, "requests.jsonl", bytes.Join([][]byte{appendListRequest(nil, &list), appendListRequest(nil, &some),
		appendListRequest(nil, &fresh), appendDigestRequest(nil, &digest), appendGetRequest(nil, &get),
		appendListRequest(nil, &kept), appendDigestRequest(nil, &keptDigest), appendGetRequest(nil, &keptGet), appendMarkRequest(nil, 0xAB), appendMarkReply(nil, pos), appendTableInfos(nil, infos)}, []byte("\n")))
	gotList, err1 := p.listRequest(appendListRequest(nil, &list))
	gotGet, err2 := p.getRequest(appendGetRequest(nil, &get))
	gotAt, err3 := p.markRequest(appendMarkRequest(nil, 0xAB))
	gotPos, err4 := p.markReply(appendMarkReply(nil, pos))
	gotInfos, err5 := p.tableInfos(appendTableInfos(nil, infos))
	gotSome, err6 := p.listRequest(appendListRequest(nil, &some))
	gotFresh, err11 := p.listRequest(appendListRequest(nil, &fresh))
	gotFreshStandby, err12 := p.listRequest(appendListRequest(nil, &freshStandby))
	gotFreshDigest, err13 := p.digestRequest(appendDigestRequest(nil, &freshDigest))
	gotDigest, err7 := p.digestRequest(appendDigestRequest(nil, &digest))
	gotKept, err8 := p.listRequest(appendListRequest(nil, &kept))
	gotKeptDigest, err9 := p.digestRequest(appendDigestRequest(nil, &keptDigest))
	gotKeptGet, err10 := p.getRequest(appendGetRequest(nil, &keptGet))
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7, err8, err9, err10, err11, err12, err13); err != nil {
		t.Fatal(err)
	}
	equal(t, "list request", gotList, list)
	equal(t, "list request of buckets", gotSome, some)
	equal(t, "list request since a snapshot", gotFresh, fresh)
	equal(t, "list request since a standby's snapshot", gotFreshStandby, freshStandby)
	equal(t, "digest request", gotDigest, digest)
	equal(t, "digest request since a snapshot", gotFreshDigest, freshDigest)
	equal(t, "get request", gotGet, get)
	equal(t, "list request by a selector", gotKept, kept)
	equal(t, "digest request by a selector", gotKeptDigest, keptDigest)
	equal(t, "get request by a selector", gotKeptGet, keptGet)
	equal(t, "mark request", gotAt, syncd.LSN(0xAB))
	equal(t, "mark reply", gotPos, pos)
	equal(t, "tables", gotInfos, infos)
}

func TestMalformedDeltasNameTheirPlace(t *testing.T) {
	const ok = `{"op":"delete","key":["1"],"v":"1-0/1-1","x":1,"ts":"2025-11-30T20:00:00Z"}` + "\n"
	for _, c := range []struct{ body, want string }{
		{"", "holds no deltas"},
		{"\n", "line 1, offset 0: want an object"},
		{ok + "{}", `line 2, offset 2: one of "op"`},
		{ok + `{"op":"insert","key":["1"],"v":"1-0/1-1","x":1}`, `line 2, offset 6: "insert" is no operation`},
		{`{"op":"delete","op":"delete"}`, "line 1, offset 20: a field stands there twice"},
		{`{"op":"delete","key":[],"v":"1-0/1-1","x":1}`, "the key is empty"},
		{`{"op":"truncate","key":["1"],"v":"1-0/1-1","x":1}`, "a truncate has no key"},
		{`{"op":"delete","key":["a\u0000b"],"v":"1-0/1-1","x":1}`, "NUL"},
		{`{"op":"delete","key":["a","\u0000"],"v":"1-0/1-1","x":1}`, "NUL"},
		{`{"op":"delete","key":["\ud800"],"v":"1-0/1-1","x":1}`, "surrogate"},
		{`{"op":"delete","key":["1"],"v":"01-0/1-1","x":1}`, "not a change's version"},
		{`{"op":"delete","key":["1"],"v":"1-0/1-1","x":01}`, "whole number"},
		{`{"op":"delete","key":["1"],"v":"1-0/1-1","x":1.5}`, "want a comma"},
		{`{"op":"delete","key":["1"],"v":"1-0/1-1","x":99999999999999999999}`, "too large"},
		{`{"op":"delete","key":["1"],"v":"1-0/1-1","x":1,"row":{}}`, "only an upsert"},
		{`{"op":"upsert","key":["1"],"v":"1-0/1-1","x":1}`, "either a row or is a pointer"},
		{`{"op":"upsert","key":["1"],"v":"1-0/1-1","x":1,"row":{},"pointer":true}`, "either a row or is a pointer"},
		{`{"op":"upsert","key":["1"],"v":"1-0/1-1","x":1,"row":{"a":}}`, "offset 58: want a value"},
		{`{"op":"upsert","key":["1"],"v":"1-0/1-1","x":1,"row":[]}`, "want an object"},
		{`{"op":"upsert","key":["1"],"v":"1-0/1-1","x":1,"rowtext":"[]"}`, "not an object"},
		{`{"op":"delete","key":["1"],"v":"1-0/1-1","x":1,"ts":"yesterday"}`, "want a time"},
		{`{"op":"delete","key":["1"],"v":"1-0/1-1","x":1} x`, "goes on"},
		{ok + ok[:37], "line 2, offset 37: text ends inside a string"},
	} {
		d := decoder{name: "shop"}
		m, err := d.message(DeltaSubject("shop", users), 42, deltaHeader(users, 1), []byte(c.body))
		var bad *MalformedError
		if !errors.As(err, &bad) || bad.Seq != 42 || !strings.Contains(err.Error(), c.want) || m.Deltas != nil {
			t.Errorf("%s:\ngot %v, %v\nwant …%s…", c.body, m.Deltas, err, c.want)
		}
	}
}

func TestHeadersAndSubjectsAreChecked(t *testing.T) {
	body := encodeDeltas(sampleDeltas()[:1])
	for _, c := range []struct {
		subject string
		change  func(nats.Header)
		want    string
	}{
		{DeltaSubject("shop", users), func(h nats.Header) { delete(h, headerFormat) }, "Syncd-Format is missing"},
		{DeltaSubject("shop", users), func(h nats.Header) { h[headerFormat] = []string{"0"} }, "from 1"},
		{DeltaSubject("shop", users), func(h nats.Header) { delete(h, headerSchema) }, "Syncd-Schema is missing"},
		{DeltaSubject("shop", users), func(h nats.Header) { h[headerSchema] = []string{"+123456789abcdef"} }, "hash"},
		{DeltaSubject("shop", users), func(h nats.Header) { delete(h, headerTable) }, "Syncd-Table"},
		{DeltaSubject("shop", odd), func(nats.Header) {}, "the subject names"},
		{"syncd.shop.delta.public", func(nats.Header) {}, "names no table"},
		{"syncd.other.delta.public.users", func(nats.Header) {}, "names no table"},
		{"syncd.shop.delta.public.us%65rs", func(nats.Header) {}, "wrong escape"},
	} {
		h := deltaHeader(users, 1)
		c.change(h)
		d := decoder{name: "shop"}
		if _, err := d.message(c.subject, 5, h, body); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "message 5") {
			t.Errorf("%s: got %v, want …%s…", c.subject, err, c.want)
		}
	}
	d := decoder{name: "shop"}
	_, err := d.message(CommitSubject("shop"), 5, nats.Header{headerFormat: {"2"}}, []byte(`{"anything":1}`))
	if !errors.Is(err, syncd.ErrFormat) || !strings.Contains(err.Error(), "upgrade") || !strings.Contains(err.Error(), "message 5") {
		t.Errorf("a newer format: %v", err)
	}
}

func TestUnknownFieldsAreSkipped(t *testing.T) {
	d := decoder{name: "shop"}
	m, err := d.message(DeltaSubject("shop", users), 1, deltaHeader(users, 1),
		[]byte(`{"op":"delete","later":{"a":[1,{"b":null}]},"key":["1"],"v":"1-0/1-1","x":1}`))
	if err != nil || len(m.Deltas) != 1 || m.Deltas[0].Key != syncd.MakeKey("1") {
		t.Errorf("got %v, %v", m, err)
	}
}

func TestTokensAreOneToOneAndLegal(t *testing.T) {
	for _, s := range []string{"users", "Users", "a.b", "a b", "*", ">", "%", "%2E", "\t\r\n", "\x7f", "é", "日本", strings.Repeat("ö", 31), "$1", "-_9"} {
		tok := string(appendToken(nil, s))
		if strings.ContainsAny(tok, ". *>\t\r\n") || len(tok) > 3*len(s) {
			t.Errorf("%q gives %q", s, tok)
		}
		if got, err := parseToken(tok); err != nil || got != s {
			t.Errorf("%q: %q, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "%", "%2", "%2e", "%41", "a.b", "é", "a b", "%zz"} {
		if got, err := parseToken(s); err == nil {
			t.Errorf("%q was read as %q", s, got)
		}
	}
	if got, err := parseDeltaSubject("shop", DeltaSubject("shop", odd)); err != nil || got != odd {
		t.Errorf("%v, %v", got, err)
	}
}

func TestScannerAgreesWithEncodingJSON(t *testing.T) {
	deep := strings.Repeat(`[{"a":`, 100) + "1" + strings.Repeat("}]", 100)
	for _, s := range []string{`{}`, `[]`, ` [ 1 , 2 ] `, `[1,]`, `[,1]`, `{"a":1,}`, `{"a"}`, `{a:1}`, `{"a":1 "b":2}`, `nul`, `null`, `true`, `falsey`, `-`, `-0`, `01`,
		`1.`, `.5`, `1e`, `1e+`, `1E-7`, `-1.5e+10`, `"\u12G4"`, `"\x"`, `"\`, `"a`, "\"\x1f\"", "\"\x7f\"", `"\ud800"`, `[}`, `{]`, `[[[]]`, `[[]]]`, deep, deep[1:], deep[:len(deep)-1],
		strings.Repeat("[", 65) + strings.Repeat("]", 64), strings.Repeat("[", 128) + strings.Repeat("]", 128), `"12345678\"12345678"`, `{"":""}`, ``, ` `} {
		sc := scanner{b: []byte(s)}
		ok := sc.skipValue()
		if ok {
			sc.space()
			ok = sc.i == len(s)
		}
		if ok != json.Valid([]byte(s)) {
			t.Errorf("%q: %v (%s at %d)", s, ok, sc.why, sc.i)
		}
	}
}

func FuzzScanner(f *testing.F) {
	f.Add([]byte(`{"a":[1,-2.5e7,"\u00e9\\",{"b":null}],"c":true}`))
	f.Add([]byte(strings.Repeat("[", 70) + strings.Repeat("]", 70)))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := scanner{b: b}
		ok := s.skipValue()
		if ok {
			s.space()
			ok = s.i == len(b)
		} else if s.why == "" {
			t.Error("refused without a reason")
		}
		if ok != json.Valid(b) {
			t.Errorf("%q: %v", b, ok)
		}
	})
}

// FuzzDelta checks that no body panics, and that whatever is read is written and read again as the same.
func FuzzDelta(f *testing.F) {
	f.Add(encodeDeltas(sampleDeltas()))
	f.Add([]byte(`{"op":"upsert","key":["\u00e9\ud83d\ude00","\\"],"v":"1-0/1-1","x":1,"row":{ "a" : "\ud800" }}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		kept := bytes.Clone(body)
		h, subject := deltaHeader(users, 3), DeltaSubject("shop", users)
		d := decoder{name: "shop"}
		m, err := d.message(subject, 1, h, body)
		if !bytes.Equal(kept, body) {
			t.Fatal("the body was changed")
		}
		if err != nil {
			return
		}
		again, err := d.message(subject, 1, h, encodeDeltas(m.Deltas))
		if err != nil {
			t.Fatalf("%s: %v", encodeDeltas(m.Deltas), err)
		}
		for i := range m.Deltas { // times are written with microseconds, pointers without absent columns
			m.Deltas[i].Committed = m.Deltas[i].Committed.Truncate(time.Microsecond)
			if len(m.Deltas[i].Absent) == 0 {
				m.Deltas[i].Absent = nil
			}
			if y := m.Deltas[i].Committed.Year(); y < 1 {
				m.Deltas[i].Committed = time.Time{}
			}
		}
		if !reflect.DeepEqual(m, again) {
			t.Errorf("got  %+v\nwant %+v", again, m)
		}
	})
}

func FuzzMarker(f *testing.F) {
	for _, m := range sampleMarkers() {
		f.Add(AppendMarker(nil, &m))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var p parser
		m, err := p.marker(body)
		if err != nil {
			return
		}
		again, err := p.marker(AppendMarker(nil, m))
		if err != nil {
			t.Fatalf("%s: %v", AppendMarker(nil, m), err)
		}
		m.Sent = again.Sent
		if len(m.Relist) == 0 {
			m.Relist = nil
		}
		if !reflect.DeepEqual(m, again) {
			t.Errorf("got  %+v\nwant %+v", again, m)
		}
	})
}

// FuzzDigest checks that no body panics, and that whatever is read is written and read again as the same.
func FuzzDigest(f *testing.F) {
	for _, d := range sampleDigests() {
		f.Add(appendDigest(nil, &d))
	}
	f.Add([]byte(`{"table":"a.b","buckets":{"bits":3,"ranges":[[0,1],[3,7]]},"sent":{"rows":0,"digest":"0"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var p parser
		_, _ = p.digestRequest(body)
		if r, err := p.listRequest(body); err == nil && r.Buckets != nil && !r.Buckets.Valid() {
			t.Errorf("buckets %+v were read", r.Buckets)
		}
		d, err := p.digest(body)
		if err != nil {
			return
		}
		text := appendDigest(nil, d)
		again, err := p.digest(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if !bytes.Equal(appendDigest(nil, again), text) {
			t.Errorf("got  %s\nwant %s", appendDigest(nil, again), text)
		}
	})
}

func FuzzPage(f *testing.F) {
	for _, p := range samplePages() {
		f.Add(appendPage(nil, &p))
	}
	f.Add([]byte(`{"tables":1}` + "\n" + `{"table":"a.b","columns":["x"],"types":["text"],"key":[],"schema":"0000000000000000"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var p parser
		_, _ = p.listRequest(body)
		_, _ = p.getRequest(body)
		_, _ = p.markRequest(body)
		_, _ = p.markReply(body)
		_, _ = p.tableInfos(body)
		plainRowsAreRows(t, body)
		p = parser{}
		g, err := p.page(body)
		if err != nil {
			return
		}
		text := appendPage(nil, g)
		again, err := p.page(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if !bytes.Equal(appendPage(nil, again), text) {
			t.Errorf("got  %s\nwant %s", appendPage(nil, again), text)
		}
	})
}

func benchDeltas(n int) []syncd.Delta {
	list := make([]syncd.Delta, n)
	for i := range list {
		row := fmt.Sprintf(`{"id":%d,"tenant_id":7,"email":"somebody.%d@example.com","name":"Some Body the %dth","status":"active","created_at":"2025-11-30T20:00:00.123456+00:00","balance":12.50,"note":"%s"}`,
			i, i, i, strings.Repeat("words ", 8))
		list[i] = syncd.Delta{Table: users, Op: syncd.Upsert, Key: syncd.MakeKey(fmt.Sprint(i)), Version: version(0x16B3748, uint32(i+1)), XID: 731, Committed: when, Row: []byte(row), Schema: 7}
	}
	return list
}

func BenchmarkEncode(b *testing.B) {
	list := benchDeltas(800)
	buf := encodeDeltas(list)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		buf = buf[:0]
		for i := range list {
			buf = AppendDelta(buf, &list[i])
		}
		n += len(list)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/delta")
}

func BenchmarkParse(b *testing.B) {
	list := benchDeltas(800)
	body := encodeDeltas(list)
	h, subject := deltaHeader(users, 7), DeltaSubject("shop", users)
	d := decoder{name: "shop"}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		m, err := d.message(subject, 1, h, body)
		if err != nil {
			b.Fatal(err)
		}
		n += len(m.Deltas)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/delta")
}

func BenchmarkScan(b *testing.B) {
	row := benchDeltas(1)[0].Row
	b.SetBytes(int64(len(row)))
	for b.Loop() {
		s := scanner{b: row}
		if !s.skipValue() {
			b.Fatal(s.why)
		}
	}
}

// docs/wire.md shows each golden file as it is.
func TestTheDocumentShowsTheGoldenFiles(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "docs", "wire.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join("testdata", "*.jsonl"))
	if err != nil || len(files) < 6 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		body, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(body) {
			if line = bytes.TrimSpace(line); !bytes.Contains(doc, line) {
				t.Errorf("%s: the document lacks %s", f, line)
			}
		}
	}
}

func TestTimesAreWrittenAsRFC3339(t *testing.T) {
	for _, at := range []time.Time{when, {}, time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC),
		time.Date(2026, 2, 3, 4, 5, 6, 7000, time.FixedZone("", -3600))} {
		if got, want := string(appendTime(nil, at)), at.UTC().Format(`"2006-01-02T15:04:05.000000Z"`); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
	for _, at := range []time.Time{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-44, 3, 15, 0, 0, 0, 0, time.UTC)} {
		if got := string(appendTime(nil, at)); got != `"0001-01-01T00:00:00.000000Z"` {
			t.Errorf("%v: %s", at, got)
		}
	}
}
