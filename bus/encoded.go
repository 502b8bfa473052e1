package bus

import (
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/syncd-io/syncd"
)

// Encoded is a message of the stream as it goes over the bus.
type Encoded struct {
	Subject string
	Header  nats.Header
	Body    []byte
}

// Encode gives the messages of a flush, for streams that are not JetStream's: its deltas by table and shape, at most so many
// in one, then its marker. The marker's First is the caller's business.
func Encode(name string, f *syncd.Flush, most int) []Encoded {
	var all []Encoded
	for list := f.Deltas; len(list) > 0; {
		n := 1
		for n < min(len(list), most) && list[n].Table == list[0].Table && list[n].Schema == list[0].Schema {
			n++
		}
		e := Encoded{Subject: DeltaSubject(name, list[0].Table), Header: nats.Header{
			headerFormat: {strconv.Itoa(Format)}, headerTable: {tableHeader(list[0].Table)}, headerSchema: {schemaText(list[0].Schema)},
		}}
		for i := range n {
			e.Body = AppendDelta(e.Body, &list[i])
		}
		all, list = append(all, e), list[n:]
	}
	return append(all, EncodeMarker(name, &f.Marker))
}

// EncodeMarker gives the message of a marker.
func EncodeMarker(name string, m *syncd.Marker) Encoded {
	return Encoded{Subject: CommitSubject(name), Header: nats.Header{headerFormat: {strconv.Itoa(Format)}}, Body: AppendMarker(nil, m)}
}

// Decode reads a message of the stream, as a subscription does.
func Decode(name string, seq uint64, e Encoded) (syncd.Message, error) {
	d := decoder{name: name}
	return d.message(e.Subject, seq, e.Header, e.Body)
}
