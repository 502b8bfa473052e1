package daemon

import (
	"context"

	"github.com/syncd-io/syncd"
)

// Digest asks the source for a table's digest.
func (l *link) Digest(ctx context.Context, r syncd.DigestRequest) (*syncd.Digest, error) {
	c, err := l.client()
	if err != nil {
		return nil, err
	}
	return c.Digest(ctx, r)
}
