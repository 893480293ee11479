package gate

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/internal/missingkind"
	"github.com/poolwright/poolwright/internal/plural"
)

// autoModeGroup is the API group of EKS Auto Mode's own kinds.
const autoModeGroup = "eks.amazonaws.com"

// autoMode refuses while EKS runs a Karpenter of its own on the same NodePools
// and NodeClaims.
func (g Gates) autoMode(ctx context.Context, cluster *ekstypes.Cluster, describeErr error) *ClosedGate {
	const remedy = "turn EKS Auto Mode off for this cluster and remove its NodePools and NodeClasses, or set spec.engine.mode to Off"
	const check = "allow eks:DescribeCluster, and list on nodepools.karpenter.sh and nodeclasses.eks.amazonaws.com"
	if describeErr != nil {
		return unproven(AutoMode, check, describeErr)
	}
	if c := cluster.ComputeConfig; c != nil && aws.ToBool(c.Enabled) {
		return refuse(AutoMode, remedy, "EKS Auto Mode is on for cluster %q: it runs the same kinds", g.Cluster)
	}
	pools := &karpv1.NodePoolList{}
	if err := missingkind.Ignore(g.Kube.List(ctx, pools)); err != nil {
		return unproven(AutoMode, check, fmt.Errorf("listing NodePools: %w", err))
	}
	var used []string
	for _, pool := range pools.Items {
		if ref := pool.Spec.Template.Spec.NodeClassRef; ref != nil && ref.Group == autoModeGroup {
			used = append(used, "NodePool "+pool.Name)
		}
	}
	classes := &metav1.PartialObjectMetadataList{}
	classes.SetGroupVersionKind(schema.GroupVersionKind{Group: autoModeGroup, Version: "v1", Kind: "NodeClassList"})
	if err := missingkind.Ignore(g.Kube.List(ctx, classes)); err != nil {
		return unproven(AutoMode, check, fmt.Errorf("listing NodeClasses: %w", err))
	}
	for _, class := range classes.Items {
		used = append(used, "NodeClass "+class.Name)
	}
	if len(used) > 0 {
		slices.Sort(used)
		return refuse(AutoMode, remedy, "kinds of EKS Auto Mode are in use: %s", plural.FirstOf(used, maxNamed, ", "))
	}
	return nil
}

// maxNamed is how many objects are named that keep a gate closed.
const maxNamed = 5
