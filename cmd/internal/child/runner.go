package child

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/poolwright/poolwright/reconciler/declared/buildcache"
	"github.com/poolwright/poolwright/reconciler/declared/checked"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
)

// Limits bound one child. A zero field means its default.
type Limits struct {
	// Memory is what a child may hold, in bytes. Default 640 MiB. It is kept on
	// Linux only.
	Memory int64
	// CPU is the processor time that it may take, in whole seconds. Default 60s.
	CPU time.Duration
	// Deadline is when it is ended, counted from its start. Default 90s.
	Deadline time.Duration
	// Input is how many bytes it may be given. Default 256 MiB.
	Input int64
	// Output is how many bytes it may write, its requests included. Default 16 MiB.
	Output int64
	// Decoded is how many bytes of memory its result may take once it is decoded, as
	// manifest.Decoded estimates it. Default 96 MiB.
	Decoded int64
}

func (l Limits) withDefaults() Limits {
	for _, f := range []struct {
		v *int64
		d int64
	}{{&l.Memory, memoryDefault}, {&l.Input, 256 << 20}, {&l.Output, 16 << 20}, {&l.Decoded, decodedDefault}} {
		if *f.v <= 0 {
			*f.v = f.d
		}
	}
	if l.CPU <= 0 {
		l.CPU = time.Minute
	}
	l.CPU = max(l.CPU.Truncate(time.Second), time.Second)
	if l.Deadline <= 0 {
		l.Deadline = 90 * time.Second
	}
	return l
}

// decodedDefault is for what anybody may propose; see [manifest.Limits.Rendered] for
// what a child lets pass of itself.
const decodedDefault = 96 << 20

// Runner starts children, as many at once as Semaphore has slots: further calls wait, until
// their context ends. The zero Runner starts this very program with the hidden command
// "child"; fields are not changed once it is in use. It is safe for concurrent use.
type Runner struct {
	// Path is the program. Default this very executable.
	Path string
	// Args are its arguments before the verb and its limits. Default "child".
	Args []string
	// Limits hold for each child.
	Limits Limits
	// Semaphore is shared by all Runners of a process. Default that of the process.
	Semaphore *Semaphore
	// Proposed is true where the children work on what is only proposed: however many of
	// them there are to be, and however long they take, one slot is left to others.
	Proposed bool
	// Builds keeps builds of what is rendered for the next revision of the same folder. Default nil:
	// nothing is kept.
	Builds *buildcache.Folder
	// Repository is where the proposals are made, in any one way of writing it:
	// repositories take turns. Default one for all who name none.
	Repository string
}

// Load is Render and Decode.
func (r *Runner) Load(ctx context.Context, tree fs.FS, folder string, values substitute.Values) (checked.Folder, error) {
	encoded, err := r.Render(ctx, tree, folder, values)
	if err != nil {
		return checked.Folder{}, err
	}
	return r.Decode(encoded)
}

// Proposal implements rendercache.Renderer.
func (r *Runner) Proposal() bool { return r.Proposed }

// Render renders and checks the folder at the given path of a tree, with variables whose
// values of Secrets stay in this process, as [substitute.Values.Encode] describes. A
// broken limit is an error for the tree's author to mend (state.Stalled), with the reason
// LimitExceeded or RenderTimeout; no free slot before the deadline, a child that cannot be
// started, one that somebody else ends, and one that got too little of a busy processor
// are for another try. Errors of the rendering itself are those of declared.Load.
func (r *Runner) Render(ctx context.Context, tree fs.FS, folder string, values substitute.Values) ([]byte, error) {
	_, links := tree.(fs.ReadLinkFS)
	sealed, err := values.Encode()
	if err != nil {
		return nil, fmt.Errorf("sealing the variables: %w", err)
	}
	var builds returnedBuilds
	raw, err := r.run(ctx, job{verb: verbLoad, doing: "rendering", exchange: func(in *writer, out *reader) (frame, error) {
		if err := r.send(in, tree, loadRequest{Folder: folder, Links: links, Values: sealed}); err != nil {
			return frame{}, err
		}
		return serveTree(tree, in, out, &builds)
	}})
	if err != nil {
		return nil, err
	}
	// What is no list at all is not cached.
	if err := json.Unmarshal(raw, &[0]any{}); err != nil {
		return nil, fmt.Errorf("reading what was rendered: %w", err)
	}
	r.Builds.Keep(tree, builds.used, builds.made)
	return bytes.Clone(raw), nil
}

// serveTree serves requests about the tree, and takes builds, until the last frame comes.
func serveTree(tree fs.FS, in *writer, out *reader, builds *returnedBuilds) (frame, error) {
	for {
		m, payload, err := out.next()
		if err != nil || m.last() {
			return frame{m, payload}, err
		}
		if m != frameRead {
			if taken, err := builds.add(m, payload); err != nil || !taken {
				return frame{}, cmp.Or(err, unexpected(m))
			}
			continue
		}
		reply, err := respond(tree, payload, in.remaining)
		if err != nil {
			return frame{}, err
		}
		if err := in.send(frameReply, reply); err != nil {
			return frame{}, err
		}
	}
}

// errLate is the cause of a child's end at its deadline.
var errLate = errors.New("deadline of a child")
