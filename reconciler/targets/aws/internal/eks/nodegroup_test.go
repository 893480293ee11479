package eks

import (
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/kindtest"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
)

func newNodeGroupLife(t *testing.T, g v1alpha1.ManagedNodeGroup) *kindtest.Fixture {
	t.Helper()
	g.Name = "system"
	return kindtest.NewFixture(t, NodeGroups{}, kindtest.SystemGroup, v1alpha1.ClusterSpec{ManagedNodeGroups: []v1alpha1.ManagedNodeGroup{g}})
}

func updateGroup(l *kindtest.Fixture, in eks.UpdateNodegroupConfigInput) {
	l.Helper()
	in.ClusterName, in.NodegroupName = sdk.String("sandbox"), sdk.String("system")
	l.Do(l.Clients.EKS.UpdateNodegroupConfig(l.Context(), &in))
}

func wholeGroup() v1alpha1.ManagedNodeGroup {
	return v1alpha1.ManagedNodeGroup{
		Adopt: true, MinSize: sdk.Int32(2), DesiredSize: sdk.Int32(3), MaxSize: sdk.Int32(5), Labels: map[string]string{"role": "infra", "tier": "1"},
		Taints: &[]v1alpha1.NodeGroupTaint{{Key: "dedicated", Value: "infra", Effect: "NoSchedule"}, {Key: "dedicated", Effect: "NoExecute"}, {Key: "a", Effect: "PreferNoSchedule"}},
	}
}

func TestANodeGroupIsPutRightWhereItIsBroken(t *testing.T) {
	l := newNodeGroupLife(t, wholeGroup())
	if observed := l.ReadOne(l.Items()[0]); observed.Ours || !strings.HasPrefix(observed.UID, "arn:aws:eks:us-east-1:000000000000:nodegroup/sandbox/system/") {
		t.Errorf("ours %v, uid %s", observed.Ours, observed.UID)
	}
	l.Converge()
	l.Requests(map[string]int{"DescribeNodegroup": 1})
	l.Deny("eks", "DescribeNodegroup")

	sizes := func(least, now, most int32) func() {
		return func() {
			updateGroup(l, eks.UpdateNodegroupConfigInput{ScalingConfig: &ekstypes.NodegroupScalingConfig{MinSize: &least, DesiredSize: &now, MaxSize: &most}})
		}
	}
	l.Break("a smaller minimum", sizes(1, 3, 5))
	l.Break("more nodes", sizes(2, 5, 5))
	l.Break("a larger maximum", sizes(2, 3, 9))
	l.Break("everything far above", sizes(20, 30, 40))
	l.Break("a label more", func() {
		updateGroup(l, eks.UpdateNodegroupConfigInput{Labels: &ekstypes.UpdateLabelsPayload{AddOrUpdateLabels: map[string]string{"x": "y"}}})
	})
	l.Break("a label less", func() {
		updateGroup(l, eks.UpdateNodegroupConfigInput{Labels: &ekstypes.UpdateLabelsPayload{RemoveLabels: []string{"role"}}})
	})
	l.Break("another value of a label", func() {
		updateGroup(l, eks.UpdateNodegroupConfigInput{Labels: &ekstypes.UpdateLabelsPayload{AddOrUpdateLabels: map[string]string{"role": "y"}}})
	})
	taint := func(key, value string, effect ekstypes.TaintEffect) []ekstypes.Taint {
		return []ekstypes.Taint{{Key: &key, Value: &value, Effect: effect}}
	}
	l.Break("a taint more", func() {
		updateGroup(l, eks.UpdateNodegroupConfigInput{Taints: &ekstypes.UpdateTaintsPayload{AddOrUpdateTaints: taint("x", "y", "NO_EXECUTE")}})
	})
	l.Break("a taint less", func() {
		updateGroup(l, eks.UpdateNodegroupConfigInput{Taints: &ekstypes.UpdateTaintsPayload{RemoveTaints: taint("dedicated", "", "NO_EXECUTE")}})
	})
	l.Break("another value of a taint", func() {
		updateGroup(l, eks.UpdateNodegroupConfigInput{Taints: &ekstypes.UpdateTaintsPayload{AddOrUpdateTaints: taint("dedicated", "x", "NO_SCHEDULE")}})
	})
	l.Change(func(c *v1alpha1.ClusterSpec) {
		c.ManagedNodeGroups[0].Taints, c.ManagedNodeGroups[0].Labels = &[]v1alpha1.NodeGroupTaint{}, map[string]string{}
	})
	l.Converge()
}

