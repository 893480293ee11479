package simulate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision"
)

// three is three nodes of one pool, each with a pod, the oldest called a.
func three(t testing.TB, documents ...string) provision.ClusterSnapshot {
	snapshot := read(t, documents...)
	for i, name := range []string{"a", "b", "c"} {
		run(&snapshot, "gpu", name, time.Duration(3-i)*time.Hour)
		pod(&snapshot, "pod-"+name, "node-"+name)
	}
	return snapshot
}

func TestWhatIsReplacedAndWhy(t *testing.T) {
	all := func(reason, field string) []string {
		return []string{"a " + reason + " [" + field + "]", "b " + reason + " [" + field + "]", "c " + reason + " [" + field + "]"}
	}
	tests := map[string]struct {
		old, new string
		want     []string
	}{
		"a taint more replaces every node": {
			"taints: [{key: nvidia.com/gpu, effect: NoSchedule}]", "taints: [{key: nvidia.com/gpu, effect: NoSchedule}, {key: x, effect: NoExecute}]",
			all("NodePoolDrifted", "NodePool/gpu spec.template.spec.taints")},
		"another label replaces every node": {
			"{team: ml}", "{team: vision}", all("NodePoolDrifted", "NodePool/gpu spec.template.metadata.labels")},
		"a bigger volume of the class replaces every node": {
			"volumeSize: 50Gi", "volumeSize: 100Gi", all("NodeClassDrift", "EC2NodeClass/gpu spec.blockDeviceMappings")},
		"a default written out replaces nothing": {
			"      taints:", "      expireAfter: 720h\n      taints:", []string{}},
		"another life span replaces every node": {
			"      taints:", "      expireAfter: Never\n      taints:", all("NodePoolDrifted", "NodePool/gpu spec.template.spec.expireAfter")},
		"requirements narrowed to another type replace the nodes of this type": {
			"[g4dn.xlarge, g5.xlarge]", "[g5.xlarge]", all("RequirementsDrifted", "NodePool/gpu spec.template.spec.requirements")},
		"requirements widened replace nothing": {
			"[g4dn.xlarge, g5.xlarge]", "[g4dn.xlarge, g5.xlarge, g6.xlarge]", []string{}},
		"a lower limit replaces nothing":         {"nvidia.com/gpu: 8", "nvidia.com/gpu: 1", []string{}},
		"a weight replaces nothing":              {"  limits:", "  weight: 10\n  limits:", []string{}},
		"another consolidation replaces nothing": {"consolidateAfter: 1m", "consolidateAfter: 5m, consolidationPolicy: WhenEmpty", []string{}},
		"budgets replace nothing":                {"consolidateAfter: 1m", "consolidateAfter: 1m, budgets: [{nodes: '1'}]", []string{}},
		"the same image family by another version is for AWS to resolve": {
			"al2023@v20261001", "al2023@v20261101", []string{}},
		"another image by id replaces every node": {
			"amiSelectorTerms: [{alias: al2023@v20261001}]", "amiFamily: AL2023\n  amiSelectorTerms: [{id: ami-2}]", all("AMIDrift", "EC2NodeClass/gpu spec.amiSelectorTerms")},
		"another security group by id replaces every node": {
			"{id: sg-1}", "{id: sg-2}", all("SecurityGroupDrift", "EC2NodeClass/gpu spec.securityGroupSelectorTerms")},
		"a subnet that no node is in may go": {
			"{tags: {cluster: c}}", "{id: subnet-a}", []string{}},
		"the subnets of the nodes' zone going replace every node": {
			"{tags: {cluster: c}}", "{id: subnet-b}", all("SubnetDrift", "EC2NodeClass/gpu spec.subnetSelectorTerms")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(pool+class, tt.old) {
				t.Fatalf("nothing is declared as %q", tt.old)
			}
			after := read(t, strings.Replace(pool, tt.old, tt.new, 1), strings.Replace(class, tt.old, tt.new, 1))
			for _, c := range after.NodeClasses {
				c.Status.Subnets, c.Status.SecurityGroups = nil, nil // as a declaration is
			}
			got := compare(t, three(t, pool, class), after)
			if diff := cmp.Diff(tt.want, replacedText(got.Replaced)); diff != "" {
				t.Errorf("replaced (-want +got):\n%s", diff)
			}
			if len(got.Drifted) != 0 {
				t.Errorf("drifted already: %v", replacedText(got.Drifted))
			}
			if len(got.Pools) != 1 || got.Pools[0].Nodes != 3 || got.Pools[0].Replaced != len(tt.want) {
				t.Errorf("pools: %+v", got.Pools)
			}
			if tt.old != "      taints:" && len(got.Pools[0].Changes) == 0 {
				t.Errorf("no change is told")
			}
		})
	}
}
