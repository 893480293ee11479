package quotas

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/kindtest"
)

const (
	standardOnDemand = "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"
	gOnDemand        = "Running On-Demand G and VT instances"
	pOnDemand        = "Running On-Demand P instances"
	standardSpot     = "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests"
	gSpot            = "All G and VT Spot Instance Requests"
	oldPSpot         = "All P4, P3 and P2 Spot Instance Requests"
	newPSpot         = "All P5 Spot Instance Requests"
)

func TestInstancesThatNoVCPUQuotaLimitsAreNotCounted(t *testing.T) {
	for _, tt := range []struct {
		name     string
		instance ec2types.Instance
		want     string
	}{
		{"on demand", ec2types.Instance{InstanceType: "g5.xlarge"}, gOnDemand},
		{"spot", ec2types.Instance{InstanceType: "g5.xlarge", InstanceLifecycle: "spot"}, gSpot},
		{"a capacity block", ec2types.Instance{InstanceType: "p5.48xlarge", InstanceLifecycle: "capacity-block"}, ""},
		{"on a dedicated host", ec2types.Instance{InstanceType: "m5.large", Placement: &ec2types.Placement{Tenancy: "host"}}, ""},
		{"of dedicated tenancy", ec2types.Instance{InstanceType: "m5.large", Placement: &ec2types.Placement{Tenancy: "dedicated"}}, standardOnDemand},
	} {
		if got, _ := counts(tt.instance); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	types, err := New().table()
	if err != nil {
		t.Fatal(err)
	}
	for want, i := range map[int64]ec2types.Instance{
		4: {InstanceType: "g5.xlarge", CpuOptions: &ec2types.CpuOptions{CoreCount: sdk.Int32(1), ThreadsPerCore: sdk.Int32(1)}},
		6: {InstanceType: "g99.xlarge", CpuOptions: &ec2types.CpuOptions{CoreCount: sdk.Int32(3), ThreadsPerCore: sdk.Int32(2)}},
		0: {InstanceType: "g99.xlarge"},
	} {
		if got := vcpusOf(i, types); got != want {
			t.Errorf("%s has %d vCPUs, want %d", i.InstanceType, got, want)
		}
	}
}

// nodePool is a declared NodePool, written as in a repository.
func nodePool(t *testing.T, name, limits string, requirements ...string) state.Item {
	t.Helper()
	if limits == "" {
		limits = "{}"
	}
	text := fmt.Sprintf(`{"spec":{"limits":%s,"template":{"spec":{"requirements":[%s]}}}}`, limits, strings.Join(requirements, ","))
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return state.Item{Key: state.Key{Target: "kubernetes", Group: "karpenter.sh", Kind: "NodePool", Name: name}, Object: object}
}

const (
	onDemandOnly = `{"key":"karpenter.sh/capacity-type","operator":"In","values":["on-demand"]}`
	spotOnly     = `{"key":"karpenter.sh/capacity-type","operator":"NotIn","values":["on-demand","reserved"]}`
)

func family(names ...string) string {
	return fmt.Sprintf(`{"key":"karpenter.k8s.aws/instance-family","operator":"In","values":["%s"]}`, strings.Join(names, `","`))
}

func TestTheQuotasThatAPoolCanUseAreRead(t *testing.T) {
	c, _ := kindtest.NewCloud(t, nil)
	version := v1alpha1.ClusterSpec{Version: "1.33"}
	for _, tt := range []struct {
		name         string
		requirements []string
		want         []string
	}{
		{"a family on demand", []string{family("g5"), onDemandOnly}, []string{gOnDemand}},
		{"a family, spot", []string{family("g5"), spotOnly}, []string{gSpot}},
		{"a family at any price", []string{family("g5")}, []string{gSpot, gOnDemand}},
		{"a type", []string{`{"key":"node.kubernetes.io/instance-type","operator":"In","values":["p4d.24xlarge"]}`, spotOnly}, []string{oldPSpot}},
		{"a category", []string{`{"key":"karpenter.k8s.aws/instance-category","operator":"In","values":["p"]}`, onDemandOnly}, []string{pOnDemand}},
		{"all but categories", []string{`{"key":"karpenter.k8s.aws/instance-category","operator":"NotIn","values":["p","g","gr"]}`, onDemandOnly}, []string{gOnDemand, standardOnDemand}}, // vt1 counts against G and VT
		{"all but all of a quota", []string{`{"key":"karpenter.k8s.aws/instance-category","operator":"NotIn","values":["p","g","gr","vt"]}`, onDemandOnly}, []string{standardOnDemand}},
		{"GPUs of a model", []string{`{"key":"karpenter.k8s.aws/instance-gpu-name","operator":"In","values":["h100"]}`, onDemandOnly}, []string{pOnDemand}},
		{"anything without GPUs", []string{`{"key":"karpenter.k8s.aws/instance-gpu-count","operator":"DoesNotExist"}`, onDemandOnly}, []string{gOnDemand, standardOnDemand}},
		{"many GPUs", []string{`{"key":"karpenter.k8s.aws/instance-gpu-count","operator":"Gte","values":["8"]}`, `{"key":"karpenter.k8s.aws/instance-generation","operator":"Lt","values":["4"]}`, onDemandOnly}, []string{pOnDemand}},
		{"keys that are of no quota", []string{family("m5"), onDemandOnly, `{"key":"team","operator":"In","values":["ml"]}`, `{"key":"topology.kubernetes.io/zone","operator":"Exists"}`}, []string{standardOnDemand}},
		{"an empty choice", []string{family("none")}, nil},
		{"an operator with too many values", []string{`{"key":"karpenter.k8s.aws/instance-cpu","operator":"Gt","values":["1","2"]}`}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := kindtest.Defaulted(c, version)
			s.Pools = []state.Item{nodePool(t, "gpu", "", tt.requirements...)}
			items := New().Desired(s)
			if diff := cmp.Diff(tt.want, kindtest.Names(items)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, item := range items {
				if item.ReadOnly != "" || len(item.Object) != 0 || item.Key.Namespace != "us-east-1" {
					t.Errorf("%+v", item)
				}
			}
		})
	}
	s := kindtest.Defaulted(c, version)
	broken := nodePool(t, "gpu", "", family("g5"))
	broken.Object["spec"] = "nonsense"
	s.Pools = []state.Item{broken}
	if got := New().Desired(s); len(got) > 0 {
		t.Errorf("of a pool that cannot be read: %v", kindtest.Names(got))
	}
}

func TestQuotasAreReadWhereTheClusterHasARoleInAWS(t *testing.T) {
	c, _ := kindtest.NewCloud(t, nil)
	for _, tt := range []struct {
		name string
		spec v1alpha1.ClusterSpec
		want bool
	}{
		{"the engine runs here, and nothing else is declared", v1alpha1.ClusterSpec{}, true},
		{"the engine runs elsewhere", v1alpha1.ClusterSpec{Engine: v1alpha1.EngineSpec{Mode: v1alpha1.EngineExternal}}, false},
		{"there is no engine", v1alpha1.ClusterSpec{Engine: v1alpha1.EngineSpec{Mode: v1alpha1.EngineOff}}, false},
		{"there is no engine, and a part of AWS is declared", v1alpha1.ClusterSpec{Version: "1.33", Engine: v1alpha1.EngineSpec{Mode: v1alpha1.EngineOff}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := kindtest.Defaulted(c, tt.spec)
			s.Pools = []state.Item{nodePool(t, "gpu", "", family("g5"))}
			if got := New().Desired(s); (len(got) > 0) != tt.want {
				t.Errorf("desired: %v", kindtest.Names(got))
			}
		})
	}
}

func TestPoolsThatAQuotaIsTooSmallForAreWarnedOf(t *testing.T) {
	for _, tt := range []struct {
		name   string
		pool   func(*testing.T) state.Item
		limits map[string]float64
		want   map[string][]string
	}{
		{
			"a limit of GPUs beyond the quota",
			func(t *testing.T) state.Item {
				return nodePool(t, "gpu", `{"nvidia.com/gpu":8}`, `{"key":"node.kubernetes.io/instance-type","operator":"In","values":["g5.48xlarge","g5.12xlarge"]}`, onDemandOnly)
			},
			map[string]float64{gOnDemand: 64},
			map[string][]string{gOnDemand: {"Warning: NodePool gpu needs at least 96 vCPUs to reach its limit of 8 nvidia.com/gpu, the quota allows 64: request a quota increase (quota code L-DB2E81BA) or lower the limit", "of 64 vCPUs, 0 are used"}},
		},
		{
			"a limit of GPUs within the quota",
			func(t *testing.T) state.Item {
				return nodePool(t, "gpu", `{"nvidia.com/gpu":"8"}`, family("g5"), onDemandOnly)
			},
			map[string]float64{gOnDemand: 64},
			map[string][]string{gOnDemand: {"of 64 vCPUs, 0 are used"}},
		},
		{
			"a limit of CPUs beyond the quota",
			func(t *testing.T) state.Item { return nodePool(t, "web", `{"cpu":"1k"}`, family("m5"), onDemandOnly) },
			map[string]float64{standardOnDemand: 500},
			map[string][]string{standardOnDemand: {"Warning: NodePool web needs at least 1000 vCPUs to reach its limit of 1000 CPUs, the quota allows 500: request a quota increase (quota code L-1216C47A) or lower the limit", "of 500 vCPUs, 0 are used"}},
		},
		{
			"one of two limits within the quota",
			func(t *testing.T) state.Item {
				return nodePool(t, "gpu", `{"cpu":"1000","nvidia.com/gpu":2}`, family("g5"), onDemandOnly)
			},
			map[string]float64{gOnDemand: 64},
			map[string][]string{gOnDemand: {"of 64 vCPUs, 0 are used"}},
		},
		{
			"two quotas that suffice together",
			func(t *testing.T) state.Item { return nodePool(t, "gpu", `{"cpu":100}`, family("g5")) },
			map[string]float64{gOnDemand: 64, gSpot: 64},
			map[string][]string{gOnDemand: {"of 64 vCPUs, 0 are used"}, gSpot: {"of 64 vCPUs, 0 are used"}},
		},
		{
			"two quotas that do not",
			func(t *testing.T) state.Item { return nodePool(t, "gpu", `{"cpu":100}`, family("g5")) },
			map[string]float64{gOnDemand: 32, gSpot: 64},
			map[string][]string{
				gOnDemand: {"Warning: NodePool gpu needs at least 100 vCPUs to reach its limit of 100 CPUs, the quotas allow 96 in all: request a quota increase (quota codes L-3819A6DF, L-DB2E81BA) or lower the limit", "of 32 vCPUs, 0 are used"},
				gSpot:     {"Warning: NodePool gpu needs at least 100 vCPUs to reach its limit of 100 CPUs, the quotas allow 96 in all: request a quota increase (quota codes L-3819A6DF, L-DB2E81BA) or lower the limit", "of 64 vCPUs, 0 are used"},
			},
		},
		{
			"no node at all",
			func(t *testing.T) state.Item { return nodePool(t, "gpu", "", family("p5"), onDemandOnly) },
			map[string]float64{pOnDemand: 0},
			map[string][]string{pOnDemand: {"Warning: NodePool gpu can have no node: its smallest instance type p5.4xlarge has 16 vCPUs, the quota allows 0: request a quota increase (quota code L-417A185B)", "of 0 vCPUs, 0 are used"}},
		},
		{
			"no limit",
			func(t *testing.T) state.Item { return nodePool(t, "gpu", "", family("g5"), onDemandOnly) },
			map[string]float64{gOnDemand: 4},
			map[string][]string{gOnDemand: {"of 4 vCPUs, 0 are used"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := kindtest.NewFixture(t, New(), func(c *sandboxaws.Config) { c.Quotas = tt.limits }, v1alpha1.ClusterSpec{Version: "1.33"})
			l.Declared.Pools = []state.Item{tt.pool(t)}
			got := map[string][]string{}
			for k, s := range l.ReadAll() {
				if s.Err != nil {
					t.Fatal(s.Err)
				}
				for _, text := range kindtest.Texts(s.Warnings) {
					got[k.Name] = append(got[k.Name], "Warning: "+text)
				}
				got[k.Name] = append(got[k.Name], kindtest.Texts(s.Notes)...)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestQuotasAreComparedAndNeverDiffer(t *testing.T) {
	l := kindtest.NewFixture(t, New(), func(c *sandboxaws.Config) { c.Quotas = map[string]float64{standardSpot: 64} }, v1alpha1.ClusterSpec{Version: "1.33"})
	l.Declared.Pools = []state.Item{nodePool(t, "gpu", "", family("m5"), spotOnly)}
	item := l.Items()[0]
	kindtest.SpotInstance(l)
	got := l.ReadOne(item)
	types, err := New().table()
	l.Do(types, err)
	if got.Object["limitVCPUs"] != int64(64) || got.Object["usedVCPUs"] != int64(2) || got.Ours || got.UID != "" {
		t.Errorf("ours %v, %v", got.Ours, got.Object)
	}
	if !slices.Equal(kindtest.Texts(got.Notes), []string{"of 64 vCPUs, 2 are used"}) {
		t.Errorf("notes %q", got.Notes)
	}
	if bad := l.Differences(); len(bad) > 0 {
		t.Errorf("%v differ", bad)
	}
	l.Requests(map[string]int{"ListServiceQuotas": 1, "DescribeInstances": 1, "DescribeCapacityReservations": 1})
	l.Deny("servicequotas", "ListServiceQuotas")
	l.Deny("ec2", "DescribeInstances")
	if err := l.Write(t.Context(), l.Clients, item, got); err == nil {
		t.Error("a quota was written")
	}
	if err := l.Remove(t.Context(), l.Clients, item.Key, got); err != nil {
		t.Error(err)
	}
}

func TestUnusedCapacityReservationsAreCounted(t *testing.T) {
	reservedToo := `{"key":"karpenter.sh/capacity-type","operator":"In","values":["on-demand","reserved"]}`
	for _, tt := range []struct {
		name          string
		requirement   string
		reservation   sandboxaws.Reservation
		used, already int64
	}{
		{"that no pool may use", onDemandOnly, sandboxaws.Reservation{Total: 3}, 12, 12},
		{"that a pool may use", reservedToo, sandboxaws.Reservation{Total: 3}, 12, 0},
		{"but no Capacity Blocks", onDemandOnly, sandboxaws.Reservation{Total: 3, CapacityBlock: true, Targeted: true, End: time.Now().Add(time.Hour)}, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := kindtest.NewFixture(t, New(), func(c *sandboxaws.Config) { c.Quotas = map[string]float64{gOnDemand: 64} }, v1alpha1.ClusterSpec{Version: "1.33"})
			l.Declared.Pools = []state.Item{nodePool(t, "gpu", "", family("g5"), tt.requirement)}
			tt.reservation.Type, tt.reservation.Zone = "g5.xlarge", "us-east-1a"
			if _, err := l.Cloud.AddReservation(tt.reservation); err != nil {
				t.Fatal(err)
			}
			got := l.ReadOne(l.Items()[0])
			if got.Object["usedVCPUs"] != tt.used || got.Quota.UsedVCPUs != tt.already {
				t.Errorf("%v are used, and %d are taken", got.Object["usedVCPUs"], got.Quota.UsedVCPUs)
			}
		})
	}
}

func TestWhatAPoolUsesThatIsNotDeclaredIsNamed(t *testing.T) {
	l := kindtest.NewFixture(t, New(), func(c *sandboxaws.Config) { c.Quotas = map[string]float64{standardSpot: 64} }, v1alpha1.ClusterSpec{Version: "1.33"})
	l.Declared.Pools = []state.Item{nodePool(t, "new", "", family("m5"), spotOnly)}
	item := l.Items()[0]
	id := kindtest.SpotInstance(l)
	kindtest.SpotInstance(l) // Of no pool.
	l.Do(l.Clients.EC2.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{id}, Tags: []ec2types.Tag{
		{Key: sdk.String("eks:eks-cluster-name"), Value: sdk.String(l.Clients.Scope.Cluster)}, {Key: sdk.String("karpenter.sh/nodepool"), Value: sdk.String("old")},
	}}))
	got := l.ReadOne(item).Quota
	if got == nil || got.UsedVCPUs != 4 || len(got.UsedBy) != 1 || got.UsedBy["old"] != 2 {
		t.Errorf("got %+v", got)
	}
}

func TestAQuotaThatTheAccountHasNoValueOfIsAWSsDefault(t *testing.T) {
	l := kindtest.NewFixture(t, New(), func(c *sandboxaws.Config) { c.Quotas = map[string]float64{standardSpot: 64} }, v1alpha1.ClusterSpec{Version: "1.33"})
	l.Declared.Pools = []state.Item{nodePool(t, "gpu", "", family("m5"))}
	if err := l.Cloud.UnsetQuota(standardOnDemand); err != nil {
		t.Fatal(err)
	}
	for k, got := range l.ReadAll() {
		if byDefault := strings.Contains(fmt.Sprint(got.Notes), "AWS's default"); got.Err != nil || byDefault != (k.Name == standardOnDemand) || got.Object["limitVCPUs"] == nil {
			t.Errorf("%s: %v, %v, %q", k.Name, got.Err, got.Object, got.Notes)
		}
	}
	if _, err := l.Cloud.Inject(sandboxaws.Fault{Service: "servicequotas", Operation: "ListAWSDefaultServiceQuotas", Code: "AccessDeniedException"}); err != nil {
		t.Fatal(err)
	}
	for k, got := range l.ReadAll() {
		if awserr.Denied(got.Err) != (k.Name == standardOnDemand) || got.Err == nil && got.Quota == nil {
			t.Errorf("%s, denied: %v, %+v", k.Name, got.Err, got.Quota)
		}
	}
}

func TestAWarningNamesWhereItsPoolIsDeclared(t *testing.T) {
	l := kindtest.NewFixture(t, New(), func(c *sandboxaws.Config) { c.Quotas = map[string]float64{pOnDemand: 0} }, v1alpha1.ClusterSpec{Version: "1.33"})
	pool := nodePool(t, "gpu", "", family("p5"), onDemandOnly)
	for _, line := range []int{3, 7} { // of the same pool, which moved
		pool.Origin = state.Origin{File: "pools/gpu.yaml", Line: line}
		l.Declared.Pools = []state.Item{pool}
		for _, got := range l.ReadAll() {
			if want := fmt.Sprintf("NodePool gpu (pools/gpu.yaml:%d) can have no node", line); got.Err != nil || !strings.HasPrefix(got.Warnings[0].Text, want) {
				t.Errorf("%v, %q", got.Err, got.Notes)
			}
		}
	}
}

func TestAQuotaThatAWSDoesNotNameIsANote(t *testing.T) {
	l := kindtest.NewFixture(t, New(), nil, v1alpha1.ClusterSpec{Version: "1.33"})
	k := l.Declared.Regional("servicequotas", "Quota", "All of tomorrow's Instances")
	got := l.Read(t.Context(), l.Clients, []state.Key{k})[k]
	if got.Err != nil || got.Object == nil || len(got.Object) > 0 || !got.NotFound || !slices.Equal(kindtest.Texts(got.Notes), []string{"Service Quotas names no such quota in us-east-1: what the pools may use is unknown"}) {
		t.Errorf("%+v", got)
	}
}
