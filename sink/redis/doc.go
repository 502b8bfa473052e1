// Package redis keeps a cache in a Redis server, where others may read its rows: one key for each row, its value the row's
// JSON or a hash of its columns.
//
// Beside the rows, under <prefix>_syncd:, lie the state with the place in the stream (state), a lease that names the process
// which writes (owner), and what is known of each entry beside its row, in 256 hashes a table, chosen by the key's hash (e:),
// which is also how a table is read in the order of hashes. A commit is one transaction, MULTI and EXEC, of plain commands, behind a
// WATCH of lease and state and a look whether they are as this process left them: whoever was replaced can't write any more, and no
// reader of Redis sees half of it. One of more than 10,000 entries or 16 MiB, and one that drops a table or begins one, is written down first (redo:)
// and then carried out by a script that makes the same comparison, in parts, which readers of Redis see one after the other; broken off in between, it is finished by
// whoever takes the place up.
//
// What fails, and what happens then, is in package remote. Of Redis in particular: an eviction (maxmemory with an allkeys
// policy) is warned of; rows that it took are brought back by the next comparison. A cluster is refused: a commit's keys lie
// in many slots, and no script reaches over more than one.
package redis
