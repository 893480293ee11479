package engine

import (
	"context"
	"fmt"
	"slices"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	coreapis "sigs.k8s.io/karpenter/pkg/apis"

	"github.com/poolwright/poolwright/provision/engine/crdinstall"
)

// KarpenterVersion is the embedded Karpenter's version, core and AWS provider; a
// test compares it with the module that is linked.
const KarpenterVersion = "1.15.2"

// CRDKept is a CRD that InstallCRDs left as it is because it is newer.
type CRDKept struct {
	// Name is the CRD's name.
	Name string
	// Reason is why it is not replaced.
	Reason string
}

// CRDs are the kinds that the engine works on: the AWS provider's NodePool,
// NodeClaim, NodeOverlay and EC2NodeClass (its versions of Karpenter's kinds are
// stricter than the core's), and the core's CapacityBuffer where that gate is on.
// The caller may change them.
func CRDs(s Settings) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	kinds := []string{"NodePool", "NodeClaim", "NodeOverlay", "EC2NodeClass"}
	if resolveGates(s.FeatureGates).core.CapacityBuffer {
		kinds = append(kinds, "CapacityBuffer")
	}
	// Karpenter has parsed them when the process started: a copy takes a tenth of the time of reading their YAML.
	parsed := slices.Concat(awsapis.CRDs, coreapis.CRDs)
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, kind := range kinds {
		at := slices.IndexFunc(parsed, func(crd *apiextensionsv1.CustomResourceDefinition) bool { return crd.Spec.Names.Kind == kind })
		if at < 0 {
			return nil, fmt.Errorf("reading an embedded CRD: the linked Karpenter has none of the kind %s", kind)
		}
		crd := parsed[at].DeepCopy()
		if crd.Annotations == nil {
			crd.Annotations = map[string]string{}
		}
		crd.Annotations[crdinstall.VersionAnnotation] = KarpenterVersion
		all = append(all, crd)
	}
	return all, nil
}

// InstallCRDs creates or updates the engine's CRDs and waits until they are
// served. It never downgrades: it leaves a CRD alone when its annotation names a
// newer Karpenter, or when, whoever wrote it, it has a version or a field that
// ours lacks, because replacing it would lose what objects have there. Those it
// returns. The client's scheme must have apiextensions.k8s.io/v1 and have no cache.
func InstallCRDs(ctx context.Context, c client.Client, s Settings) ([]CRDKept, error) {
	crds, err := CRDs(s)
	if err != nil {
		return nil, err
	}
	var kept []CRDKept
	for _, crd := range crds {
		because, err := crdinstall.Install(ctx, c, crd)
		if err != nil {
			return kept, err
		}
		if because != "" {
			kept = append(kept, CRDKept{Name: crd.Name, Reason: because})
		}
	}
	for _, crd := range crds {
		if err := crdinstall.WaitServed(ctx, c, crd.Name); err != nil {
			return kept, err
		}
	}
	return kept, nil
}
