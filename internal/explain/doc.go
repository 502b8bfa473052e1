// Package explain says of one key why the cache holds what it holds: it reads the row from Postgres as it is now, the last
// changes of the key from the stream, and what the cache knows of it, and says in words how these fit together and what to do.
//
// It relies on the list service for the row, and judges it as a resync does: once the stream has passed what the row's snapshot
// may have seen, and by the cache's own gate, dry. It changes nothing. What can't be asked (the source is away, NATS is away) is
// said in its place, and the rest is given all the same.
package explain
