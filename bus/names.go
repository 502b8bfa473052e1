package bus

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/syncd-io/syncd"
)

// Format numbers the wire form. A field that a reader may overlook can be added under the same number, and readers skip
// fields they don't know; anything that changes what a message means takes the next number.
const Format = 1

// The headers of messages and replies.
const (
	headerFormat    = "Syncd-Format"    // decimal; on every message, request and reply
	headerSchema    = "Syncd-Schema"    // the hash of the table's shape, 16 hexadecimal digits
	headerTable     = "Syncd-Table"     // the table as SQL writes it, percent-encoded
	headerPublisher = "Syncd-Publisher" // which run of a source wrote the message; to settle what of it was stored
	headerPart      = "Syncd-Part"      // "2/5": which part of a reply, of how many
	headerCredit    = "Syncd-Credit"    // the subject on which the receiver of a long reply says how far it is
	headerRetry     = "Retry-After"     // seconds, on a reply with code 429
)

// StreamName gives the name of a sync's stream.
func StreamName(name string) string { return "SYNCD_" + strings.ToUpper(name) }

// CommitSubject gives the subject of a sync's markers.
func CommitSubject(name string) string { return "syncd." + name + ".commit" }

// newID gives a name that nobody else has.
func newID() string { return strings.TrimPrefix(nats.NewInbox(), nats.InboxPrefix) }

// DeltaSubject gives the subject of a table's deltas.
func DeltaSubject(name string, t syncd.Table) string {
	b := make([]byte, 0, 64)
	b = append(b, deltaPrefix(name)...)
	b = appendToken(b, t.Schema)
	b = append(b, '.')
	return string(appendToken(b, t.Name))
}

func deltaPrefix(name string) string { return "syncd." + name + ".delta." }

// streamSubjects are what a sync's stream captures.
func streamSubjects(name string) []string {
	return []string{deltaPrefix(name) + ">", CommitSubject(name)}
}

// serviceName and serviceSubject name the list service and its endpoints.
func serviceName(name string) string              { return "syncd-" + name }
func serviceSubject(name, endpoint string) string { return "syncd." + name + "." + endpoint }

const upperHex = "0123456789ABCDEF"

// appendToken appends an identifier as one token of a subject: letters, digits, "_" and "-" stay, every other byte is
// percent-encoded. It is one to one. An identifier of Postgres has at most 63 bytes, so a token has at most 189.
func appendToken(b []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		if plainTokenByte(c) {
			b = append(b, c)
			continue
		}
		b = append(b, '%', upperHex[c>>4], upperHex[c&15])
	}
	return b
}

func plainTokenByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// parseToken reads what appendToken writes, and nothing else.
func parseToken(s string) (string, error) {
	if s == "" {
		return "", fmt.Errorf("an empty token names nothing")
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case plainTokenByte(c):
			b = append(b, c)
		case c == '%' && i+2 < len(s):
			hi, lo := strings.IndexByte(upperHex, s[i+1]), strings.IndexByte(upperHex, s[i+2])
			if hi < 0 || lo < 0 || plainTokenByte(byte(hi<<4|lo)) {
				return "", fmt.Errorf("token %q has a wrong escape at byte %d", s, i)
			}
			b = append(b, byte(hi<<4|lo))
			i += 2
		default:
			return "", fmt.Errorf("token %q has a wrong byte at %d", s, i)
		}
	}
	return string(b), nil
}

// parseDeltaSubject gives the table that a subject of DeltaSubject names.
func parseDeltaSubject(name, subject string) (syncd.Table, error) {
	rest, ok := strings.CutPrefix(subject, deltaPrefix(name))
	schema, table, two := strings.Cut(rest, ".")
	if !ok || !two {
		return syncd.Table{}, fmt.Errorf("subject %q names no table: want %s<schema>.<table>", subject, deltaPrefix(name))
	}
	s, err := parseToken(schema)
	if err != nil {
		return syncd.Table{}, fmt.Errorf("subject %q: %w", subject, err)
	}
	t, err := parseToken(table)
	if err != nil {
		return syncd.Table{}, fmt.Errorf("subject %q: %w", subject, err)
	}
	return syncd.Table{Schema: s, Name: t}, nil
}

// tableHeader gives the value of the Syncd-Table header.
func tableHeader(t syncd.Table) string { return url.PathEscape(t.String()) }

func schemaText(h uint64) string {
	var b [16]byte
	return string(appendHex64(b[:0], h))
}

func appendHex64(b []byte, v uint64) []byte {
	const lowerHex = "0123456789abcdef"
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, lowerHex[v>>shift&15])
	}
	return b
}

func parseSchema(s string) (uint64, error) {
	if len(s) != 16 {
		return 0, fmt.Errorf("%q is not a shape's hash: want 16 hexadecimal digits", s)
	}
	v, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a shape's hash: want 16 hexadecimal digits", s)
	}
	return v, nil
}

// checkFormat gives an error that wraps syncd.ErrFormat where the header names a newer format than this program reads.
func checkFormat(h nats.Header) error {
	v := h[headerFormat]
	if len(v) != 1 {
		return fmt.Errorf("header %s is missing", headerFormat)
	}
	if v[0] == "1" {
		return nil
	}
	n, err := strconv.ParseUint(v[0], 10, 32)
	if err != nil || n == 0 {
		return fmt.Errorf("header %s is %q: want a number from 1", headerFormat, v[0])
	}
	if n > Format {
		return fmt.Errorf("%w: it has format %d, this program reads up to %d: upgrade it", syncd.ErrFormat, n, Format)
	}
	return nil
}
