package syncd

import "errors"

// The errors a caller branches on. Each travels wrapped in what was being done, to what.
var (
	// ErrTooOld says that the stream no longer reaches back to a cursor, or holds something else under it: relist.
	ErrTooOld = errors.New("too old")
	// ErrFenced says that another source has written to the stream: stand by.
	ErrFenced = errors.New("another source writes to this stream")
	// ErrNoStream says that the stream does not exist.
	ErrNoStream = errors.New("no such stream")
	// ErrBusy says that as many scans run as are allowed: try again later (HTTP 429).
	ErrBusy = errors.New("too many lists at a time")
	// ErrAway says that the source that was asked can't reach its Postgres: another one may.
	ErrAway = errors.New("the source can't reach Postgres")
	// ErrNoTable says that the source does not sync a table.
	ErrNoTable = errors.New("no such table")
	// ErrMalformed says that a message is not what the wire form describes. Whoever follows a stream goes on behind it: what
	// it held counts as lost.
	ErrMalformed = errors.New("malformed message")
	// ErrFormat says that a message or reply is of a newer format than this program reads: upgrade it.
	ErrFormat = errors.New("newer format")
)
