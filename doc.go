// Package syncd is the vocabulary of syncd, which keeps the caches of many services true to one Postgres: what a row's
// key is, what a change is, and which of two states of a row is newer. It holds values and pure functions only, takes
// nothing but the standard library, and is what the stages (source, bus, sink, resync, checkpoint) speak to each other.
//
// Version, Snapshot.Visible and Snapshot.Later are the algebra that everything rests on: a change is newer than another
// by version; a listed row is newer than a change when its snapshot sees the change's transaction; one list is newer
// than another when its snapshot provably contains the other's. Log positions alone can't order a listed row against a
// change, because a commit is in the log, and decoded, before it is visible to new snapshots.
package syncd
