package wire

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/target/aws"
)

// Lint checks a folder of a working copy without a cluster, against the schemas
// of our own kinds and of the embedded Karpenter's, and what the Cluster asks of
// AWS as far as no request is needed. It returns the findings, sorted by file and
// line, and how many objects the folder declares.
func Lint(ctx context.Context, folder string) ([]state.Problem, int, error) {
	d, err := load(ctx, folder)
	if err != nil {
		return nil, 0, fmt.Errorf("checking %s: %w", folder, err)
	}
	crds, err := knownCRDs()
	if err != nil {
		return nil, 0, err
	}
	return lint.Sorted(append(lint.Check(d, crds), aws.Check(d.Set)...)), d.Set.Len(), nil
}

// knownCRDs are the definitions of our own kinds and of Karpenter's.
func knownCRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	ours, err := ownCRDs()
	if err != nil {
		return nil, err
	}
	theirs, err := engine.CRDs(engine.DefaultSettings())
	if err != nil {
		return nil, err
	}
	return append(ours, theirs...), nil
}
