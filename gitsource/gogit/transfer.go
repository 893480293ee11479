package gogit

import (
	"context"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/poolwright/poolwright/gitsource/gogit/internal/mirror"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/pack"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/remote"
)

// transfer fetches want, given that have is already held, and stores the response as
// one pack. It reports whether only the newest commit arrived.
func (s *Source) transfer(ctx context.Context, sess *remote.Connection, want plumbing.Hash, have mirror.Record, to *pack.Store) (bool, error) {
	req := s.wants(sess, want)
	req.Thin = true
	shallow := req.Depth > 0
	if have.Object != "" {
		h := plumbing.NewHash(have.Object)
		req.Haves = []plumbing.Hash{h}
		if have.Shallow && shallow {
			req.Shallows = []plumbing.Hash{h}
		} else if have.Shallow {
			// Without the shallow capability the server would take have for
			// the whole of its history.
			req.Haves = nil
		}
	}
	return shallow, sess.Fetch(ctx, req, to, s.limits.pack())
}

// wants is what to request: the one object at depth 1 where the server allows it, else
// everything that its branches and tags reach, so that a commit can be found in there.
func (s *Source) wants(sess *remote.Connection, want plumbing.Hash) remote.Request {
	if s.ref.Commit != "" && !sess.Advertises(want) && !sess.SupportsReachable() {
		if tips := sess.Tips(); len(tips) > 0 {
			return remote.Request{Wants: tips}
		}
	}
	req := remote.Request{Wants: []plumbing.Hash{want}}
	if sess.SupportsShallow() {
		req.Depth = 1
	}
	return req
}
