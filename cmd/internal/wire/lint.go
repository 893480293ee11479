package wire

import (
	"context"
	"fmt"

	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Lint checks a folder of a working copy without a cluster, against the schemas
// of our own kinds and of the embedded Karpenter's. It returns the findings,
// sorted by file and line, and how many objects the folder declares.
func Lint(ctx context.Context, folder string) ([]state.Problem, int, error) {
	d, err := load(ctx, folder)
	if err != nil {
		return nil, 0, fmt.Errorf("checking %s: %w", folder, err)
	}
	crds, err := ownCRDs()
	if err != nil {
		return nil, 0, err
	}
	theirs, err := engine.CRDs(engine.DefaultSettings())
	if err != nil {
		return nil, 0, err
	}
	return lint.Check(d, append(crds, theirs...)), d.Set.Len(), nil
}
