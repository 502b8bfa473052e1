// Package sqlite keeps a cache in one SQLite file, which other processes may open read-only and query with SQL while it is
// being written.
//
// # What others see
//
// One table per source table, named `schema.table` (that whole is one quoted name), with the source's columns, its primary key
// and the indexes that were asked for. A commit of the cache is one SQLite transaction, so a reader's transaction sees whole
// commits of the source. Everything that begins with _syncd_ is this package's own. How names and types are turned into
// SQLite's is said at tableNames, columnNames and typeOf.
//
// # What is stored
//
// _syncd_entries_N holds the entries of one table under the keys' hashes, each as one value: where it came from, and its row as
// the exact JSON that readers of the cache get. The source's tables are made of that JSON, in the same transaction, and are read
// back only to be checked. The state lies in _syncd_state, written with each commit. A new epoch is built beside the one that
// is read, in tables of its own, and Promote puts it in the other's place in one transaction.
//
// # What may go wrong
//
// After kill -9 the file is as of the last commit. After a loss of power it may be as of an earlier one (WAL, synchronous
// NORMAL), still with the state that belongs to it, so the stream goes on from there. A file that is damaged, of a newer
// version, or not this package's is put aside when it is opened, and everything is listed anew. Where another process wrote
// to the file, its version (PRAGMA data_version) says so: then, and once after each start, the digests are made anew of
// what is stored and each table is compared with its entries; what differs shows as a wrong row, and the next resync puts it
// right. What nobody wrote and the disk changed is found where SQLite notices, or by a full resync.
//
// The write-ahead log is taken into the file beside the commits, from 64 MiB on; a commit waits for that only where the log has
// grown to 128 MiB. A reader that holds one transaction open for long keeps the write-ahead log from being reused: the file PATH-wal grows.
package sqlite
