package simulate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// general is a pool of processors, without taints.
var general = strings.NewReplacer("metadata: {name: gpu}", "metadata: {name: general}", "taints: [{key: nvidia.com/gpu, effect: NoSchedule}]", "taints: []",
	"[g4dn.xlarge, g5.xlarge]", "[m5.large]", "{team: ml}", "{team: web}", "nvidia.com/gpu: 8", "cpu: 100").Replace(pool)

func TestTheReasonIsThatOfTheNearestPool(t *testing.T) {
	spec := func(text string) string {
		return strings.Replace(serve, "    spec:\n", "    spec:\n      "+text+"\n", 1)
	}
	with := func(of, old, new string) string {
		if !strings.Contains(of, old) {
			t.Fatalf("nothing is declared as %q", old)
		}
		return strings.Replace(of, old, new, 1)
	}
	tests := map[string]struct {
		pools    []string
		workload string
		want     string
	}{
		"more GPUs than a node has": {[]string{general, pool}, with(serve, "nvidia.com/gpu: 1", "nvidia.com/gpu: 8"),
			"NodePool gpu has at most 1 nvidia.com/gpu a node, and the pod requests 8"},
		"GPUs where the limit is used up": {[]string{general, with(pool, "nvidia.com/gpu: 8", "nvidia.com/gpu: 0")}, serve,
			"NodePool gpu has no capacity for another node under its limit of 0 nvidia.com/gpu"},
		"a pool that allows no type, chosen by its label": {[]string{pool, with(general, "m5.large", "t3.nano9")},
			with(spec("nodeSelector: {team: web}"), "nvidia.com/gpu: 1", "cpu: 1"), "NodePool general allows no instance type"},
		"a taint that is not tolerated": {[]string{general, tainted}, serve, "NodePool gpu has the taint x:NoSchedule, which the pod does not tolerate"},
		"a label that no pool has, of those with GPUs": {[]string{general, pool}, spec("nodeSelector: {team: vision}"),
			"NodePool gpu has no nodes with team In [vision], as the pod requires"},
		"a pool that there is not, of two alike": {[]string{pool, with(pool, "name: gpu", "name: other")}, spec("nodeSelector: {karpenter.sh/nodepool: gone}"),
			"NodePool gpu has no nodes with karpenter.sh/nodepool In [gone], as the pod requires; NodePool other has no nodes with karpenter.sh/nodepool In [gone], as the pod requires"},
		"more memory than a node has": {[]string{general}, with(serve, "nvidia.com/gpu: 1", "memory: 64Gi"),
			"NodePool general has at most 6903Mi memory a node, and the pod requests 64Gi"},
		"GPUs where there is none": {[]string{general}, serve, "NodePool general has no nvidia.com/gpu"},
		"what each type has alone and none together": {[]string{with(pool, "[g4dn.xlarge, g5.xlarge]", "[g4dn.xlarge, c6i.8xlarge]")},
			with(serve, "cpu: 1", "cpu: 16"), "NodePool gpu has no node for it: no instance type has enough resources"},
		"no pool at all": {nil, serve, "there is no NodePool that has nodes for pods"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := read(t, append([]string{class}, tt.pools...)...)
			got := compare(t, before, read(t, append([]string{class, tt.workload}, tt.pools...)...)).PodScheduling.Unschedulable
			if len(got) != 1 || !got[0].New {
				t.Fatalf("waiting: %+v", got)
			}
			if diff := cmp.Diff(tt.want, got[0].Reason); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
