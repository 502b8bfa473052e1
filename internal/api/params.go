package api

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/syncd-io/syncd"
)

const (
	defaultTimeout = 5 * time.Second
	maxTimeout     = 5 * time.Minute
	defaultLimit   = 100
	maxLimit       = 10000
)

// readParams are the query parameters of a read.
type readParams struct {
	min     minVersion
	timeout time.Duration
	maxAge  time.Duration // negative: any age will do
	limit   int
	limited bool       // limit was given
	after   syncd.Key  // the key that the page before ended with
	started bool       // after is set
	keys    [][]string // the values of each key of key=in.(…); nil: not given
	search  search
}

// minVersion is what min_version asks for: a position, or an LSN alone, which is one of the epoch that the cache is in
// when the read arrives.
type minVersion struct {
	set   bool
	alone bool // an LSN alone: at.Epoch is to be filled in
	at    syncd.Position
}

var (
	rowParams  = []string{"min_version", "timeout", "max_age"}
	rowsParams = []string{"key", "select", "limit", "continue", "min_version", "timeout", "max_age"}
)

// parseRead reads the query of a read that takes the given parameters.
func parseRead(query string, known []string) (readParams, error) {
	p := readParams{timeout: defaultTimeout, maxAge: -1, limit: defaultLimit}
	err := eachParam(query, known, func(name, value string) (err error) {
		switch name {
		case "min_version":
			p.min, err = parseMinVersion(value)
		case "timeout":
			p.timeout, err = parseDuration(value, maxTimeout)
		case "max_age":
			p.maxAge, err = parseDuration(value, 0)
		case "limit":
			p.limit, err = parseLimit(value)
			p.limited = true
		case "continue":
			p.after, err = parseContinue(value)
			p.started = true
		case "key":
			p.keys, err = parseKeyList(value)
		case "select":
			p.search.columns = value
			p.search.selects = true
		}
		return err
	})
	if err == nil && p.keys != nil && (p.started || p.limited) {
		err = errors.New("parameter key: it goes with neither limit nor continue, since all rows under the keys are sent")
	}
	return p, err
}

// eachParam calls set for each parameter of a query. One that is not known, or given twice, is an error, since a
// misspelt min_version must not be read as none.
func eachParam(query string, known []string, set func(name, value string) error) error {
	if query == "" {
		return nil
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return fmt.Errorf("query: %w; percent-encode names and values", err)
	}
	for name, vs := range values {
		if !slices.Contains(known, name) {
			return fmt.Errorf("parameter %q is not known here: %s", name, knownParams(known))
		}
		if len(vs) > 1 {
			return fmt.Errorf("parameter %s is given %d times: give it once", name, len(vs))
		}
		if err := set(name, vs[0]); err != nil {
			return fmt.Errorf("parameter %s: %w", name, err)
		}
	}
	return nil
}

func knownParams(known []string) string {
	if len(known) == 0 {
		return "this path takes none"
	}
	return "there are " + strings.Join(known, ", ")
}

// parseMinVersion reads an LSN, a position or a change's version, whose commit is then meant.
func parseMinVersion(s string) (minVersion, error) {
	if l, err := syncd.ParseLSN(s); err == nil {
		return minVersion{true, true, syncd.Position{LSN: l}}, nil
	}
	if p, err := syncd.ParsePosition(s); err == nil {
		return minVersion{true, false, p}, nil
	}
	if v, err := syncd.ParseVersion(s); err == nil {
		return minVersion{true, false, v.Position()}, nil
	}
	return minVersion{}, fmt.Errorf("%q is neither an LSN, such as 0/16B3748, nor a version of an earlier answer, such as 1764534000000-0/16B3748", s)
}

// parseDuration reads a Go duration from 0 to limit; limit 0 is none.
func parseDuration(s string, limit time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration: want a number with a unit, such as 500ms, 30s or 2m", s)
	}
	if d < 0 {
		return 0, fmt.Errorf("%s is negative", s)
	}
	if limit > 0 && d > limit {
		return 0, fmt.Errorf("%s is too long: want at most %s", s, limit)
	}
	return d, nil
}

// parseLimit reads a number of rows; more than maxLimit is cut to it.
func parseLimit(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || n == 0 {
		return 0, fmt.Errorf("%q is not a number of rows: want 1 to %d", s, maxLimit)
	}
	return int(min(n, maxLimit)), nil
}

// continueForm is the first character of every continue token. Another order of rows would take another.
const continueForm = "1"

// continueToken names the place behind a key in the order of pages, which is that of the keys' hashes, so it stays right
// while rows come and go, the key's own row included.
func continueToken(k syncd.Key) string {
	return continueForm + base64.RawURLEncoding.EncodeToString([]byte(k))
}

func parseContinue(s string) (syncd.Key, error) {
	text, ok := strings.CutPrefix(s, continueForm)
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if !ok || err != nil {
		return "", fmt.Errorf("%q is not from an answer of this server: send back \"continue\" as it came, or none to begin anew", s)
	}
	return syncd.Key(b), nil
}
