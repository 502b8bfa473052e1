package source

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestConnectErrorsSayWhatMends: one line, with the server's own words and what to look at, and still the driver's error.
func TestConnectErrorsSayWhatMends(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		stateInvalidPassword:      "no good; mend the user or the password in the connection string",
		stateInvalidAuthorization: "pg_hba.conf",
		stateInvalidCatalogName:   "mend the database's name",
		"53300":                   "connect to Postgres: no good",
	} {
		pg := &pgconn.PgError{Code: code, Message: "no good"}
		err := connectError(fmt.Errorf("a:5432: %w\na:5432: %w", pg, pg))
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || sqlState(err) != code {
			t.Errorf("%s: %v (%s), want %q", code, err, sqlState(err), want)
		}
	}
	refused := errors.New("dial error: connection refused")
	err := connectError(fmt.Errorf("user and database:\n\t127.0.0.1:1: %w\n\t127.0.0.1:1: %w\n\t[::1]:1: %w", refused, refused, refused))
	const want = "connect to Postgres: user and database: 127.0.0.1:1: dial error: connection refused; [::1]:1: dial error: connection refused"
	if err.Error() != want || !errors.Is(err, refused) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	pooler := connectError(&pgconn.PgError{Code: "08P01", Message: "unsupported startup parameter: extra_float_digits"})
	if !errors.Is(pooler, errPooler) {
		t.Errorf("a pooler: %v", pooler)
	}
}
