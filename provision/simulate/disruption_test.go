package simulate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
)

func TestHowFastBudgetsLetItGo(t *testing.T) {
	type speed struct {
		AtOnce   int
		Limited  string
		Waits    string
		Min, Max int
		Never    bool
	}
	tests := map[string]struct {
		budgets string
		want    speed
	}{
		"the default of a tenth is one of three": {"", speed{1, "10%", "", 6, 50, false}},
		"all at once":                            {"[{nodes: '100%'}]", speed{3, "100%", "", 2, 20, false}},
		"two at once are two rounds":             {"[{nodes: '2'}]", speed{2, "2", "", 4, 35, false}},
		"more than there are":                    {"[{nodes: '50'}]", speed{3, "50", "", 2, 20, false}},
		"none ever":                              {"[{nodes: '0'}]", speed{0, "0", "", 0, 0, true}},
		"the least of several counts":            {"[{nodes: '3'}, {nodes: '1'}]", speed{1, "1", "", 6, 50, false}},
		"a budget for other reasons does not count": {
			"[{nodes: '0', reasons: [Empty, Underutilized]}, {nodes: '3'}]", speed{3, "3", "", 2, 20, false}},
		"only a budget for other reasons limits nothing": {
			"[{nodes: '0', reasons: [Empty]}]", speed{3, "", "", 2, 20, false}},
		"closed during office hours waits for the evening": {
			"[{nodes: '0', schedule: '0 9 * * mon-fri', duration: 8h}, {nodes: '3'}]",
			speed{0, "0 (0 9 * * mon-fri for 8h)", "2026-11-20T17:00:00Z", 302, 320, false}},
		"closed at night is open at noon": {
			"[{nodes: '0', schedule: '0 22 * * *', duration: 8h}, {nodes: '3'}]", speed{3, "3", "", 2, 20, false}},
		"windows that follow each other are one": {
			"[{nodes: '0', schedule: '0 * * * *', duration: 1h30m}]", speed{0, "0 (0 * * * * for 1h30m)", "", 0, 0, true}},
		"closed at the weekend is open on a Friday, and then nothing limits": {
			"[{nodes: '0', schedule: '0 0 * * sat', duration: 48h}]", speed{3, "", "", 2, 20, false}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			after := strings.Replace(pool, "{team: ml}", "{team: vision}", 1)
			if tt.budgets != "" {
				after = strings.Replace(after, "consolidateAfter: 1m", "consolidateAfter: 1m, budgets: "+tt.budgets, 1)
			}
			got := compare(t, three(t, pool, class), read(t, after, class))
			is := speed{
				AtOnce: got.Pools[0].Disruption.AllowedDisruptions, Limited: got.Pools[0].Disruption.Budget,
				Min: got.Rollout.MinMinutes, Max: got.Rollout.MaxMinutes, Never: got.Rollout.Incomplete,
			}
			if w := got.Pools[0].Disruption.NextWindow; !w.IsZero() {
				is.Waits = w.Format(time.RFC3339)
			}
			if diff := cmp.Diff(tt.want, is); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(got.Rollout.Assumptions) == 0 {
				t.Error("nothing is said to be assumed")
			}
		})
	}
}

func TestNodesThatAreToGoAnywayMayGoFirst(t *testing.T) {
	before := three(t, pool, class)
	before.NodeClaims[0].StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDrifted, "AMIDrift", "AMIDrift")
	got := compare(t, before, relabelled(t))
	if len(got.Drifted) != 1 || got.Rollout.Nodes != 2 || got.Rollout.MinMinutes != 4 || got.Rollout.MaxMinutes != 50 {
		t.Errorf("drifted %v, roll-out %+v", replacedText(got.Drifted), got.Rollout)
	}
}

func TestANodeThatIsNotReadyTakesOfTheBudget(t *testing.T) {
	before := three(t, pool, class)
	before.Nodes[0].Status.Conditions[0].Status = corev1.ConditionFalse
	got := compare(t, before, relabelled(t))
	if got.Pools[0].Disruption.AllowedDisruptions != 0 {
		t.Errorf("one of three may go and one is away, yet %d may", got.Pools[0].Disruption.AllowedDisruptions)
	}
}

func TestALimitWithoutRoomForAReplacementStopsTheRollOut(t *testing.T) {
	tests := map[string]struct {
		limit string
		want  string
	}{
		"room for one more": {"nvidia.com/gpu: 4", ""},
		"all used, of which the replaced node is not counted": {"nvidia.com/gpu: 3", ""},
		"less than is used": {"nvidia.com/gpu: 2", "The limit of 2 nvidia.com/gpu leaves no capacity for a replacement: the other nodes have 2, and the smallest node allowed has 1."},
		"by processors":     {"cpu: 11", "The limit of 11 cpu leaves no capacity for a replacement: the other nodes have 8, and the smallest node allowed has 4."},
		"by nodes":          {"nodes: 2", "The limit of 2 nodes leaves no capacity for a replacement: the other nodes have 2, and the smallest node allowed has 1."},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(strings.Replace(pool, "{team: ml}", "{team: vision}", 1), "nvidia.com/gpu: 8", tt.limit, 1)
			got := compare(t, three(t, pool, class), read(t, text, class))
			if diff := cmp.Diff(tt.want, got.Pools[0].Disruption.LimitMessage); diff != "" {
				t.Error(diff)
			}
			if got.Rollout.Incomplete != (tt.want != "") {
				t.Errorf("never is %t", got.Rollout.Incomplete)
			}
		})
	}
}

