package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/big"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const hidden = "***"

// Secret is a text that is never printed: by fmt under any verb, encoding/json, go-yaml and slog it shows as ***. The
// zero Secret is the empty text.
type Secret struct {
	// A pointer, because fmt prints what it finds in unexported fields without asking for methods.
	text *string
}

// NewSecret hides a text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// Reveal gives the text, for the one who needs it.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero says whether the text is empty.
func (s Secret) IsZero() bool { return s.text == nil }

// String gives ***, or nothing for the empty text.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return hidden
}

// Format prints as String does, under every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText gives what String does.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON gives what String does.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// MarshalYAML gives what String does.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// LogValue gives what String does.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

func (s *Secret) setText(text string) error {
	*s = NewSecret(text)
	return nil
}

// ServerURL is a server's URL, or several parted by commas. It prints without user and password.
type ServerURL struct {
	secret Secret
}

// NewServerURL takes a URL as it is.
func NewServerURL(text string) ServerURL { return ServerURL{NewSecret(text)} }

// Reveal gives the whole URL, for the one who connects.
func (u ServerURL) Reveal() string { return u.secret.Reveal() }

// IsZero says whether there is none.
func (u ServerURL) IsZero() bool { return u.secret.IsZero() }

// String gives the URL with *** in the place of user and password. What can't be read as a URL is *** as a whole.
func (u ServerURL) String() string {
	if u.IsZero() {
		return ""
	}
	parts := strings.Split(u.Reveal(), ",")
	for i, p := range parts {
		v, err := url.Parse(strings.TrimSpace(p))
		if err != nil || v.Host == "" {
			return hidden
		}
		v.RawQuery, v.Fragment = "", ""
		if v.User != nil {
			v.User = nil
			parts[i] = strings.Replace(v.String(), "//", "//"+hidden+"@", 1)
			continue
		}
		parts[i] = v.String()
	}
	return strings.Join(parts, ",")
}

// natsURLs says whether each part is a URL that a NATS client takes.
func (u ServerURL) natsURLs() bool {
	for p := range strings.SplitSeq(u.Reveal(), ",") {
		v, err := url.Parse(strings.TrimSpace(p))
		if err != nil || v.Hostname() == "" {
			return false
		}
		switch v.Scheme {
		case "nats", "tls", "ws", "wss":
		default:
			return false
		}
	}
	return true
}

// Format prints as String does, under every verb.
func (u ServerURL) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, u.String()) }

// MarshalText gives what String does.
func (u ServerURL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// MarshalYAML gives what String does.
func (u ServerURL) MarshalYAML() (any, error) { return u.String(), nil }

// LogValue gives what String does.
func (u ServerURL) LogValue() slog.Value { return slog.StringValue(u.String()) }

func (u *ServerURL) setText(text string) error {
	*u = NewServerURL(text)
	return nil
}

// Bytes is a size in bytes.
type Bytes int64

var units = []struct {
	name string
	size int64
}{
	{"B", 1},
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
}

// ParseBytes reads a size such as 4GiB, 1.5 GiB, 500MB or 1048576. Units with i are powers of 1024, those without of 1000.
func ParseBytes(text string) (Bytes, error) {
	bad := fmt.Errorf("%q is not a size: write a number with a unit, such as 512MiB, 4GiB or 500MB", text)
	s := strings.TrimSpace(text)
	size := int64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(s, u.name); ok && endsInDigit(strings.TrimSpace(rest)) {
			s, size = strings.TrimSpace(rest), u.size
			break
		}
	}
	if len(s) > 20 || strings.Trim(s, "0123456789.") != "" {
		return 0, bad
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return 0, bad
	}
	r.Mul(r, new(big.Rat).SetInt64(size))
	n := new(big.Int).Quo(r.Num(), r.Denom())
	if !n.IsInt64() {
		return 0, fmt.Errorf("%q is more than 8 EiB", text)
	}
	return Bytes(n.Int64()), nil
}

func endsInDigit(s string) bool {
	return s != "" && '0' <= s[len(s)-1] && s[len(s)-1] <= '9'
}

// String gives the size with the largest unit that needs no fraction, such as 4GiB.
func (b Bytes) String() string {
	n, unit := int64(b), "B"
	for _, u := range units[1:5] {
		if n != 0 && int64(b)%u.size == 0 {
			n, unit = int64(b)/u.size, u.name
		}
	}
	if unit == "B" {
		return strconv.FormatInt(int64(b), 10)
	}
	return strconv.FormatInt(n, 10) + unit
}

// MarshalText gives what String does.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

func (b *Bytes) setText(text string) (err error) {
	*b, err = ParseBytes(text)
	return err
}

// Index is the columns of one index, in order.
type Index []string

// What is wanted where a value has forms of its own, for messages.
const (
	wantSink  = "memory, or sqlite, redis or postgres with its keys"
	wantStale = "serve, or fail: {after: 5m}"
)

// Sink is where a cache is kept: Kind is memory, sqlite, redis or postgres, and the field of that kind is set.
type Sink struct {
	Kind     string
	SQLite   *SQLiteSink
	Redis    *RedisSink
	Postgres *PostgresSink
}

func (s *Sink) setText(text string) error {
	switch text {
	case "memory":
		*s = Sink{Kind: text}
		return nil
	case "sqlite":
		return errors.New("write where the file is: sqlite: {path: …}")
	case "redis":
		return errors.New("write where the server is: redis: {url: …}")
	case "postgres":
		return errors.New("write where the server is: postgres: {url: …}")
	}
	return fmt.Errorf("want %s", wantSink)
}

// Stale is what reads get when the source is gone. The zero Stale serves what there is, and says how old.
type Stale struct {
	// Fail answers 503 instead, once nothing was heard for After.
	Fail bool
	// After is the time without a word from the source.
	After time.Duration
}

func (s *Stale) setText(text string) error {
	switch text {
	case "serve":
		*s = Stale{}
		return nil
	case "fail":
		return errors.New("say after how long: fail: {after: 5m}")
	}
	return fmt.Errorf("want %s", wantStale)
}

// parseDuration reads a Go duration; a bare 0 too.
func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration: write a number with a unit, such as 500ms, 10m or 24h", text)
	}
	return d, nil
}

func parseFloat(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	return f, nil
}
