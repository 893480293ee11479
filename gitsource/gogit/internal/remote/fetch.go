package remote

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/pack"
)

// Request is what to fetch. Depth and Filtered are for servers that support them.
type Request struct {
	// Objects to fetch, with all that they lead to.
	Wants []plumbing.Hash
	// Haves are commits that are present.
	Haves []plumbing.Hash
	// Shallows are the commits that are present without their parents.
	Shallows []plumbing.Hash
	// Depth is how many commits of history to send; 0 is all of it.
	Depth int
	// Filtered leaves the trees of the commits out.
	Filtered bool
	// Thin leaves out what Haves hold, where the server supports it.
	Thin bool
}

// encode writes the request as the protocol has it.
func (r Request) encode(adv *packp.AdvRefs) *packp.UploadPackRequest {
	req := packp.NewUploadPackRequestFromCapabilities(adv.Capabilities)
	req.Wants, req.Haves, req.Shallows = r.Wants, r.Haves, r.Shallows
	// Set fails only for capabilities with arguments.
	if r.Filtered {
		req.Filter = packp.FilterTreeDepth(0)
		_ = req.Capabilities.Set(capability.Filter)
	}
	if r.Depth > 0 {
		req.Depth = packp.DepthCommits(r.Depth)
		_ = req.Capabilities.Set(capability.Shallow)
	}
	if r.Thin {
		requestThin(req, adv)
	}
	return req
}

// requestThin requests a pack that leaves out what the offered commits hold, and
// may describe what it brings as changes to that. Git leaves out nothing of a
// commit without a past unless requested. go-git hides whether a server can do
// it; all that run Git itself can.
func requestThin(req *packp.UploadPackRequest, adv *packp.AdvRefs) {
	agent := adv.Capabilities.Get(capability.Agent)
	if len(req.Haves) > 0 && len(agent) > 0 && strings.HasPrefix(agent[0], "git/") {
		_ = req.Capabilities.Set(capability.ThinPack)
	}
}

// Fetch sends a request and stores the pack that the server sends.
func (c *Connection) Fetch(ctx context.Context, r Request, to *pack.Store, limits pack.Limits) error {
	req := r.encode(c.adv)
	res, err := c.session.UploadPack(withErrorRecorder(ctx, c.errors), req)
	if err != nil {
		return c.classify(ctx, "requesting objects", err)
	}
	defer res.Close()
	return c.receive(ctx, demux(req, res), to, limits)
}

func demux(req *packp.UploadPackRequest, res io.Reader) io.Reader {
	switch {
	case req.Capabilities.Supports(capability.Sideband64k):
		return sideband.NewDemuxer(sideband.Sideband64k, res)
	case req.Capabilities.Supports(capability.Sideband):
		return sideband.NewDemuxer(sideband.Sideband, res)
	}
	return res
}

// receive keeps a pack that the server sends.
func (c *Connection) receive(ctx context.Context, sent io.Reader, to *pack.Store, limits pack.Limits) error {
	err := to.Receive(ctx, &classifiedReader{sent, func(err error) error { return c.classify(ctx, "receiving objects", err) }}, limits)
	// An incomplete pack is the connection's fault where that had one.
	if cause := c.errors.fault(); cause != nil && errors.Is(err, gitsource.ErrCorrupt) {
		return c.classify(ctx, "receiving objects", cause)
	}
	return err
}

// classifiedReader classifies the errors of reading.
type classifiedReader struct {
	reader   io.Reader
	classify func(error) error
}

// Read implements io.Reader.
func (r *classifiedReader) Read(p []byte) (int, error) {
	n, err := r.reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.classify(err)
	}
	return n, err
}
