package benchmark

import (
	"context"

	"github.com/poolwright/poolwright/provision/sandbox/process"
)

// System is a GitOps controller under test.
type System struct {
	// Name is what its column is called.
	Name string
	// Processes are what it runs in, Reconciler what it does there.
	Processes  Processes
	Reconciler Reconciler
}

// Processes are one or more processes of a controller.
type Processes interface {
	// Start runs them and returns once they would reconcile.
	Start(ctx context.Context) error
	// Running are those that run.
	Running() []*process.Process
	// Requests is how many requests they have sent to the API server since they started.
	Requests(ctx context.Context) (int, error)
	// Stop ends them.
	Stop() error
}

// Reconciler is what is required of a controller.
type Reconciler interface {
	// Follow has it apply a repository, and returns once it reports a commit as applied.
	Follow(ctx context.Context, r *Repository, commit string) error
	// Request has it read Git and reconcile now, as a person or a webhook does, and returns once it
	// reports that this is done and the commit applied.
	Request(ctx context.Context, r *Repository, commit string) error
	// Correct has it reconcile the first kustomization now, where it does not watch what it applied.
	Correct(ctx context.Context, r *Repository) error
	// Release has it give up a repository; what it applied stays.
	Release(ctx context.Context, r *Repository) error
}
