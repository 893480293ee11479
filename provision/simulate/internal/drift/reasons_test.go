package drift_test

import (
	"maps"
	"slices"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/simulate/internal/drift"
	"github.com/poolwright/poolwright/provision/simulate/internal/offerings"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

// indexed is a side without what it can buy.
func (s side) indexed(bundle string) *offerings.Resolved {
	return &offerings.Resolved{Indexed: snapshot.New(provision.ClusterSnapshot{
		Now: noon, Cluster: provision.Cluster{Region: region, CABundle: bundle},
		NodePools: []*karpv1.NodePool{s.pool}, NodeClasses: []*awsv1.EC2NodeClass{s.class},
	}, snapshot.Unknowns{})}
}

// launched is a NodeClaim that was made from the side, whose image is not known.
func (s side) launched() *karpv1.NodeClaim {
	bundle := caBundle
	out := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a",
		Labels: map[string]string{karpv1.NodePoolLabelKey: "gpu", corev1.LabelInstanceTypeStable: "g4dn.xlarge", karpv1.CapacityTypeLabelKey: "on-demand", "team": "ml"},
		Annotations: map[string]string{
			karpv1.NodePoolHashAnnotationKey: s.pool.Hash(), karpv1.NodePoolHashVersionAnnotationKey: karpv1.NodePoolHashVersion,
			awsv1.AnnotationEC2NodeClassHash: s.class.Hash(&bundle), awsv1.AnnotationEC2NodeClassHashVersion: awsv1.EC2NodeClassHashVersion,
		}}}
	out.StatusConditions().SetTrue(karpv1.ConditionTypeLaunched)
	return out
}

// written has the class carry the hash that Karpenter wrote on it.
func written(class *awsv1.EC2NodeClass, bundle, version string) {
	class.Annotations = map[string]string{awsv1.AnnotationEC2NodeClassHash: class.Hash(&bundle), awsv1.AnnotationEC2NodeClassHashVersion: version}
}

