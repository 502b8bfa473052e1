// Package sink decides which state of a row is newer, and keeps caches by it.
//
// The gate (GateDelta, GateRow) is two functions of values: what is held, what arrives, verdict. It is the only way into a
// cache, for deltas and for listed rows alike. Cache owns a Store and applies verdicts to it, one marker's worth of deltas
// or one page at a time, each as one commit; so readers go from commit to commit of Postgres and never see half a
// transaction. Feed takes the stream's messages up to a marker, proves them complete by the marker's counts, and hands
// them over.
//
// It relies on the stream for order within a table's messages, on nothing else: a delta may be lost, doubled, late, or
// come again after a restart. What fails, and what happens then:
//
//   - Deltas are missing at a marker, or a marker is missing: the stretch is read again from the stream. If it is wrong
//     there too, the loss is recorded with the table: its Through stands still, nothing is filled from its rows, and it is to
//     be listed until a list proves to have seen what is missing.
//   - The stream does not reach back to the cursor: the same, for every table.
//   - A message can't be read: it is as if it were lost.
//   - Nobody can tell which of two states is newer, or a delta lacks a value that the cache can't supply: the key is marked
//     as open and stays so, across restarts, until it was fetched.
//   - A new epoch begins: its cache is built beside the one that is read, and takes its place when every table was listed.
//   - The store can't commit: nothing of the commit is visible, the cursor stands, and the feed comes again from there.
//
// It won't list or fetch anything itself: package resync does, and gives pages to Cache.Judge.
package sink
