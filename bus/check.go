package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/syncd-io/syncd"
)

// Finding is one precondition on the bus: met, or what mends it.
type Finding struct {
	What string // the precondition
	OK   bool
	// Detail says what is wrong and what mends it; where OK, what was found.
	Detail string
}

// smallestPayload is the least max_payload that lists and packed deltas work well with.
const smallestPayload = 64 << 10

// Check looks at what the bus has to offer to a sync: whether it is reachable, JetStream is enabled, its limits let the
// stream be made, and the stream, where it exists, is one of ours. It changes nothing. conn nil says that Connect
// failed, with err.
func Check(ctx context.Context, conn *nats.Conn, err error, name string, l Limits) []Finding {
	if conn == nil {
		return []Finding{{What: "NATS can be reached", Detail: mendConnect(err)}}
	}
	list := []Finding{{"NATS can be reached", true, "nats-server " + conn.ConnectedServerVersion() + " at " + conn.ConnectedUrlRedacted()}}
	list = append(list, checkServer(conn)...)
	account, finding := checkJetStream(ctx, conn)
	list = append(list, finding)
	if account == nil {
		return list
	}
	list = append(list, checkLimits(account, l)...)
	return append(list, checkStream(ctx, conn, name, account))
}

func mendConnect(err error) string {
	switch {
	case errors.Is(err, ErrAuth):
		return fmt.Sprintf("%v: check bus.creds, nkey, user and password, or token", err)
	case errors.Is(err, ErrUnreachable):
		return fmt.Sprintf("%v: check bus.url, and that nats-server runs there", err)
	}
	return err.Error()
}

func checkServer(conn *nats.Conn) []Finding {
	headers := Finding{"NATS carries headers", conn.HeadersSupported(), "they are on"}
	if !headers.OK {
		headers.Detail = "the server has no headers: take out no_header_support, or upgrade it"
	}
	size := conn.MaxPayload()
	payload := Finding{"messages may be large enough", size >= smallestPayload, fmt.Sprintf("max_payload is %d bytes; rows above that go as pointers", size)}
	if !payload.OK {
		payload.Detail = fmt.Sprintf("max_payload is %d bytes: set it to %d or more in the server's configuration (1MB is its default)", size, smallestPayload)
	}
	return []Finding{headers, payload}
}

// accountInfo is what is needed of JetStream's account.
type accountInfo struct {
	accountUse
	Tiers map[string]accountUse `json:"tiers"`
}

type accountUse struct {
	Storage int64 `json:"storage"`
	Streams int   `json:"streams"`
	Limits  struct {
		MaxStorage  int64 `json:"max_storage"`
		MaxStreams  int   `json:"max_streams"`
		MaxBytesReq bool  `json:"max_bytes_required"`
	} `json:"limits"`
}

func checkJetStream(ctx context.Context, conn *nats.Conn) (*accountInfo, Finding) {
	f := Finding{What: "JetStream is enabled"}
	if err := accountError(ctx, conn); err != nil {
		f.Detail = fmt.Sprintf("%v: start the server with -js, or a jetstream block; with accounts, enable it for this one", err)
		return nil, f
	}
	var info accountInfo
	m, err := request(ctx, conn, "$JS.API.INFO", nil)
	if err == nil {
		err = json.Unmarshal(m.Data, &info)
	}
	if err != nil {
		f.Detail = fmt.Sprintf("ask for JetStream's account: %v", err)
		return nil, f
	}
	f.OK, f.Detail = true, fmt.Sprintf("%d streams, %d bytes of file storage in use", info.Streams, info.Storage)
	return &info, f
}

// checkLimits looks whether the account has room for the stream.
func checkLimits(info *accountInfo, l Limits) []Finding {
	use := info.accountUse
	if t, ok := info.Tiers[fmt.Sprintf("R%d", max(l.Replicas, 1))]; ok {
		use = t
	}
	f := Finding{"the account has room for the stream", true, "no limit is in the way"}
	free := use.Limits.MaxStorage - use.Storage
	switch {
	case use.Limits.MaxStorage > 0 && l.MaxBytes > use.Limits.MaxStorage:
		f.OK, f.Detail = false, fmt.Sprintf("the account may store %d bytes: set bus.stream.max_bytes to less than that, or raise the account's limit", use.Limits.MaxStorage)
	case use.Limits.MaxStorage > 0 && free <= 0:
		f.OK, f.Detail = false, fmt.Sprintf("the account's %d bytes of storage are used up: raise its limit, or remove streams", use.Limits.MaxStorage)
	case use.Limits.MaxBytesReq && l.MaxBytes <= 0:
		f.OK, f.Detail = false, "the account wants a size with every stream: set bus.stream.max_bytes"
	}
	age := Finding{"the stream is bounded", l.MaxAge > 0 || l.MaxBytes > 0, fmt.Sprintf("max_age %v, max_bytes %d", l.MaxAge, l.MaxBytes)}
	if !age.OK {
		age.Detail = "nothing bounds the stream, which will fill the disk: set bus.stream.max_age or bus.stream.max_bytes"
	}
	if l.MaxAge > 0 && l.MaxAge < time.Minute {
		age.OK, age.Detail = false, fmt.Sprintf("bus.stream.max_age is %v: a consumer that is away for longer lists everything anew; hours are usual", l.MaxAge)
	}
	return []Finding{f, age}
}

func checkStream(ctx context.Context, conn *nats.Conn, name string, account *accountInfo) Finding {
	f := Finding{What: "the stream " + StreamName(name) + " is ours, or can be made"}
	info, err := streamAPI{conn, StreamName(name)}.info(ctx)
	switch {
	case errors.Is(err, syncd.ErrNoStream):
		if n := account.Limits.MaxStreams; n > 0 && account.Streams >= n {
			f.Detail = fmt.Sprintf("the account has all of the %d streams it may have: raise its limit, or remove one", n)
			return f
		}
		if other := capturedBy(ctx, conn, name); other != "" {
			f.Detail = other
			return f
		}
		f.OK, f.Detail = true, "it is not there; the source makes it when it starts for the first time"
	case err != nil:
		f.Detail = err.Error()
	default:
		if err := checkOurs(info.Config, name); err != nil {
			f.Detail = err.Error() + ": remove it, or choose another name"
			return f
		}
		f.OK, f.Detail = true, fmt.Sprintf("it holds %d messages, %d to %d", info.State.Messages, info.State.FirstSeq, info.State.LastSeq)
	}
	return f
}
