package simulate_test

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/engine/offerings"
	"github.com/poolwright/poolwright/provision/simulate"
)

// longVariable makes the long form of a suite run: see make test-long.
const longVariable = "POOLWRIGHT_LONG"

var (
	predictionSeed    = flag.Uint64("prediction-seed", 16, "seed of the random changes that are predicted")
	predictionChanges = flag.Int("prediction-changes", 0, "how many random changes of one seed are predicted; 0 is 10 of each of two, or 50 of each of four with POOLWRIGHT_LONG=1")
)

// apply writes the difference of two declarations.
func (c *liveCluster) apply(was, is declaration) {
	c.Helper()
	applyKind(c, was.classes, is.classes, func(live, o *awsv1.EC2NodeClass) { live.Spec = o.Spec })
	applyKind(c, was.overlays, is.overlays, func(live, o *karpv1alpha1.NodeOverlay) { live.Spec = o.Spec })
	applyKind(c, was.pools, is.pools, func(live, o *karpv1.NodePool) { live.Spec = o.Spec })
	applyKind(c, was.deployments, is.deployments, func(live, o *appsv1.Deployment) { live.Spec = o.Spec })
}

func applyKind[T client.Object](c *liveCluster, was, is map[string]T, set func(live, to T)) {
	c.Helper()
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, there := is[name]; !there {
			c.must(c.api.Delete(c.ctx, was[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		o, _ := is[name].DeepCopyObject().(T)
		old, there := was[name]
		switch {
		case !there:
			o.SetResourceVersion("")
			c.must(c.api.Create(c.ctx, o))
		case !cmp.Equal(old, is[name]):
			live, _ := is[name].DeepCopyObject().(T)
			c.must(c.api.Get(c.ctx, client.ObjectKeyFromObject(o), live))
			set(live, o)
			live.SetGeneration(live.GetGeneration() + 1)
			c.must(c.api.Update(c.ctx, live))
		}
	}
}

// snapshot is what the cluster and the declaration have.
func (c *liveCluster) snapshot(d declaration) provision.ClusterSnapshot {
	c.Helper()
	out := provision.ClusterSnapshot{
		Now: c.clock.Now(), Cluster: provision.Cluster{Region: settings().Region, Offerings: offerings.List(settings().Region, c.sold, c.prices)},
		NodePools:   list[*karpv1.NodePool](c, &karpv1.NodePoolList{}),
		NodeClasses: list[*awsv1.EC2NodeClass](c, &awsv1.EC2NodeClassList{}),
		Overlays:    list[*karpv1alpha1.NodeOverlay](c, &karpv1alpha1.NodeOverlayList{}),
		NodeClaims:  c.claims(), Nodes: c.nodes(), Pods: c.pods(),
		PodDisruptionBudgets: list[*policyv1.PodDisruptionBudget](c, &policyv1.PodDisruptionBudgetList{}),
	}
	out.Cluster.Offerings.Refused = c.refused.Last()
	out.CapacityReservations = map[string][]provision.CapacityReservation{}
	for _, class := range out.NodeClasses {
		if terms := class.Spec.CapacityReservationSelectorTerms; len(terms) > 0 {
			found, err := offerings.Reservations(c.ctx, c.clock, c.reservations, terms)
			c.must(err)
			out.CapacityReservations[class.Name] = found
		}
	}
	c.addWorkloads(&out, d)
	return out
}

func (c *liveCluster) addWorkloads(to *provision.ClusterSnapshot, d declaration) {
	c.Helper()
	reader, err := simulate.NewReader()
	c.must(err)
	to.Workloads = nil
	for _, name := range slices.Sorted(maps.Keys(d.deployments)) {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d.deployments[name])
		c.must(err)
		c.must(reader.Add(to, object))
	}
}

// changed is a snapshot after the change, as a forecast has it: what is declared, with the status of what is there.
func (c *liveCluster) changed(before provision.ClusterSnapshot, d declaration) provision.ClusterSnapshot {
	c.Helper()
	out := before
	out.NodePools, out.NodeClasses, out.Overlays = nil, nil, nil
	for _, name := range slices.Sorted(maps.Keys(d.pools)) {
		o := d.pools[name].DeepCopy()
		for _, was := range before.NodePools {
			if was.Name == name {
				o.Status, o.UID = was.Status, was.UID
			}
		}
		out.NodePools = append(out.NodePools, o)
	}
	for _, name := range slices.Sorted(maps.Keys(d.classes)) {
		o := d.classes[name].DeepCopy()
		for _, was := range before.NodeClasses {
			if was.Name == name {
				o.Status, o.UID = was.Status, was.UID
			}
		}
		out.NodeClasses = append(out.NodeClasses, o)
	}
	for _, name := range slices.Sorted(maps.Keys(d.overlays)) {
		out.Overlays = append(out.Overlays, d.overlays[name].DeepCopy())
	}
	c.addWorkloads(&out, d)
	return out
}

// prediction is what a forecast has of nodes.
type prediction struct {
	// marked are the reasons of drift, gone those of the nodes that go, by NodeClaim.
	marked, gone map[string]string
	replacements map[string][]simulate.Replacement
	forecast     provision.Forecast
	// uncertain is set where the forecast itself reports that more nodes may drift.
	uncertain bool
}

func (c *liveCluster) predict(before, after provision.ClusterSnapshot) prediction {
	c.Helper()
	f, replacements, err := simulate.CompareWithReplacements(engine.Offline(c.Context(), settings()), before, after, prices(c.T, c.families...))
	c.must(err)
	p := prediction{marked: map[string]string{}, gone: map[string]string{}, forecast: f, replacements: replacements}
	stuck := map[string]bool{}
	for _, pool := range f.Pools {
		stuck[pool.Name] = pool.Disruption.Blocking
	}
	for _, n := range f.Replaced {
		p.marked[n.NodeClaim] = n.Reason
		if !n.Blocked() && !stuck[n.Pool] {
			p.gone[n.NodeClaim] = n.Reason
		}
	}
	for _, removal := range f.Removed {
		for _, n := range removal.Nodes {
			if !n.Blocked() {
				p.gone[n.NodeClaim] = n.Reason
			}
		}
	}
	p.uncertain = slices.ContainsFunc(f.Unknown, func(u provision.Unknown) bool { return u.MoreReplaced })
	return p
}

// happened is what Karpenter did with the nodes that there were.
func (c *liveCluster) happened(before provision.ClusterSnapshot) (marked, gone map[string]string) {
	c.Helper()
	marked, gone = map[string]string{}, map[string]string{}
	is := map[string]*karpv1.NodeClaim{}
	for _, claim := range c.claims() {
		is[claim.Name] = claim
	}
	pools := map[string]bool{}
	for _, pool := range list[*karpv1.NodePool](c, &karpv1.NodePoolList{}) {
		pools[pool.Name] = true
	}
	for _, was := range before.NodeClaims {
		now := is[was.Name]
		switch {
		case now == nil && !pools[was.Labels[karpv1.NodePoolLabelKey]]:
			gone[was.Name] = "NodePoolRemoved"
		case now == nil:
			marked[was.Name], gone[was.Name] = c.reasons[was.Name], c.reasons[was.Name]
		case reasonOf(now) != "":
			marked[was.Name] = reasonOf(now)
		}
	}
	return marked, gone
}

// tally adds up how the predictions of a run agree with what happened.
type tally struct {
	changes, exact, uncertain int
	// nodes are those that went, added those that came for pods of no node that went.
	nodes, added     int
	types, sameTypes int
	money, sameMoney int
	otherTypes       map[string]int
	wrong            int
}

// TestRandomChangesDoToNodesWhatIsForecast predicts random changes, makes them, and compares the nodes that
// Karpenter replaced, what came in their place, and what they cost.
func TestRandomChangesDoToNodesWhatIsForecast(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: it runs Karpenter for a minute")
	}
	log.SetLogger(logr.Discard())
	each, clusters := 10, 2
	if os.Getenv(longVariable) != "" {
		each, clusters = 50, 4
	}
	if *predictionChanges > 0 {
		each, clusters = *predictionChanges, 1
	}
	all := make(chan tally, clusters)
	t.Run("seeds", func(t *testing.T) {
		for i := range uint64(clusters) {
			seed := *predictionSeed + i
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				t.Logf("%d changes of seed %d: go test ./provision/simulate -run TestRandomChanges -prediction-seed=%d -prediction-changes=%d", each, seed, seed, each)
				all <- newLiveCluster(t).predictChanges(seed, each)
			})
		}
	})
	sum := tally{otherTypes: map[string]int{}}
	for range len(all) {
		sum.add(<-all)
	}
	if sum.changes < each*clusters {
		t.Errorf("%d of %d changes were made", sum.changes, each*clusters)
	}
	sum.report(t)
}

