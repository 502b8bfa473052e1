// Package source is the only one that talks to Postgres. Watch follows it by logical replication and publishes what changes;
// Lister reads tables page by page; Check says beforehand what is missing. The decoder of pgoutput, the catalog of types and
// the one encoder that prints rows as row_to_json does, for push and list alike, are pure.
//
// Watch relies on a replication slot, which has one user at a time and so makes one source lead, and on a Publisher, whose
// stream is its only memory: at start it reads the stream's last marker and goes on behind it, or, where slot and stream do
// not provably belong together, begins a new epoch with a new slot (Decide, Replay). The slot is told of what the stream has
// acknowledged, an interval later, and of nothing else.
//
// What happens when a part of it fails:
//
//   - Postgres is gone or restarts: it connects again with growing pauses, and goes on where the stream stands.
//   - The publisher fails or is fenced, or the slot is in use: it gives the lead up, stands by and tries again. The slot
//     holds the log meanwhile; before it holds more than MaxSlotWAL it is given up, and a new epoch begins later.
//   - The replication stream can't be understood: Run ends with a *ProtocolError that names the LSN, and nothing behind it is
//     confirmed.
//   - The stream was deleted: Run ends with a *StopError. It is never made anew in silence.
//   - A table can't be synced: it is refused by name, with what mends it, and the others go on. It is looked at once a
//     second, and synced as soon as it can be.
//   - The catalog changes in a way that the stream does not carry: the next marker names the table to be listed again.
//   - A page can't be read whole: there is no page.
//
// It never makes a publication that would break the application's own writes, it never tells the server that something is
// safe which the stream has not acknowledged, and it never shows a page that a crash of the server could take back.
package source
