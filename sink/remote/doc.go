// Package remote is the half that stores in a server have in common: sink/redis and sink/postgres give it a Place, which
// reads and writes entries in theirs, and it makes of that a sink.Store.
//
// What is compared and served is read from the server, so it is what that really holds. Only what the stream brings is judged by what
// this process remembers to have written, up to 64 MiB of it, so that a commit of rows that change often reads nothing first.
// Each commit of a place has a Mark, which names the generation (a life of the place, from one beginning to the next), counts
// its commits, and is read together with whatever is read. That is how everything that can happen to a server behind a
// cache's back is noticed at the next read or commit:
//
//   - The place is empty, or back at an earlier commit (flushed, restarted without its data, failed over to a copy that
//     lags): it is begun anew, and the call's error wraps sink.ErrReset, upon which every table is listed again.
//   - Another process went on with it (this one had stalled for longer than its lease): what that one left is taken over
//     once it has gone, and the error wraps sink.ErrReset too. Until then it is an *InUseError, which names the other.
//   - The server is away: calls fail, and the caller tries again. A commit whose outcome is unknown is settled by the mark,
//     before anything else is done.
//   - The server was away at the start: the state is empty until it is reached, and then the error wraps sink.ErrReset.
//
// A view reads the entries as they are now, and puts back what later commits have changed, which it has from the entries
// that those loaded before they wrote. So views cost nothing when they are made, and never hold up a commit. One that is
// read while its table is dropped, or the place begun anew, says so in Err.
package remote