// predictChanges makes random changes, each of which is predicted.
func (c *liveCluster) predictChanges(seed uint64, n int) tally {
	c.Helper()
	sum := tally{otherTypes: map[string]int{}}
	d := firstDeclaration(c.T)
	c.apply(declaration{}, d)
	c.converge()
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0))}
	for _, class := range list[*awsv1.EC2NodeClass](c, &awsv1.EC2NodeClassList{}) {
		g.subnets, g.groups = class.Status.Subnets, class.Status.SecurityGroups
	}
	if len(c.claims()) < len(d.pools) {
		c.Fatalf("the first pods have no nodes:\n%s\n%s", c.describe(), strings.Join(c.failures, "\n"))
	}
	for i := range n {
		next, what := g.change(d)
		began := time.Now()
		c.compare(fmt.Sprintf("%d: %s", i, what), d, next, &sum)
		d = next
		if testing.Verbose() {
			c.Logf("%d: %s (%s, %d nodes)", i, what, time.Since(began).Round(time.Millisecond), len(c.claims()))
		}
	}
	return sum
}

// compare predicts a change, makes it, and adds to the tally how both agree.
func (c *liveCluster) compare(what string, was, is declaration, sum *tally) {
	c.Helper()
	before := c.snapshot(was)
	p := c.predict(before, c.changed(before, is))
	c.replaced, c.reasons = map[string][]string{}, map[string]string{}
	c.apply(was, is)
	c.converge()
	marked, gone := c.happened(before)
	for _, n := range p.forecast.Drifted { // They drift without the change.
		for _, of := range []map[string]string{marked, gone, p.marked, p.gone} {
			delete(of, n.NodeClaim)
		}
	}
	sum.changes++
	sum.nodes += len(gone)
	switch diff := cmp.Diff([]map[string]string{p.marked, p.gone}, []map[string]string{marked, gone}); {
	case diff == "":
		sum.exact++
	case p.uncertain && includes(marked, p.marked) && includes(gone, p.gone):
		// More nodes went, as the forecast reported, and each that it names.
		sum.uncertain++
	default:
		sum.wrong++
		c.Errorf("%s: marked and gone are (-forecast +Karpenter):\n%s\n%s", what, diff, strings.Join(c.failures, "\n"))
	}
	same := c.compareTypes(what, before, p, gone, sum)
	c.compareMoney(what, before, p, same && cmp.Equal([]map[string]string{p.marked, p.gone}, []map[string]string{marked, gone}), sum)
}

