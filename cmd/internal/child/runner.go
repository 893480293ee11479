package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Limits bound one child. A zero field means its default.
type Limits struct {
	// Memory is what a child may hold, in bytes. Default 768 MiB. It is kept on
	// Linux only.
	Memory int64
	// CPU is the processor time that it may take, in whole seconds. Default 60s.
	CPU time.Duration
	// Deadline is when it is ended, counted from its start. Default 90s.
	Deadline time.Duration
	// Input is how many bytes it may be given. Default 256 MiB.
	Input int64
	// Output is how many bytes it may answer, with its questions. Default 16 MiB.
	Output int64
}

func (l Limits) withDefaults() Limits {
	for _, f := range []struct {
		v *int64
		d int64
	}{{&l.Memory, 768 << 20}, {&l.Input, 256 << 20}, {&l.Output, 16 << 20}} {
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

// Runner starts children, two at most at once: further calls wait, until their
// context ends. The zero Runner starts this very program with the hidden command
// "child"; fields are not changed once it is in use. It is safe for concurrent use.
type Runner struct {
	// Path is the program. Default this very executable.
	Path string
	// Args are its arguments before the verb and its limits. Default "child".
	Args []string
	// Limits hold for each child.
	Limits Limits

	once  sync.Once
	slots chan struct{}
}

// atOnce is how many children there may be.
const atOnce = 2

// Load renders and checks the folder at the given path of a tree, with variables whose
// values of Secrets stay in this process: see substitute.Values.Seal. A broken limit is
// an error for the tree's author to mend (state.Fix), with the reason LimitExceeded
// or RenderTimeout; a child that cannot be started, and one that somebody else ends,
// are for another try. Errors of the rendering itself are those of declared.Load.
func (r *Runner) Load(ctx context.Context, tree fs.FS, folder string, values substitute.Values) (Loaded, error) {
	_, links := tree.(fs.ReadLinkFS)
	sealed, err := values.Seal()
	if err != nil {
		return Loaded{}, fmt.Errorf("sealing the variables: %w", err)
	}
	request, err := json.Marshal(loadRequest{Folder: folder, Links: links, Values: sealed})
	if err != nil {
		return Loaded{}, fmt.Errorf("writing what to load: %w", err)
	}
	raw, err := r.run(ctx, job{verb: verbLoad, doing: "rendering", talk: func(in *writer, out *reader) ([]byte, error) {
		if err := in.send(markRequest, request); err != nil {
			return nil, err
		}
		return lend(tree, in, out)
	}})
	if err != nil {
		return Loaded{}, err
	}
	var found result
	if err := utiljson.Unmarshal(raw, &found); err != nil {
		return Loaded{}, fmt.Errorf("reading what was rendered: %w", err)
	}
	if found.Failure != nil {
		return Loaded{}, found.Failure.err()
	}
	items := make([]state.Item, len(found.Items))
	for i, f := range found.Items {
		items[i] = state.Item{Key: f.Key, Version: f.Version, Object: f.Object, Origin: f.Origin}
	}
	return Loaded{Set: state.NewSet(items...), Problems: found.Problems, Refused: found.Refused, Notes: found.Notes}, nil
}

// lend answers questions about the tree until the result comes.
func lend(tree fs.FS, in *writer, out *reader) ([]byte, error) {
	for {
		m, payload, err := out.next()
		switch {
		case err != nil:
			return nil, err
		case m == markResult:
			return payload, nil
		case m != markAsk:
			return nil, unexpected(m)
		}
		reply, err := answer(tree, payload, in.left)
		if err != nil {
			return nil, err
		}
		if err := in.send(markReply, reply); err != nil {
			return nil, err
		}
	}
}

// slot waits for its turn.
func (r *Runner) slot(ctx context.Context) (free func(), err error) {
	r.once.Do(func() { r.slots = make(chan struct{}, atOnce) })
	select {
	case r.slots <- struct{}{}:
		return func() { <-r.slots }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for other children to end: %w", context.Cause(ctx))
	}
}

// errLate is the cause of a child's end at its deadline.
var errLate = errors.New("deadline of a child")