func TestWhatIsNotDeclaredOfANodeGroupIsLeftAlone(t *testing.T) {
	l := newNodeGroupLife(t, v1alpha1.ManagedNodeGroup{Adopt: true, MaxSize: sdk.Int32(6)})
	before := l.ReadOne(l.Items()[0]).Object
	l.Converge()
	after := l.ReadOne(l.Items()[0]).Object
	before["maxSize"] = int64(6)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("(-desired +live):\n%s", diff)
	}
	updateGroup(l, eks.UpdateNodegroupConfigInput{ScalingConfig: &ekstypes.NodegroupScalingConfig{DesiredSize: sdk.Int32(5)}})
	if bad := l.Differences(); len(bad) > 0 {
		t.Errorf("what an autoscaler sets differs: %v", bad)
	}
}

func TestTheNumberOfNodesGoesAlongOnlyWhereItMust(t *testing.T) {
	live := map[string]any{"minSize": int64(1), "desiredSize": int64(4), "maxSize": int64(6)}
	size := func(n int) *int32 {
		if n < 0 {
			return nil
		}
		return sdk.Int32(int32(n))
	}
	const no = -1
	for name, tt := range map[string]struct{ min, now, max, sendMin, sendNow, sendMax int }{
		"a minimum below":           {2, no, no, 2, no, no},
		"a minimum above":           {5, no, no, 5, 5, no},
		"a maximum below":           {no, no, 3, no, 3, 3},
		"a maximum above":           {no, no, 9, no, no, 9},
		"both above":                {7, no, 9, 7, 7, 9},
		"both below":                {0, no, 2, 0, 2, 2},
		"an explicit number":        {no, 2, no, no, 2, no},
		"one that is as it is":      {no, 4, no, no, no, no},
		"one as it is, and another": {2, 4, no, 2, 4, no},
	} {
		t.Run(name, func(t *testing.T) {
			desired := map[string]any{}
			for field, n := range map[string]int{"minSize": tt.min, "desiredSize": tt.now, "maxSize": tt.max} {
				if n >= 0 {
					desired[field] = int64(n)
				}
			}
			got := scalingConfigUpdate(desired, live)
			if got == nil {
				got = &ekstypes.NodegroupScalingConfig{}
			}
			for field, pair := range map[string][2]*int32{
				"minSize": {size(tt.sendMin), got.MinSize}, "desiredSize": {size(tt.sendNow), got.DesiredSize}, "maxSize": {size(tt.sendMax), got.MaxSize},
			} {
				if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
					t.Errorf("%s (-want +sent):\n%s", field, diff)
				}
			}
		})
	}
}

func TestANodeGroupThatDoesNotExistIsMissedOnceWithTheCommandThatMakesIt(t *testing.T) {
	for _, k := range []resource.Kind{NodeGroups{}, NodeGroupHardware{}} {
		l := kindtest.NewFixture(t, k, nil, v1alpha1.ClusterSpec{ManagedNodeGroups: []v1alpha1.ManagedNodeGroup{{Name: "system", CapacityType: "SPOT", MinSize: sdk.Int32(1)}}})
		_, hardware := k.(NodeGroupHardware)
		for _, observed := range l.ReadAll() {
			reports := strings.Contains(observed.Missing, ": aws eks create-nodegroup --cluster-name sandbox --nodegroup-name system")
			if reports == hardware || observed.Superseded != hardware || observed.Err != nil || observed.Object != nil {
				t.Errorf("%T: %+v", k, observed)
			}
		}
		if err := l.Write(t.Context(), l.Clients, l.Items()[0], resource.Live{}); err == nil {
			t.Errorf("%T made it", k)
		}
		if len(l.ReadAll()) == 0 {
			t.Errorf("%T tells nothing", k)
		}
	}
}

func TestANodeGroupIsPendingWhileEKSIsAtIt(t *testing.T) {
	l := kindtest.NewFixture(t, NodeGroups{}, func(c *sandboxaws.Config) {
		kindtest.SystemGroup(c)
		c.Delays.Update = time.Hour
	}, v1alpha1.ClusterSpec{ManagedNodeGroups: []v1alpha1.ManagedNodeGroup{{Name: "system", Adopt: true, MaxSize: sdk.Int32(9)}}})
	item := l.Items()[0]
	if err := l.Write(t.Context(), l.Clients, item, l.ReadOne(item)); err != nil {
		t.Fatal(err)
	}
	observed := l.ReadOne(item)
	if observed.Pending == "" {
		t.Error("nothing is pending")
	}
	if err := l.Write(t.Context(), l.Clients, item, observed); err == nil || awserr.Exists(err) || !strings.Contains(err.Error(), "at another update") {
		t.Errorf("a second update: %v", err)
	}
}