// includes reports whether all has each entry of some.
func includes(all, some map[string]string) bool {
	for name, reason := range some {
		if got, has := all[name]; !has || got != reason {
			return false
		}
	}
	return true
}

// compareTypes compares what came in the place of nodes, and reports whether it is all as forecast.
func (c *liveCluster) compareTypes(what string, before provision.ClusterSnapshot, p prediction, gone map[string]string, sum *tally) bool {
	c.Helper()
	is := map[string]*karpv1.NodeClaim{}
	for _, claim := range c.claims() {
		is[claim.Name] = claim
	}
	same := true
	for _, was := range before.NodeClaims {
		if gone[was.Name] == "" || gone[was.Name] == "NodePoolRemoved" || p.marked[was.Name] == "" {
			continue
		}
		want := p.replacements[was.Name]
		var got []simulate.Replacement
		for _, name := range c.replaced[was.Name] {
			if claim := is[name]; claim != nil {
				got = append(got, instanceOf(claim))
			}
		}
		sum.types++
		if slices.Equal(kinds(got), kinds(want)) {
			sum.sameTypes++
			continue
		}
		same = false
		sum.otherTypes[c.explain(want, got)]++
		c.Logf("%s: in the place of %s (%s %s %s) comes %v, and the forecast has %v", what, was.Name, was.Labels[corev1.LabelInstanceTypeStable], was.Labels[karpv1.CapacityTypeLabelKey], was.Labels[corev1.LabelTopologyZone], got, want)
	}
	return same
}

func instanceOf(claim *karpv1.NodeClaim) simulate.Replacement {
	return simulate.Replacement{InstanceType: claim.Labels[corev1.LabelInstanceTypeStable], CapacityType: claim.Labels[karpv1.CapacityTypeLabelKey], Zone: claim.Labels[corev1.LabelTopologyZone]}
}

// compareMoney compares the forecast's costs with those of the NodeClaims that there were, and, where nodes and types are as forecast,
// with those that stay or came in the place of others. What came for other pods is only counted: the forecast leaves it out.
func (c *liveCluster) compareMoney(what string, before provision.ClusterSnapshot, p prediction, asForecast bool, sum *tally) {
	c.Helper()
	counted, now, after := map[string]bool{}, 0.0, 0.0
	for _, was := range before.NodeClaims {
		now += c.rate(instanceOf(was))
		counted[was.Name] = true
		for _, name := range c.replaced[was.Name] {
			counted[name] = true
		}
	}
	if of := p.forecast.Cost.Now; math.Abs(of.Most()-now) > 0.01*now || of.Unpriced > 0 {
		c.Errorf("%s: the nodes cost $%.4f an hour, and the forecast has %+v", what, now, of)
	}
	for _, claim := range c.claims() {
		if counted[claim.Name] {
			after += c.rate(instanceOf(claim))
		} else {
			sum.added++
		}
	}
	if !asForecast || len(p.forecast.Drifted) > 0 {
		return
	}
	sum.money++
	if of := p.forecast.Cost.After; math.Abs(of.Most()-after) > 0.01*after || of.Unpriced > 0 {
		c.Logf("%s: the nodes come to cost $%.4f an hour, and the forecast has %+v, unblocked %+v", what, after, of, p.forecast.Cost.Unblocked)
		return
	}
	sum.sameMoney++
}

