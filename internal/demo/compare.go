package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/syncd-io/syncd"
)

// shopRows are all rows of the shop, by table and key.
type shopRows map[string]string

// postgresRows reads the shop from Postgres, in one snapshot: what every cache must hold.
func postgresRows(ctx context.Context, conn *pgx.Conn) (shopRows, error) {
	all := shopRows{}
	err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		for _, t := range tables {
			rows, err := tx.Query(ctx, "SELECT id::text, row_to_json(t)::text FROM "+t.SQL()+" t")
			if err != nil {
				return err
			}
			var id, row string
			if _, err := pgx.ForEachRow(rows, []any{&id, &row}, func() error {
				all[t.String()+"/"+id] = row
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the shop from Postgres: %w", err)
	}
	return all, nil
}

// sidecar reads from a sidecar over HTTP, as a service beside it would.
type sidecar struct {
	base string
	http *http.Client
}

// statusError is an answer other than 200.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return e.text }

// get asks for a JSON value.
func (s *sidecar) get(ctx context.Context, path string, into any) error {
	body, err := s.body(ctx, path)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// body asks for the body of an answer.
func (s *sidecar) body(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, &statusError{resp.StatusCode, fmt.Sprintf("GET %s: %s: %s", path, resp.Status, body)}
	}
	return body, nil
}

// rows reads the whole cache, page by page.
func (s *sidecar) rows(ctx context.Context) (shopRows, error) {
	all := shopRows{}
	for _, t := range tables {
		if err := s.table(ctx, t, all); err != nil {
			return nil, fmt.Errorf("read the cache of %s: %w", t, err)
		}
	}
	return all, nil
}

func (s *sidecar) table(ctx context.Context, t syncd.Table, all shopRows) error {
	q := url.Values{"limit": {"10000"}}
	for {
		var page struct {
			Items    []json.RawMessage
			Continue string
		}
		if err := s.get(ctx, "/v1/tables/"+url.PathEscape(t.String())+"/rows?"+q.Encode(), &page); err != nil {
			return err
		}
		for _, row := range page.Items {
			var id struct{ ID json.Number }
			if err := json.Unmarshal(row, &id); err != nil {
				return err
			}
			all[t.String()+"/"+id.ID.String()] = string(row)
		}
		if page.Continue == "" {
			return nil
		}
		q.Set("continue", page.Continue)
	}
}

// differing gives the keys under which two states of the shop differ.
func differing(a, b shopRows) map[string]bool {
	keys := map[string]bool{}
	for k, row := range a {
		if b[k] != row {
			keys[k] = true
		}
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			keys[k] = true
		}
	}
	return keys
}

// settle is how long a row must be wrong, and unchanged in Postgres, to count as wrong and not as on its way.
const settle = 300 * time.Millisecond

// wrong counts the rows that the cache holds otherwise than Postgres, those on their way not counted: they differ at two
// moments, and Postgres did not change them in between.
func wrong(ctx context.Context, conn *pgx.Conn, s *sidecar) (int, error) {
	first, err := postgresRows(ctx, conn)
	if err != nil {
		return 0, err
	}
	cached, err := s.rows(ctx)
	if err != nil {
		return 0, err
	}
	suspects := differing(first, cached)
	if len(suspects) == 0 {
		return 0, nil
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(settle):
	}
	if cached, err = s.rows(ctx); err != nil {
		return 0, err
	}
	later, err := postgresRows(ctx, conn)
	if err != nil {
		return 0, err
	}
	still := differing(first, cached)
	changed := differing(first, later)
	maps.DeleteFunc(suspects, func(k string, _ bool) bool { return !still[k] || changed[k] })
	return len(suspects), nil
}
