package simulate_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/simulate"
)

// busy is three nodes, one of them protected, and a pod that waits.
func busy(t testing.TB, documents ...string) provision.ClusterSnapshot {
	snapshot := three(t, documents...)
	budget(&snapshot, "pod-b", 0)
	pod(&snapshot, "waits", "", Requested("4"))
	return snapshot
}

func TestForecastsInFull(t *testing.T) {
	tests := map[string]func(t testing.TB) provision.ClusterSnapshot{
		"taints and a volume": func(t testing.TB) provision.ClusterSnapshot {
			return read(t, strings.Replace(pool, "taints: [", "taints: [{key: x, effect: NoSchedule}, ", 1), strings.Replace(class, "50Gi", "100Gi", 1))
		},
		"a narrower pool with a lower limit and shares": func(t testing.TB) provision.ClusterSnapshot {
			return read(t, strings.NewReplacer("[g4dn.xlarge, g5.xlarge]", "[g5.xlarge]", "nvidia.com/gpu: 8", "nvidia.com/gpu: 4").Replace(pool), class, slices8)
		},
		"a pool that goes and another that comes": func(t testing.TB) provision.ClusterSnapshot {
			return read(t, strings.NewReplacer("metadata: {name: gpu}", "metadata: {name: spot}", "[on-demand]", "[spot]").Replace(pool), class)
		},
	}
	tests["workloads beside a taint"] = func(t testing.TB) provision.ClusterSnapshot {
		return read(t, tainted, class, serve, sleeps, strings.ReplaceAll(serve, "serve", "new"), strings.Replace(strings.ReplaceAll(serve, "serve", "bold"), "    spec:\n", "    spec:\n      tolerations: [{operator: Exists}]\n", 1))
	}
	for name, after := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := json.MarshalIndent(compare(t, busy(t, pool, class, serve, sleeps), after(t)), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, "testdata/"+strings.ReplaceAll(name, " ", "-")+".json", append(got, '\n'))
		})
	}
}

// sleeps is a Deployment that goes to zero.
var sleeps = strings.NewReplacer("serve", "sleeps", "replicas: 2", "replicas: 0").Replace(serve)

func TestEqualInputGivesEqualOutputAndIsNotChanged(t *testing.T) {
	before := busy(t, pool, class, serve, sleeps)
	after := read(t, strings.Replace(tainted, "{team: ml}", "{team: vision}", 1), strings.Replace(class, "50Gi", "60Gi", 1), slices8, serve, sleeps,
		strings.ReplaceAll(serve, "serve", "new"), strings.ReplaceAll(sleeps, "sleeps", "rests"))
	was, err := json.Marshal([]any{before, after})
	if err != nil {
		t.Fatal(err)
	}
	var first []byte
	for range 5 {
		got, err := json.Marshal(compare(t, before, after))
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = got
		}
		if diff := cmp.Diff(string(first), string(got)); diff != "" {
			t.Fatal(diff)
		}
	}
	if is, err := json.Marshal([]any{before, after}); err != nil || !bytes.Equal(was, is) {
		t.Errorf("the snapshots were changed (%v)", err)
	}
}

func TestInvalidObjectsAreReportedAndStopNothing(t *testing.T) {
	tests := map[string]struct{ old, new, want string }{
		"a kubelet quantity that is none": {
			"  role: nodes", "  role: nodes\n  kubelet: {evictionHard: {memory.available: 'x%'}}", "EC2NodeClass gpu: what its nodes hold cannot be reckoned"},
		"a requirement of a number that is none": {
			"{key: kubernetes.io/os, operator: In, values: [linux]}", "{key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: [many]}", ""},
		"an operator that there is not": {
			"{key: kubernetes.io/os, operator: In, values: [linux]}", "{key: kubernetes.io/os, operator: Like, values: [linux]}", ""},
		"a schedule that is none": {
			"consolidateAfter: 1m", "consolidateAfter: 1m, budgets: [{nodes: '1', schedule: 'never ever', duration: 1h}]", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := compare(t, busy(t, pool, class), read(t, strings.Replace(pool, tt.old, tt.new, 1), strings.Replace(class, tt.old, tt.new, 1)))
			if all := strings.Join(texts(got.Unknown), "\n"); !strings.Contains(all, tt.want) {
				t.Errorf("unknown: %s", all)
			}
		})
	}
}

func TestAContextWithoutOptionsIsAnError(t *testing.T) {
	before := busy(t, pool, class)
	_, err := simulate.Compare(t.Context(), before, before, prices(t, "g4dn", "g5"))
	if err == nil || !strings.Contains(err.Error(), "engine.Offline") {
		t.Errorf("the error is %v", err)
	}
}

func TestTheReasonsAreKarpenters(t *testing.T) {
	// A claim that Karpenter marked for what only AWS tells is told as it says.
	before := read(t, pool, class)
	claim, _ := run(&before, "gpu", "a", time.Hour)
	claim.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDrifted, "AMIDrift", "AMIDrift")
	got := compare(t, before, before)
	if diff := cmp.Diff([]string{"a AMIDrift []"}, replacedText(got.Drifted)); diff != "" {
		t.Error(diff)
	}
}