// What a change does to one node where hashes are missing, of another version, or made with
// a CA bundle that is not known.
func TestHashesThatCannotBeComparedReplaceNothing(t *testing.T) {
	tag := func(s *side) { s.class.Spec.Tags = map[string]string{"cost": "1"} }
	taint := func(s *side) { s.pool.Spec.Template.Spec.Taints = nil }
	tests := map[string]struct {
		bundle string
		// live sets the side before the change, edit makes the side after it of that, claim changes
		// the NodeClaim.
		live, edit func(*side)
		claim      func(*karpv1.NodeClaim)
		now, then  string
		// open is true where more nodes may drift, left how many sentences there are.
		open bool
		left int
	}{
		"the class's hash is compared with the CA bundle": {bundle: caBundle, edit: tag, then: "NodeClassDrift"},
		"by another CA bundle the node drifts already":    {bundle: "b3RoZXI=", now: "NodeClassDrift", then: "NodeClassDrift"},
		"without the CA bundle the class in the cluster is compared by what Karpenter wrote": {
			live: func(s *side) { written(s.class, caBundle, awsv1.EC2NodeClassHashVersion) }, edit: tag, then: "NodeClassDrift"},
		"without the CA bundle the same class replaces nothing": {
			live: func(s *side) { written(s.class, caBundle, awsv1.EC2NodeClassHashVersion) }},
		"without the CA bundle a node of an older class drifts already": {
			live: func(s *side) {
				s.class.Spec.Tags = map[string]string{"cost": "0"}
				written(s.class, caBundle, awsv1.EC2NodeClassHashVersion)
			},
			claim: func(c *karpv1.NodeClaim) { c.Annotations[awsv1.AnnotationEC2NodeClassHash] = "1" }, now: "NodeClassDrift", then: "NodeClassDrift"},
		"a class from Git carries no hash, and nodes are taken to be of it": {edit: tag, then: "NodeClassDrift", left: 1},
		"a hash of another version in the cluster is compared with none": {
			live: func(s *side) { written(s.class, caBundle, "v1") }, edit: tag},
		"a node without a hash of its class is open": {
			bundle: caBundle, edit: tag, claim: func(c *karpv1.NodeClaim) { delete(c.Annotations, awsv1.AnnotationEC2NodeClassHash) }, open: true, left: 1},
		"a node without a version of that hash is open, without the CA bundle, too": {
			edit: tag, claim: func(c *karpv1.NodeClaim) { delete(c.Annotations, awsv1.AnnotationEC2NodeClassHashVersion) }, open: true, left: 1},
		"a node whose class's hash another Karpenter has made is open": {
			bundle: caBundle, edit: tag, claim: func(c *karpv1.NodeClaim) { c.Annotations[awsv1.AnnotationEC2NodeClassHashVersion] = "v1" }, open: true, left: 1},
		"it is closed where the class stays": {
			bundle: caBundle, claim: func(c *karpv1.NodeClaim) { c.Annotations[awsv1.AnnotationEC2NodeClassHashVersion] = "v1" }},
		"a node without a hash of its pool is open": {
			bundle: caBundle, edit: taint, claim: func(c *karpv1.NodeClaim) { delete(c.Annotations, karpv1.NodePoolHashAnnotationKey) }, open: true, left: 1},
		"a node without a version of that hash is open": {
			bundle: caBundle, edit: taint, claim: func(c *karpv1.NodeClaim) { delete(c.Annotations, karpv1.NodePoolHashVersionAnnotationKey) }, open: true, left: 1},
		"a node whose pool's hash another Karpenter has made is open": {
			bundle: caBundle, edit: taint, claim: func(c *karpv1.NodeClaim) { c.Annotations[karpv1.NodePoolHashVersionAnnotationKey] = "v1" }, open: true, left: 1},
		"it is closed where the pool stays": {
			bundle: caBundle, claim: func(c *karpv1.NodeClaim) { c.Annotations[karpv1.NodePoolHashVersionAnnotationKey] = "v1" }},
		"labels are compared once a node is launched": {
			bundle: caBundle, claim: func(c *karpv1.NodeClaim) { delete(c.Labels, corev1.LabelInstanceTypeStable) }, now: "RequirementsDrifted", then: "RequirementsDrifted"},
		"labels are not compared before": {
			bundle: caBundle, claim: func(c *karpv1.NodeClaim) { c.Labels, c.Status.Conditions = nil, nil }},
		"what Karpenter has found out from AWS stays until it finds otherwise": {
			bundle: caBundle, claim: func(c *karpv1.NodeClaim) {
				c.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDrifted, "AMIDrift", "AMIDrift")
			}, now: "AMIDrift"},
		"what it has concluded from hashes is concluded anew": {
			bundle: caBundle, claim: func(c *karpv1.NodeClaim) {
				c.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDrifted, "NodeClassDrift", "NodeClassDrift")
			}},
		"a condition that is not true is no reason": {
			bundle: caBundle, claim: func(c *karpv1.NodeClaim) {
				c.StatusConditions().SetFalse(karpv1.ConditionTypeDrifted, "AMIDrift", "AMIDrift")
			}},
		"another image than those by id, where the node's is not known, is left open by none": {
			bundle: caBundle, edit: func(s *side) { s.class.Spec.AMISelectorTerms = images("ami-1") }},
		"other groups where those of before are not known are open": {
			bundle: caBundle, edit: func(s *side) { s.class.Spec.SecurityGroupSelectorTerms = groups("sg-2") }, open: true, left: 1},
		"other subnets where those of before are not known are open": {
			bundle: caBundle, edit: func(s *side) { s.class.Spec.SubnetSelectorTerms = subnets("subnet-a2") }, open: true, left: 1},
		"another class has another hash, though the pool's cannot be compared": {
			bundle: caBundle, edit: func(s *side) {
				s.class.Name, s.pool.Spec.Template.Spec.NodeClassRef.Name = "other", "other"
				tag(s)
			}, claim: func(c *karpv1.NodeClaim) { delete(c.Annotations, karpv1.NodePoolHashVersionAnnotationKey) }, then: "NodeClassDrift", open: true, left: 1},
		"of a class that goes Karpenter replaces no node": {
			bundle: caBundle, edit: func(s *side) { tag(s); s.class.Name = "other" }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			was := base()
			claim := was.launched()
			for _, change := range []func(*side){tt.live} {
				if change != nil {
					change(&was)
				}
			}
			is := was.clone()
			if tt.edit != nil {
				tt.edit(&is)
				is.class.Annotations = nil
			}
			if tt.claim != nil {
				tt.claim(claim)
			}
			step := &drift.Change{Before: was.indexed(tt.bundle), After: is.indexed(tt.bundle), Unknown: snapshot.Unknowns{}}
			if got := step.ReasonBefore(claim, was.pool); got != tt.now {
				t.Errorf("now %q, not %q", got, tt.now)
			}
			if got := step.ReasonAfter(claim, was.pool, is.pool); got != tt.then {
				t.Errorf("then %q, not %q", got, tt.then)
			}
			open := slices.ContainsFunc(step.Unknown.Sorted(), func(u provision.Unknown) bool { return u.MoreReplaced })
			if open != tt.open || len(step.Unknown) != tt.left {
				t.Errorf("open is %t: %v", open, slices.Sorted(maps.Keys(step.Unknown)))
			}
		})
	}
}

