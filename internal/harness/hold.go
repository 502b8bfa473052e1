package harness

import "fmt"

// HoldCommits has every commit of the server wait for a standby that there is none of: what is committed is in the log, and
// decoded, and no snapshot sees it. It returns once a commit was seen to wait: the sessions take the setting over before
// the checkpointer does, and only from then on is it in force. ReleaseCommits ends it. A session with synchronous_commit =
// local is not held.
func (db *DB) HoldCommits() {
	db.t.Helper()
	db.Exec("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
	db.Exec("SELECT pg_reload_conf()")
	Eventually(db.t, "a commit waits", func() error {
		probe := db.Conn()
		defer probe.Close(db.t.Context())
		pid, ended := probe.PgConn().PID(), make(chan error, 1)
		go func() {
			_, err := probe.Exec(db.t.Context(), "SET synchronous_commit = on; SELECT pg_logical_emit_message(true, 'held', '')")
			ended <- err
		}()
		for {
			select {
			case err := <-ended:
				return fmt.Errorf("one did not: %w", err)
			default:
			}
			if db.Text("SELECT coalesce((SELECT wait_event FROM pg_stat_activity WHERE pid = $1), '')", pid) == "SyncRep" {
				db.Exec("SELECT pg_cancel_backend($1)", pid)
				return <-ended
			}
		}
	})
}

// ReleaseCommits lets the commits that HoldCommits holds end.
func (db *DB) ReleaseCommits() {
	db.t.Helper()
	db.Exec("ALTER SYSTEM RESET synchronous_standby_names")
	db.Exec("SELECT pg_reload_conf()")
}
