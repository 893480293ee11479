package eks

import (
	"context"
	"fmt"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
)

// Version are the Kubernetes versions of EKS control planes:
//
//	version  "1.33"
type Version struct{ resource.ReadOnly }

// Desired implements resource.Kind.
func (Version) Desired(s resource.Declaration) []state.Item {
	if s.Spec.Version == "" {
		return nil
	}
	how := fmt.Sprintf("EKS versions only ever go up: where the cluster is newer, change spec.version, and where it is older, let the tool that owns the control plane do it, as by %s",
		s.Command("eks update-cluster-version", "--name", s.Cluster, "--kubernetes-version", s.Spec.Version))
	return []state.Item{s.CompareOnly(s.Regional("eks", "Version", s.Cluster), how, map[string]any{"version": s.Spec.Version})}
}

// Read implements resource.Kind.
func (Version) Read(ctx context.Context, c *resource.Clients, keys []state.Key) map[state.Key]resource.Live {
	return eachCluster(ctx, c, keys, func(k *ekstypes.Cluster) resource.Live {
		out := resource.Live{Object: map[string]any{"version": sdk.ToString(k.Version)}}
		if k.Status != ekstypes.ClusterStatusActive && k.Status != "" {
			out.Notes = append(out.Notes, finding.New(codeStatusNotActive, "the control plane is %s", finding.NewFact("status", k.Status)))
		}
		if k.Health != nil {
			for _, issue := range k.Health.Issues {
				out.Notes = append(out.Notes, finding.New(codeHealthIssue, "the control plane is not well: %s", finding.NewFact("issue", issue.Code)))
			}
		}
		return out
	})
}
