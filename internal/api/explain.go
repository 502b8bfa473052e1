package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/explain"
)

// Explainer says of a key why the cache holds what it holds. It is called by any number of requests at a time.
// explain.Explainer implements it.
type Explainer interface {
	Explain(ctx context.Context, t syncd.Table, k syncd.Key) (*explain.Explanation, error)
}

// explain answers with the explanation of a key. The table need not be listed, nor synced.
func (a *API) explain(w http.ResponseWriter, r *http.Request, at route) error {
	t, err := parseTable(at.table)
	if err != nil {
		return badRequest(err)
	}
	if err := noParams(r); err != nil {
		return err
	}
	if a.Explain == nil {
		return &failure{status: http.StatusNotImplemented, text: "this sidecar can't explain keys"}
	}
	st, err := a.state()
	if err != nil {
		return err
	}
	ts := st.Tables[t]
	if ts == nil {
		_, err := readable(st, t)
		return err
	}
	key, err := explainedKey(at.key, &ts.Info)
	if err != nil {
		return badRequest(err)
	}
	a.extend(w, 2*a.Limits.Write)
	e, err := a.Explain.Explain(r.Context(), t, key)
	switch {
	case r.Context().Err() != nil:
		return errStopping()
	case errors.Is(err, syncd.ErrNoTable): // it went away meanwhile
		return &failure{status: http.StatusNotFound, text: err.Error()}
	case err != nil:
		return err
	}
	writeJSON(w, http.StatusOK, e)
	return nil
}

// explainedKey reads a key. Of a table that is refused the key's columns may not be known.
func explainedKey(path string, info *syncd.TableInfo) (syncd.Key, error) {
	if len(info.Key) == 0 {
		return syncd.ParseKeyPath(path)
	}
	return parseKey(path, info)
}
