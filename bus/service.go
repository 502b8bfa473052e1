package bus

import (
	"context"

	"github.com/syncd-io/syncd"
)

// Lister answers the list service's questions. It is called by many goroutines at a time. Pages are not changed any more
// once they are given out; one page may be given to several callers.
type Lister interface {
	// Tables gives every configured table, the refused ones too.
	Tables(ctx context.Context) ([]syncd.TableInfo, error)
	// List gives one page. Its error wraps syncd.ErrBusy where as many scans run as are allowed, syncd.ErrNoTable where
	// the table is not synced.
	List(ctx context.Context, r syncd.ListRequest) (*syncd.Page, error)
	// Get gives single keys, all read in one snapshot; errors as List.
	Get(ctx context.Context, r syncd.GetRequest) (*syncd.Page, error)
}

// MarkSender has a marker published now.
type MarkSender interface {
	// Mark returns once a marker at or past at has been handed to the stream, and gives its position. at 0 is the
	// server's current insert LSN.
	Mark(ctx context.Context, at syncd.LSN) (syncd.Position, error)
}
