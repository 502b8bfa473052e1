package sidecar

import (
	"context"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// selecting is a Source that is asked for the rows of the tables' selectors alone. The selector is the one that the cache
// judges by; answers by another, which was there when the request was made, are no good to it.
type selecting struct {
	Source
	cache *sink.Cache
}

func (s *selecting) selector(t syncd.Table) string {
	if ts := s.cache.State().Tables[t]; ts != nil {
		return ts.Info.Selector
	}
	return ""
}

func (s *selecting) List(ctx context.Context, r syncd.ListRequest) (*syncd.Page, error) {
	r.Selector = s.selector(r.Table)
	return s.Source.List(ctx, r)
}

func (s *selecting) Digest(ctx context.Context, r syncd.DigestRequest) (*syncd.Digest, error) {
	r.Selector = s.selector(r.Table)
	return s.Source.Digest(ctx, r)
}

func (s *selecting) Get(ctx context.Context, r syncd.GetRequest) (*syncd.Page, error) {
	r.Selector = s.selector(r.Table)
	return s.Source.Get(ctx, r)
}
