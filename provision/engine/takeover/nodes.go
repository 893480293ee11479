package takeover

import (
	"context"
	"fmt"
	"maps"
	"slices"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/provision/engine"
)

// nodeSources is what the nodes were made from.
type nodeSources struct {
	pools   map[string]*karpv1.NodePool
	classes map[string]*awsv1.EC2NodeClass
	// authority is the engine's; nil skips comparing classes.
	authority *string
}

// nodes counts the nodes, and finds those that the engine would replace by their
// drift hashes, computed by Karpenter's own functions from the live objects.
func (w *comparer) nodes(ctx context.Context, authority string) error {
	var claims karpv1.NodeClaimList
	if err := w.kube.List(ctx, &claims); err != nil {
		return fmt.Errorf("listing NodeClaims: %w", err)
	}
	f, err := w.nodeSources(ctx, authority)
	if err != nil {
		return err
	}
	why := map[string][]string{}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if ref := claim.Spec.NodeClassRef; ref == nil || ref.Group != awsapis.Group {
			continue
		}
		w.out.Nodes++
		if reason := f.replaced(claim); reason != "" {
			why[reason] = append(why[reason], claim.Name)
		} else if f.complete(claim) {
			w.out.kept++
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(why)) {
		names := why[reason]
		slices.Sort(names)
		w.reportReplaced(reason, names)
	}
	if left := w.out.Nodes - w.out.kept; len(why) == 0 && left > 0 {
		w.differs("make sure that their NodePools and EC2NodeClasses exist, and kube-system's ConfigMap kube-root-ca.crt",
			"not compared, for what %s were made from, or the cluster's CA, is not there", nodeClaims(left))
	} else if len(why) == 0 && w.out.Nodes > 0 {
		w.out.Equal = append(w.out.Equal, fmt.Sprintf("drift hashes (NodePools %s, EC2NodeClasses %s)", karpv1.NodePoolHashVersion, awsv1.EC2NodeClassHashVersion))
	}
	return nil
}

// Why a node would be replaced, as map keys in the order of the report.
const (
	already   = "already"
	byClass   = "class"
	byPool    = "pool"
	byVersion = "version"
)

func (w *comparer) reportReplaced(reason string, names []string) {
	claims := fmt.Sprintf("%d of %s (%s)", len(names), nodeClaims(w.out.Nodes), plural.FirstOf(names, 3, ", "))
	switch reason {
	case already:
		w.differs("nothing, or let it finish first", "drifted already: %s, which whoever runs them replaces", claims)
	case byClass:
		w.blocking("make sure that its "+caBundle+" is the controller's, and that nobody edits the classes at this moment",
			"made from another EC2NodeClass, or with another CA bundle, than the engine reads, and so replaced: %s", claims)
	case byPool:
		w.blocking("let it finish first, or undo the change of the NodePool", "made from another NodePool than there is now, and so replaced: %s", claims)
	case byVersion:
		w.differs("nothing", "with drift hashes of another version, which Karpenter %[2]s writes anew: %[1]s", claims, engine.KarpenterVersion)
	}
}

// nodeSources reads what nodes were made from.
func (w *comparer) nodeSources(ctx context.Context, authority string) (nodeSources, error) {
	f := nodeSources{pools: map[string]*karpv1.NodePool{}, classes: map[string]*awsv1.EC2NodeClass{}}
	if authority != "" {
		f.authority = &authority
	}
	var pools karpv1.NodePoolList
	if err := w.kube.List(ctx, &pools); err != nil {
		return f, fmt.Errorf("listing NodePools: %w", err)
	}
	for i := range pools.Items {
		f.pools[pools.Items[i].Name] = &pools.Items[i]
	}
	var classes awsv1.EC2NodeClassList
	if err := w.kube.List(ctx, &classes); err != nil {
		return f, fmt.Errorf("listing EC2NodeClasses: %w", err)
	}
	for i := range classes.Items {
		engine.ReplaceInvalidAliases(&classes.Items[i])
		f.classes[classes.Items[i].Name] = &classes.Items[i]
	}
	return f, nil
}

// replaced is why the engine would replace a node, or empty. Karpenter compares only
// hashes of its own version; it writes others anew.
func (f nodeSources) replaced(claim *karpv1.NodeClaim) string {
	if drifted := claim.StatusConditions().Get(karpv1.ConditionTypeDrifted); drifted != nil && drifted.IsTrue() {
		return already
	}
	notes := claim.Annotations
	older := false
	if pool := f.pools[claim.Labels[karpv1.NodePoolLabelKey]]; pool != nil {
		if notes[karpv1.NodePoolHashVersionAnnotationKey] != karpv1.NodePoolHashVersion {
			older = true
		} else if notes[karpv1.NodePoolHashAnnotationKey] != pool.Hash() {
			return byPool
		}
	}
	if class := f.classes[claim.Spec.NodeClassRef.Name]; class != nil && f.authority != nil {
		if notes[awsv1.AnnotationEC2NodeClassHashVersion] != awsv1.EC2NodeClassHashVersion {
			older = true
		} else if notes[awsv1.AnnotationEC2NodeClassHash] != class.Hash(f.authority) {
			return byClass
		}
	}
	if older {
		return byVersion
	}
	return ""
}

// complete reports whether all is there that a node was made from.
func (f nodeSources) complete(claim *karpv1.NodeClaim) bool {
	return f.authority != nil && f.pools[claim.Labels[karpv1.NodePoolLabelKey]] != nil && f.classes[claim.Spec.NodeClassRef.Name] != nil
}
