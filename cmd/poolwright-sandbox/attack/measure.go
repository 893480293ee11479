package attack

import (
	"context"
	"errors"
	"io/fs"
	"runtime"
	"strings"
	"testing/fstest"
	"time"

	"github.com/poolwright/poolwright/cmd/internal/child"
	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/attack/grammar"
	"github.com/poolwright/poolwright/reconciler/declared/checked"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/declared/substitute/fluxexpr"
	"github.com/poolwright/poolwright/reconciler/state"
)

// crashed is the class of a controller that ended.
const crashed = "crashed"

// Measure is what a trial came to.
type Measure struct {
	// FailureClass and Reason are those of the error, empty for a result; Message is its text.
	FailureClass string `json:"class,omitempty"`
	Reason       string `json:"reason,omitempty"`
	Message      string `json:"message,omitempty"`
	// Stage is what ended with the error: rendering, planning or forecasting.
	Stage string `json:"stage,omitempty"`
	// Objects is how many were declared.
	Objects int   `json:"objects,omitempty"`
	Child   Usage `json:"child"`
	Parent  Usage `json:"parent"`
	// Output is how many bytes a child returned, and Decoded how many bytes of memory that
	// takes in the parent.
	Output  int64 `json:"output,omitempty"`
	Decoded int64 `json:"decoded,omitempty"`
	// Report is how many bytes a person is shown.
	Report int64 `json:"report,omitempty"`
	// Neighbor is why what was rendered meanwhile failed; empty where it did not.
	Neighbor string `json:"neighbor,omitempty"`
}

// Usage is what a process used.
type Usage struct {
	// Memory is the most that it had resident, in bytes; of the parent, how much more than
	// before.
	Memory int64         `json:"memory"`
	CPU    time.Duration `json:"cpu"`
	Wall   time.Duration `json:"wall"`
}

// Limits of what is rendered of a followed branch, as package operator has them.
const (
	followedOutput  = 32 << 20
	followedDecoded = 192 << 20
)

// runner starts the children for a trial.
func (r trialRequest) runner(slots *child.Semaphore) *child.Runner {
	out := &child.Runner{Path: r.Child, Limits: r.Limits, Semaphore: slots, Proposed: !r.Followed, Repository: "trial"}
	if r.Followed {
		for limit, most := range map[*int64]int64{&out.Limits.Output: followedOutput, &out.Limits.Decoded: followedDecoded} {
			if *limit == 0 {
				*limit = most
			}
		}
	}
	return out
}

// measure has children render the trial, decodes the result and plans with it.
func measure(ctx context.Context, r trialRequest, tree fs.FS) Measure {
	slots := child.NewSemaphore()
	neighbor := make(chan string, 1)
	if r.Neighbor {
		go func() { neighbor <- renderNeighbor(ctx, r, slots) }()
	} else {
		neighbor <- ""
	}
	values, err := syncValues()
	if err != nil {
		return failed("rendering", err)
	}
	in := r.runner(slots)
	begin := startMeter()
	out, folder := loaded(ctx, in, tree, values, r.Followed)
	out.Child, out.Parent = begin.children(), begin.parent()
	out.Neighbor = <-neighbor
	runtime.KeepAlive(folder)
	return out
}

// loaded is what comes of the result of a child, and what it declares.
func loaded(ctx context.Context, in *child.Runner, tree fs.FS, values substitute.Values, followed bool) (out Measure, folder checked.Folder) {
	encoded, err := in.Render(ctx, tree, grammar.Folder, values)
	if err != nil {
		return failed("rendering", err), folder
	}
	before := heap()
	folder, err = in.Decode(encoded)
	if err != nil {
		return failed("decoding", err), folder
	}
	decoded := heap() - before
	size, stage, err := plan(ctx, in, tree, encoded, values, followed)
	if err != nil {
		out = failed(stage, err)
	}
	out.Output, out.Decoded, out.Objects, out.Report = int64(cap(encoded)), decoded, folder.Set.Len(), size
	return out, folder
}

// failed is the measure of an error.
func failed(stage string, err error) Measure {
	class, reason, _ := state.Classify(err)
	return Measure{FailureClass: class.String(), Reason: reason, Message: err.Error(), Stage: stage}
}

// syncValues are what the Sync has.
func syncValues() (substitute.Values, error) {
	return substitute.NewValues(fluxexpr.Parse, nil, substitute.Public("spec.substitute", map[string]string{grammar.Variable: strings.Repeat("x", 1000)}))
}

// renderNeighbor renders a small folder of a followed branch and returns why that failed.
func renderNeighbor(ctx context.Context, r trialRequest, slots *child.Semaphore) string {
	in := &child.Runner{Path: r.Child, Semaphore: slots}
	tree := fstest.MapFS{"x/a.yaml": &fstest.MapFile{Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")}}
	var folder checked.Folder
	folder, err := in.Load(ctx, tree, "x", substitute.Values{})
	if err == nil && folder.Set.Len() != 1 {
		err = errors.New("the other repository has lost its object")
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// heap is how much memory is in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