// explain is the category of a type that came and was not forecast.
func (c *liveCluster) explain(want, got []simulate.Replacement) string {
	switch {
	case len(got) == 0:
		return "the pods fit on other nodes"
	case len(want) == 0:
		return "a node comes that was not forecast"
	case len(got) != len(want):
		return "another number of nodes comes"
	case c.rate(got[0]) < c.rate(want[0]):
		return "a cheaper node comes"
	}
	return "a node comes that costs more"
}

// kinds are types and capacity types without their zones, sorted.
func kinds(of []simulate.Replacement) []string {
	var out []string
	for _, s := range of {
		out = append(out, s.InstanceType+" "+s.CapacityType)
	}
	slices.Sort(out)
	return out
}

// rate is what an hour costs, by AWS' lists of prices.
func (c *liveCluster) rate(s simulate.Replacement) float64 {
	l := offerings.List(settings().Region, c.sold, c.prices)
	if s.CapacityType == karpv1.CapacityTypeSpot {
		return l.Spot[s.Zone][s.InstanceType]
	}
	return l.OnDemand[s.InstanceType]
}

// add adds the tally of another cluster.
func (s *tally) add(o tally) {
	s.changes, s.exact, s.uncertain, s.wrong, s.nodes, s.added = s.changes+o.changes, s.exact+o.exact, s.uncertain+o.uncertain, s.wrong+o.wrong, s.nodes+o.nodes, s.added+o.added
	s.types, s.sameTypes, s.money, s.sameMoney = s.types+o.types, s.sameTypes+o.sameTypes, s.money+o.money, s.sameMoney+o.sameMoney
	for why, n := range o.otherTypes {
		s.otherTypes[why] += n
	}
}

func (s tally) report(t *testing.T) {
	t.Helper()
	t.Logf("%v", s)
	for _, problem := range s.problems() {
		t.Error(problem)
	}
}

// String is the tally in a line.
func (s tally) String() string {
	return fmt.Sprintf("%d changes, %d nodes gone, %d added for other pods: %d exact, %d that the forecast reported as uncertain, %d wrong; types %d of %d, others %v; money %d of %d",
		s.changes, s.nodes, s.added, s.exact, s.uncertain, s.wrong, s.sameTypes, s.types, s.otherTypes, s.sameMoney, s.money)
}

// problems are what of the tally the suite does not accept.
func (s tally) problems() []string {
	var out []string
	if s.wrong > 0 {
		out = append(out, fmt.Sprintf("of %d changes %d replaced other nodes than the forecast has", s.changes, s.wrong))
	}
	if s.uncertain*100 > s.changes*5 {
		out = append(out, fmt.Sprintf("of %d changes the forecast leaves open for %d which nodes go, more than 5 %%", s.changes, s.uncertain))
	}
	if s.sameTypes*100 < s.types*95 {
		out = append(out, fmt.Sprintf("of %d nodes that came or did not, %d are as forecast, fewer than 95 %%: %v", s.types, s.sameTypes, s.otherTypes))
	}
	if s.sameMoney < s.money {
		out = append(out, fmt.Sprintf("of %d changes after which the types are as forecast, %d cost something else", s.money, s.money-s.sameMoney))
	}
	return out
}

func TestTheSuiteAcceptsNoOtherNodesAndFewOtherTypes(t *testing.T) {
	good := tally{changes: 200, exact: 190, uncertain: 10, types: 100, sameTypes: 95, money: 120, sameMoney: 120}
	for name, tt := range map[string]struct {
		change func(*tally)
		want   int
	}{
		"within its bounds":                           {func(*tally) {}, 0},
		"one change that replaces another node":       {func(s *tally) { s.wrong = 1 }, 1},
		"more than 5 % of changes left open":          {func(s *tally) { s.uncertain = 11 }, 1},
		"fewer than 95 % of the types":                {func(s *tally) { s.sameTypes = 94 }, 1},
		"one cost that is not within 1 %":             {func(s *tally) { s.sameMoney = 119 }, 1},
		"another node, another type and another cost": {func(s *tally) { s.wrong, s.sameTypes, s.sameMoney = 1, 0, 0 }, 3},
	} {
		s := good
		if tt.change(&s); len(s.problems()) != tt.want {
			t.Errorf("%s: %q", name, s.problems())
		}
	}
}
