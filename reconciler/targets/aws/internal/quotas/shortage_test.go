package quotas

import (
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/quota"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/kindtest"
)

func TestPoolsThatAQuotaIsTooSmallForTogetherAreWarnedOf(t *testing.T) {
	gpus := func(name, n string, requirements ...string) func(*testing.T) state.Item {
		return func(t *testing.T) state.Item { return nodePool(t, name, `{"nvidia.com/gpu":`+n+`}`, requirements...) }
	}
	xlarge := `{"key":"node.kubernetes.io/instance-type","operator":"In","values":["g5.xlarge"]}`
	for _, tt := range []struct {
		name   string
		pools  []func(*testing.T) state.Item
		limits map[string]float64
		// want are the warnings of the quota of G and VT on-demand.
		want []string
	}{
		{"each alone is within the quota, and both are not",
			[]func(*testing.T) state.Item{gpus("a", "10", xlarge, onDemandOnly), gpus("b", "8", xlarge, onDemandOnly)},
			map[string]float64{gOnDemand: 64},
			[]string{"NodePools a and b need at least 72 vCPUs together to reach their limits, the quota allows 64: request a quota increase (quota code L-DB2E81BA) or lower a limit"}},
		{"both together use the whole quota",
			[]func(*testing.T) state.Item{gpus("a", "8", xlarge, onDemandOnly), gpus("b", "8", xlarge, onDemandOnly)},
			map[string]float64{gOnDemand: 64}, nil},
		{"spot and on-demand are apart",
			[]func(*testing.T) state.Item{gpus("a", "16", xlarge, onDemandOnly), gpus("b", "16", xlarge, spotOnly)},
			map[string]float64{gOnDemand: 64, gSpot: 64}, nil},
		{"a pool of both goes where another leaves room",
			[]func(*testing.T) state.Item{gpus("a", "16", xlarge, onDemandOnly), gpus("b", "16", xlarge)},
			map[string]float64{gOnDemand: 64, gSpot: 64}, nil},
		{"a pool of both has no room where the others leave none",
			[]func(*testing.T) state.Item{gpus("a", "16", xlarge, onDemandOnly), gpus("b", "17", xlarge)},
			map[string]float64{gOnDemand: 64, gSpot: 64},
			[]string{"NodePools a and b need at least 132 vCPUs together to reach their limits, the quotas allow 128 in all: request a quota increase (quota codes L-3819A6DF, L-DB2E81BA) or lower a limit"}},
		{"only the smallest set that is short is named",
			[]func(*testing.T) state.Item{gpus("a", "10", xlarge, onDemandOnly), gpus("b", "8", xlarge, onDemandOnly), gpus("c", "16", xlarge)},
			map[string]float64{gOnDemand: 64, gSpot: 64},
			[]string{"NodePools a and b need at least 72 vCPUs together to reach their limits, the quota allows 64: request a quota increase (quota code L-DB2E81BA) or lower a limit"}},
		{"a pool without a limit counts for nothing",
			[]func(*testing.T) state.Item{
				gpus("a", "16", xlarge, onDemandOnly),
				func(t *testing.T) state.Item { return nodePool(t, "b", "", xlarge, onDemandOnly) },
			},
			map[string]float64{gOnDemand: 64}, nil},
		{"other families have quotas of their own",
			[]func(*testing.T) state.Item{
				gpus("a", "16", xlarge, onDemandOnly),
				func(t *testing.T) state.Item { return nodePool(t, "b", `{"cpu":64}`, family("m5"), onDemandOnly) },
			},
			map[string]float64{gOnDemand: 64, standardOnDemand: 64}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := kindtest.NewFixture(t, New(), func(c *sandboxaws.Config) { c.Quotas = tt.limits }, v1alpha1.ClusterSpec{Version: "1.33"})
			for _, pool := range tt.pools {
				l.Declared.Pools = append(l.Declared.Pools, pool(t))
			}
			var got []string
			for k, s := range l.ReadAll() {
				if s.Err != nil {
					t.Fatal(s.Err)
				}
				if k.Name == gOnDemand {
					got = kindtest.Texts(s.Warnings)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnInstanceIsOfADeclaredPoolByItsTags(t *testing.T) {
	pools := []quota.Pool{{Name: "gpu"}}
	for name, c := range map[string]struct {
		tags map[string]string
		want bool
	}{
		"of the pool":                       {map[string]string{"eks:eks-cluster-name": "dev", "karpenter.sh/nodepool": "gpu"}, true},
		"of a pool that is not declared":    {map[string]string{"eks:eks-cluster-name": "dev", "karpenter.sh/nodepool": "old"}, false},
		"of a pool of another cluster":      {map[string]string{"eks:eks-cluster-name": "prod", "karpenter.sh/nodepool": "gpu"}, false},
		"of a managed node group":           {map[string]string{"eks:cluster-name": "dev", "eks:nodegroup-name": "system"}, false},
		"without tags, such as a workplace": {nil, false},
	} {
		var tags []ec2types.Tag
		for k, v := range c.tags {
			tags = append(tags, ec2types.Tag{Key: sdk.String(k), Value: sdk.String(v)})
		}
		if got := ofPool(ec2types.Instance{Tags: tags}, "dev", pools); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
