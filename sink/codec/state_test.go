package codec

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// fillValue sets every field that v leads to, to something that is not zero and nowhere else.
func fillValue(t testing.TB, v reflect.Value, n *uint64) {
	*n++
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(int64(*n), int64(*n)).UTC()))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		v.SetInt(int64(*n))
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(*n)
	case reflect.String:
		v.SetString(fmt.Sprintf("\xff text %d", *n)) // not every database is UTF-8
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillValue(t, v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fillValue(t, v.Index(0), n)
		fillValue(t, v.Index(1), n)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fillValue(t, key, n)
			fillValue(t, elem, n)
			v.SetMapIndex(key, elem)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fillValue(t, v.Field(i), n)
		}
	default:
		t.Fatalf("a state holds a %s now: store it, and fill it here", v.Type())
	}
}

func TestStateRoundTrip(t *testing.T) {
	full := new(sink.State)
	var n uint64
	fillValue(t, reflect.ValueOf(full).Elem(), &n)
	for _, ts := range full.Tables { // one snapshot in several places, as pages share theirs
		for k, o := range ts.Open {
			o.Snaps = append(o.Snaps, ts.Floor, nil)
			ts.Open[k] = o
		}
	}
	for name, want := range map[string]*sink.State{
		"full":  full,
		"empty": {Tables: map[syncd.Table]*sink.TableState{}},
		"bare table": {Sent: time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC),
			Tables: map[syncd.Table]*sink.TableState{{Schema: "a.b", Name: ""}: {}}},
	} {
		t.Run(name, func(t *testing.T) {
			var e Encoder
			e.State(want)
			d := Decoder{B: e.B}
			got := d.State()
			if d.Err != nil || len(d.B) > 0 {
				t.Fatalf("%v, %d bytes left", d.Err, len(d.B))
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("got  %+v\nwant %+v", got, want)
			}
			for i := range e.B {
				d := Decoder{B: e.B[:i]}
				if d.State(); d.Err == nil {
					t.Fatalf("the first %d of %d bytes are read without a complaint", i, len(e.B))
				}
			}
		})
	}
}

func FuzzParseState(f *testing.F) {
	full := new(sink.State)
	var n uint64
	fillValue(f, reflect.ValueOf(full).Elem(), &n)
	f.Add(AppendState(nil, full))
	f.Add(AppendState(nil, &sink.State{}))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseState(b)
		if err != nil {
			return
		}
		again, err := ParseState(AppendState(nil, s))
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Fatalf("what was read and written reads as another: %v", err)
		}
	})
}