func TestANodeGroupSurvivesTheDeathOfItsWriter(t *testing.T) {
	kindtest.Survives(t, func(t *testing.T) *kindtest.Fixture { return newNodeGroupLife(t, wholeGroup()) })
}

func TestHardwareIsComparedWhateverItsOrder(t *testing.T) {
	l := kindtest.NewFixture(t, NodeGroupHardware{}, kindtest.SystemGroup, v1alpha1.ClusterSpec{ManagedNodeGroups: []v1alpha1.ManagedNodeGroup{
		{Name: "system", InstanceTypes: []string{"m5.large", "t3.small"}, DiskSize: sdk.Int32(50), CapacityType: "ON_DEMAND"},
	}})
	if bad := l.Differences(); len(bad) > 0 {
		t.Errorf("%v differ", bad)
	}
	l.Deny("eks", "DescribeNodegroup")
	for name, change := range map[string]func(*v1alpha1.ManagedNodeGroup){
		"a type less":           func(g *v1alpha1.ManagedNodeGroup) { g.InstanceTypes = []string{"m5.large"} },
		"a larger disk":         func(g *v1alpha1.ManagedNodeGroup) { g.DiskSize = sdk.Int32(100) },
		"another capacity type": func(g *v1alpha1.ManagedNodeGroup) { g.CapacityType = "SPOT" },
	} {
		spec := l.Declared.Spec.DeepCopy()
		l.Change(func(c *v1alpha1.ClusterSpec) { change(&c.ManagedNodeGroups[0]) })
		if len(l.Differences()) == 0 {
			t.Errorf("%s: nothing is seen of it", name)
		}
		l.Declared.Spec = *spec
	}
	l.Change(func(c *v1alpha1.ClusterSpec) {
		c.ManagedNodeGroups[0] = v1alpha1.ManagedNodeGroup{Name: "system", MinSize: sdk.Int32(1)}
	})
	if got := l.Items(); len(got) > 0 {
		t.Errorf("without hardware it wants %v", kindtest.Names(got))
	}
}

func TestInvalidResponsesAboutANodeGroupAreDifferencesNotCrashes(t *testing.T) {
	got := nodeGroupObject(&ekstypes.Nodegroup{Taints: []ekstypes.Taint{{}, {Key: sdk.String("a"), Effect: "NEW_EFFECT"}}})
	want := map[string]any{"labels": map[string]any{}, "taints": []any{map[string]any{"key": "", "effect": ""}, map[string]any{"key": "a", "effect": "NEW_EFFECT"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzTaints(f *testing.F) {
	f.Add("dedicated", "system", byte(0), "old", "", byte(1), byte(3))
	f.Fuzz(func(t *testing.T, k1, v1 string, e1 byte, k2, v2 string, e2, split byte) {
		effects := []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}
		all := []v1alpha1.NodeGroupTaint{
			{Key: k1, Value: v1, Effect: effects[int(e1)%3]}, {Key: k2, Value: v2, Effect: effects[int(e2)%3]}, {Key: k1, Value: v2, Effect: effects[int(e1)%3]},
		}
		pick := func(bits byte) []v1alpha1.NodeGroupTaint {
			var out []v1alpha1.NodeGroupTaint
			for i, taint := range all {
				same := func(o v1alpha1.NodeGroupTaint) bool { return o.Key == taint.Key && o.Effect == taint.Effect }
				if bits>>i&1 == 1 && !slices.ContainsFunc(out, same) {
					out = append(out, taint)
				}
			}
			return out
		}
		want, have := pick(split), pick(split>>3)
		update := newTaints(map[string]any{"taints": taintObjects(want)}, map[string]any{"taints": taintObjects(have)})
		got := map[[2]string]string{}
		for _, h := range taintObjects(have) {
			e := eksTaint(h)
			got[[2]string{*e.Key, string(e.Effect)}] = sdk.ToString(e.Value)
		}
		if update != nil {
			for _, r := range update.RemoveTaints {
				delete(got, [2]string{*r.Key, string(r.Effect)})
			}
			for _, a := range update.AddOrUpdateTaints {
				got[[2]string{*a.Key, string(a.Effect)}] = sdk.ToString(a.Value)
			}
		}
		var list []ekstypes.Taint
		for k, v := range got {
			list = append(list, ekstypes.Taint{Key: &k[0], Effect: ekstypes.TaintEffect(k[1]), Value: &v})
		}
		if live := nodeGroupObject(&ekstypes.Nodegroup{Taints: list})["taints"]; !state.Equal(live, taintObjects(want)) {
			t.Fatalf("of %v with %+v became %v, not %v", have, update, live, want)
		}
	})
}
