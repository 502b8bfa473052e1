package api

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"
	"time"
)

// told remembers what it is told.
type told struct{ all []string }

func (o *told) Answered(endpoint string, status int, _ time.Duration) {
	o.all = append(o.all, fmt.Sprint(endpoint, " ", status))
}

// TestObserver: each request is told of once, by its kind and status and never by its path.
func TestObserver(t *testing.T) {
	o := &told{}
	a := &API{Options: Options{Observer: o, Limits: Limits{}.withDefaults()}}
	for _, target := range []string{"/healthz", "/nowhere/1", "/v1/tables/public.people/resync"} {
		a.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "http://127.0.0.1"+target, nil))
	}
	if want := []string{"healthz 200", "none 404", "resync 405"}; !slices.Equal(o.all, want) {
		t.Errorf("it was told of %q, not of %q", o.all, want)
	}
	for e := nowhere; int(e) < len(methods); e++ {
		if e.name() == "other" {
			t.Errorf("the endpoint %d has no name", e)
		}
	}
}