func TestWhatNodesCost(t *testing.T) {
	type bill struct {
		Now, After, Spot, Min float64
		Max, Before           string
		Prices                []provision.Price
	}
	onDemand := []provision.Price{{CapacityType: "on-demand", Basis: "catalog", Date: prices(t).PriceDate()}}
	both := append(onDemand[:1:1], provision.Price{CapacityType: "spot", Basis: "unknown"})
	tests := map[string]struct {
		old, new string
		want     bill
	}{
		// A g4dn.xlarge is $0.526, a g5.xlarge $1.006, a g6.xlarge $0.8048 an hour.
		"nothing changes": {"x", "x", bill{1.578, 1.578, 0, 0, "8.048", "8.048", onDemand}},
		"replaced nodes are counted as what they were": {
			"{team: ml}", "{team: vision}", bill{1.578, 1.578, 0, 0, "8.048", "8.048", onDemand}},
		"or as the cheapest that holds as much": {
			"[g4dn.xlarge, g5.xlarge]", "[g5.xlarge, g6.xlarge]", bill{1.578, 2.4144, 0, 0, "8.048", "8.048", onDemand}},
		"a lower limit is a lower maximum": {
			"nvidia.com/gpu: 8", "nvidia.com/gpu: 4", bill{1.578, 1.578, 0, 0, "4.024", "8.048", onDemand}},
		"the narrower of two limits counts": {
			"nvidia.com/gpu: 8", "nvidia.com/gpu: 8, nodes: 2", bill{1.578, 1.578, 0, 0, "2.012", "8.048", onDemand}},
		"without a limit there is no maximum": {
			"limits: {nvidia.com/gpu: 8}", "weight: 1", bill{1.578, 1.578, 0, 0, "none", "8.048", onDemand}},
		"a limit of what not every node has is none": {
			"nvidia.com/gpu: 8", "amd.com/gpu: 8", bill{1.578, 1.578, 0, 0, "none", "8.048", onDemand}},
		"spot instances cost at most what they do on demand": {
			"values: [on-demand]", "values: [spot]", bill{1.578, 0, 1.578, 0, "8.048", "8.048", both}},
		"and are taken where both are allowed": {
			"values: [on-demand]", "values: [on-demand, spot], minValues: 1", bill{1.578, 1.578, 0, 0, "8.048", "8.048", both}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := compare(t, three(t, pool, class), read(t, strings.Replace(pool, tt.old, tt.new, 1), class)).Cost
			is := bill{got.Now.Most(), got.After.OnDemand, got.After.SpotAtMost, got.Min, "none", "none", got.Prices}
			if got.Max != nil {
				is.Max = fmt.Sprint(*got.Max)
			}
			if got.MaxBefore != nil {
				is.Before = fmt.Sprint(*got.MaxBefore)
			}
			if diff := cmp.Diff(tt.want, is); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAStaticPoolHasAMinimum(t *testing.T) {
	text := strings.Replace(pool, "limits: {nvidia.com/gpu: 8}", "replicas: 2", 1)
	got := compare(t, read(t, text, class), read(t, text, class)).Cost
	if got.Min != 1.052 || got.MinAtMost || got.MinUnknown || got.Max == nil || *got.Max != 2.012 {
		t.Errorf("min %v, max %v", got.Min, *got.Max)
	}
	text = strings.Replace(text, "values: [on-demand]", "values: [on-demand, spot]", 1)
	if got := compare(t, read(t, text, class), read(t, text, class)).Cost; got.Min != 1.052 || !got.MinAtMost {
		t.Errorf("with spot the minimum is %+v", got)
	}
}

func TestARegionWithoutPricesCostsUnknown(t *testing.T) {
	before := three(t, pool, class)
	before.Cluster.Region = "us-gov-west-1"
	got := compare(t, before, relabelled(t))
	if len(got.Replaced) != 3 || got.Cost.Now.Most() != 0 {
		t.Errorf("%d replaced, $%v", len(got.Replaced), got.Cost.Now.Most())
	}
	if c := got.Cost; c.UnpricedUnchanged != 3 || c.Now.Unpriced != 3 || c.After.Unpriced != 3 || c.Max != nil || !c.MaxUnknown || !c.MaxBeforeUnknown {
		t.Errorf("what has no price is counted as nothing: %+v", c)
	}
	if c := got.Pools[0].Cost; c.Max != nil || !c.MaxUnknown || !c.MaxBeforeUnknown {
		t.Errorf("the pool's maximum is %v", c.Max)
	}
	if len(got.Unknown) == 0 || !strings.HasPrefix(got.Unknown[len(got.Unknown)-1].Text, "Region us-gov-west-1") {
		t.Errorf("unknown: %q", texts(got.Unknown))
	}
}