// changed are the changes as object and field.
func changed(changes []provision.Change) []string {
	out := []string{}
	for _, c := range changes {
		out = append(out, c.Object+" "+c.Field)
	}
	return out
}

func TestChangesListsEachFieldOnceInOrder(t *testing.T) {
	size := int32(9)
	tests := map[string]struct {
		edit func(*side)
		want []string
	}{
		"nothing": {func(*side) {}, []string{}},
		"fields of each part": {func(s *side) {
			s.pool.Spec.Weight, s.pool.Spec.Limits = &size, karpv1.Limits{}
			s.pool.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmpty
			s.pool.Spec.Template.Annotations = map[string]string{"a": "b"}
			s.pool.Spec.Template.Spec.Taints = nil
			s.class.Spec.Role = "x"
		}, []string{"EC2NodeClass/gpu spec.role", "NodePool/gpu spec.disruption.consolidationPolicy", "NodePool/gpu spec.template.metadata.annotations", "NodePool/gpu spec.template.spec.taints", "NodePool/gpu spec.weight"}},
		"a duration in another format is none": {func(s *side) {
			s.pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("60m")
		}, []string{}},
		"another duration": {func(s *side) {
			s.pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("61m")
		}, []string{"NodePool/gpu spec.disruption.consolidateAfter"}},
		"never": {func(s *side) {
			s.pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("Never")
		}, []string{"NodePool/gpu spec.disruption.consolidateAfter"}},
		"another class is the pool's change": {func(s *side) {
			s.class.Name, s.pool.Spec.Template.Spec.NodeClassRef.Name, s.class.Spec.Role = "other", "other", "x"
		}, []string{"NodePool/gpu spec.template.spec.nodeClassRef"}},
		"a class that goes": {func(s *side) { s.class.Name = "other" }, []string{"EC2NodeClass/gpu "}},
		"another class that is not there": {func(s *side) { s.pool.Spec.Template.Spec.NodeClassRef.Name = "other" },
			[]string{"NodePool/gpu spec.template.spec.nodeClassRef"}},
		"a pool that goes": {func(s *side) { s.pool.Name = "other" }, []string{"NodePool/gpu "}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			was := base()
			was.pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("1h")
			is := was.clone()
			tt.edit(&is)
			step := &drift.Change{Before: was.indexed(caBundle), After: is.indexed(caBundle), Unknown: snapshot.Unknowns{}}
			if diff := cmp.Diff(tt.want, changed(step.Changes("gpu", func(string) bool { return false }))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if every, some := step.Extent("gone"); every || some {
				t.Error("a pool that is on neither side has nodes that drift")
			}
		})
	}
}

// Overlays are listed where they change what the pool's nodes offer or cost, and only then.
func TestOverlaysAreListedWhereTheyChangeThePool(t *testing.T) {
	overlay := func(name, instanceType, price string) *karpv1alpha1.NodeOverlay {
		return &karpv1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: karpv1alpha1.NodeOverlaySpec{
			Requirements: []karpv1alpha1.NodeSelectorRequirement{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{instanceType}}}, Price: &price,
		}}
	}
	ctx, types := resolver(t)
	read := func(overlays ...*karpv1alpha1.NodeOverlay) *offerings.Resolved {
		s := base()
		s.class.Status = emulated().found(s.class)
		out, err := types.Resolve(ctx, snapshot.New(provision.ClusterSnapshot{
			Now: noon, Cluster: provision.Cluster{Region: region, CABundle: caBundle},
			NodePools: []*karpv1.NodePool{s.pool}, NodeClasses: []*awsv1.EC2NodeClass{s.class}, Overlays: overlays,
		}, snapshot.Unknowns{}))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	x := overlay("x", "g4dn.xlarge", "1")
	for name, tt := range map[string]struct {
		was, is *offerings.Resolved
		want    []string
	}{
		"one that stays":   {read(x), read(x), []string{}},
		"one that comes":   {read(), read(x), []string{"NodeOverlay/x "}},
		"one that goes":    {read(x), read(), []string{"NodeOverlay/x "}},
		"one that changes": {read(x), read(overlay("x", "g4dn.xlarge", "2")), []string{"NodeOverlay/x spec.price"}},
		"one that becomes another of the same effect": {read(x), read(overlay("y", "g4dn.xlarge", "1")), []string{}},
		"one for types that do not exist":             {read(), read(overlay("x", "m5.large", "1")), []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			step := &drift.Change{Before: tt.was, After: tt.is, Unknown: snapshot.Unknowns{}}
			if diff := cmp.Diff(tt.want, changed(step.Changes("gpu", func(string) bool { return true }))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Of a label for which the pool leaves Karpenter a choice a node may have either value.
func TestAChoiceThatNarrowsReachesSomeNodes(t *testing.T) {
	ctx, types := resolver(t)
	const rack = "example.com/rack"
	side := func(r karpv1.NodeSelectorRequirementWithMinValues) *side {
		s := base()
		s.require(r)
		s.class.Status = emulated().found(s.class)
		return &s
	}
	type extent struct{ Every, Some bool }
	was := side(need(rack, "r1", "r2"))
	before := was.read(ctx, t, types, caBundle)
	for name, tt := range map[string]struct {
		to   karpv1.NodeSelectorRequirementWithMinValues
		want extent
	}{
		"the same":          {need(rack, "r2", "r1"), extent{}},
		"a value more":      {need(rack, "r1", "r2", "r3"), extent{}},
		"a value less":      {need(rack, "r1"), extent{Some: true}},
		"one is refused":    {karpv1.NodeSelectorRequirementWithMinValues{Key: rack, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"r1"}}, extent{Some: true}},
		"both are refused":  {karpv1.NodeSelectorRequirementWithMinValues{Key: rack, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"r1", "r2"}}, extent{Every: true}},
		"another value":     {need(rack, "r3"), extent{Every: true}},
		"any value":         {bare(rack, corev1.NodeSelectorOpExists), extent{}},
		"no value":          {bare(rack, corev1.NodeSelectorOpDoesNotExist), extent{Every: true}},
		"of another's rack": {need("example.com/other", "r1"), extent{Every: true}},
	} {
		t.Run(name, func(t *testing.T) {
			is := side(tt.to)
			step := &drift.Change{Before: before, After: is.read(ctx, t, types, caBundle), Unknown: snapshot.Unknowns{}}
			every, some := step.Extent("gpu")
			if diff := cmp.Diff(tt.want, extent{every, some}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			// What the pool has bought is not known without its offerings.
			unknown := &drift.Change{Before: was.indexed(caBundle), After: is.indexed(caBundle), Unknown: snapshot.Unknowns{}}
			if every, some := unknown.Extent("gpu"); every || !some && name != "the same" {
				t.Errorf("without offerings: every %t, some %t", every, some)
			}
		})
	}
}
