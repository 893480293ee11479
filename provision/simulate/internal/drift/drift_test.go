package drift_test

import (
	"math/rand/v2"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// edit is a change of a side, with how many of four nodes it makes Karpenter replace: one
// of each type in each of two zones.
type edit struct {
	make    func(*side)
	drifted int
}

func edits() map[string]edit {
	text := "#!/bin/sh"
	yes, many := true, int32(110)
	hop := int64(2)
	return map[string]edit{
		"nothing":                       {func(*side) {}, 0},
		"a label":                       {func(s *side) { s.pool.Spec.Template.Labels["team"] = "vision" }, 4},
		"an annotation":                 {func(s *side) { s.pool.Spec.Template.Annotations = map[string]string{"a": "b"} }, 4},
		"annotations that are empty":    {func(s *side) { s.pool.Spec.Template.Annotations = map[string]string{} }, 4},
		"startup taints that are empty": {func(s *side) { s.pool.Spec.Template.Spec.StartupTaints = []corev1.Taint{} }, 4},
		"a taint": {func(s *side) {
			s.pool.Spec.Template.Spec.Taints = append(s.pool.Spec.Template.Spec.Taints, corev1.Taint{Key: "x", Effect: corev1.TaintEffectNoExecute})
		}, 4},
		"no taint":                 {func(s *side) { s.pool.Spec.Template.Spec.Taints = nil }, 4},
		"the taint, twice":         {func(s *side) { t := &s.pool.Spec.Template.Spec; t.Taints = append(t.Taints, t.Taints...) }, 4},
		"a taint to a startup one": {func(s *side) { t := &s.pool.Spec.Template.Spec; t.Taints, t.StartupTaints = nil, t.Taints }, 4},
		"a grace period": {func(s *side) {
			s.pool.Spec.Template.Spec.TerminationGracePeriod = &metav1.Duration{Duration: time.Hour}
		}, 4},
		"a life span": {func(s *side) { s.pool.Spec.Template.Spec.ExpireAfter = karpv1.MustParseNillableDuration("24h") }, 4},
		"a budget":    {func(s *side) { s.pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0"}} }, 0},
		"a limit":     {func(s *side) { s.pool.Spec.Limits = karpv1.Limits{"cpu": resource.MustParse("1")} }, 0},
		"a weight":    {func(s *side) { s.pool.Spec.Weight = &many }, 0},
		"requirements in another order": {func(s *side) {
			r := s.pool.Spec.Template.Spec.Requirements
			r[0], r[1] = r[1], r[0]
		}, 0},
		"one type less": {func(s *side) { s.pool.Spec.Template.Spec.Requirements[0].Values = []string{"g5.xlarge"} }, 2},
		"one type more": {func(s *side) {
			s.pool.Spec.Template.Spec.Requirements[0].Values = []string{"g4dn.xlarge", "g5.xlarge", "g6.xlarge"}
		}, 0},
		"other types":                       {func(s *side) { s.pool.Spec.Template.Spec.Requirements[0].Values = []string{"g6.xlarge"} }, 4},
		"no requirement":                    {func(s *side) { s.pool.Spec.Template.Spec.Requirements = nil }, 0},
		"a type is refused":                 {func(s *side) { s.pool.Spec.Template.Spec.Requirements[0].Operator = corev1.NodeSelectorOpNotIn }, 4},
		"a zone":                            {func(s *side) { s.require(need(corev1.LabelTopologyZone, "us-east-1a")) }, 2},
		"a zone that no node is in":         {func(s *side) { s.require(need(corev1.LabelTopologyZone, "us-east-1c")) }, 4},
		"a label that no node has":          {func(s *side) { s.require(need("example.com/rack", "r1")) }, 4},
		"a label that no node may have":     {func(s *side) { s.require(bare("example.com/rack", corev1.NodeSelectorOpDoesNotExist)) }, 0},
		"the label of its template":         {func(s *side) { s.require(need("team", "ml")) }, 0},
		"another label than its template":   {func(s *side) { s.require(need("team", "vision")) }, 4},
		"more than so many GPUs":            {func(s *side) { s.require(bound(awsv1.LabelInstanceGPUCount, corev1.NodeSelectorOpGt, "1")) }, 4},
		"more GPU memory than one type has": {func(s *side) { s.require(bound(awsv1.LabelInstanceGPUMemory, corev1.NodeSelectorOpGt, "20000")) }, 2},
		"its own name":                      {func(s *side) { s.require(need(karpv1.NodePoolLabelKey, "gpu")) }, 0},
		"the name of another pool":          {func(s *side) { s.require(need(karpv1.NodePoolLabelKey, "other")) }, 4},
		"user data":                         {func(s *side) { s.class.Spec.UserData = &text }, 4},
		"tags":                              {func(s *side) { s.class.Spec.Tags = map[string]string{"cost": "1"} }, 4},
		"tags that are empty":               {func(s *side) { s.class.Spec.Tags = map[string]string{} }, 4},
		"another role":                      {func(s *side) { s.class.Spec.Role = "others" }, 4},
		"detailed monitoring":               {func(s *side) { s.class.Spec.DetailedMonitoring = &yes }, 4},
		"the kubelet's pods":                {func(s *side) { s.class.Spec.Kubelet = awsv1.KubeletConfiguration{"maxPods": awsv1.JSONValue(many)} }, 4},
		"metadata options":                  {func(s *side) { s.class.Spec.MetadataOptions = &awsv1.MetadataOptions{HTTPPutResponseHopLimit: &hop} }, 4},
		"a placement group":                 {func(s *side) { s.class.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: &text} }, 4},
		"prefixes of addresses":             {func(s *side) { s.class.Spec.IPPrefixCount = &many }, 0},
		"a disk": {func(s *side) {
			size := resource.MustParse("60Gi")
			s.class.Spec.BlockDeviceMappings = []*awsv1.BlockDeviceMapping{{EBS: &awsv1.BlockDevice{VolumeSize: &size}}}
		}, 4},
		"another family": {func(s *side) { other := awsv1.AMIFamilyBottlerocket; s.class.Spec.AMIFamily = &other }, 4},
		"the same family by an alias": {func(s *side) {
			s.class.Spec.AMIFamily, s.class.Spec.AMISelectorTerms = nil, []awsv1.AMISelectorTerm{{Alias: "al2023@v1"}}
		}, 0},
		"another family by an alias": {func(s *side) {
			s.class.Spec.AMIFamily, s.class.Spec.AMISelectorTerms = nil, []awsv1.AMISelectorTerm{{Alias: "bottlerocket@v1"}}
		}, 4},
		"another image":                     {func(s *side) { s.class.Spec.AMISelectorTerms = images("ami-1") }, 4},
		"a newer image beside":              {func(s *side) { s.class.Spec.AMISelectorTerms = images("ami-2", "ami-3") }, 4},
		"an older image beside":             {func(s *side) { s.class.Spec.AMISelectorTerms = images("ami-2", "ami-1") }, 0},
		"the image, by its tags":            {func(s *side) { s.class.Spec.AMISelectorTerms = images("") }, 0},
		"the image, by its name":            {func(s *side) { s.class.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{ID: "ami-2", Name: "x"}} }, 0},
		"a subnet less":                     {func(s *side) { s.class.Spec.SubnetSelectorTerms = subnets("subnet-a1") }, 2},
		"a subnet more":                     {func(s *side) { s.class.Spec.SubnetSelectorTerms = subnets("subnet-a2", "subnet-a1", "subnet-b1") }, 0},
		"another subnet in the same zone":   {func(s *side) { s.class.Spec.SubnetSelectorTerms = subnets("subnet-a2", "subnet-b1") }, 2},
		"none of its subnets":               {func(s *side) { s.class.Spec.SubnetSelectorTerms = subnets("subnet-a2") }, 4},
		"subnets in another order":          {func(s *side) { s.class.Spec.SubnetSelectorTerms = subnets("subnet-b1", "subnet-a1") }, 0},
		"the subnets, by their tags":        {func(s *side) { s.class.Spec.SubnetSelectorTerms = subnets("") }, 0},
		"another group":                     {func(s *side) { s.class.Spec.SecurityGroupSelectorTerms = groups("sg-2") }, 4},
		"a group more":                      {func(s *side) { s.class.Spec.SecurityGroupSelectorTerms = groups("sg-1", "sg-2") }, 4},
		"the group, twice":                  {func(s *side) { s.class.Spec.SecurityGroupSelectorTerms = groups("sg-1", "sg-1") }, 0},
		"another group, by its tags":        {func(s *side) { s.class.Spec.SecurityGroupSelectorTerms = groups("") }, 4},
		"both a taint and the pool's class": {func(s *side) { s.pool.Spec.Template.Spec.Taints, s.class.Spec.UserData = nil, &text }, 4},
		"both the image and a type": {func(s *side) {
			s.class.Spec.AMISelectorTerms = images("ami-1")
			s.pool.Spec.Template.Spec.Requirements[0].Values = []string{"g5.xlarge"}
		}, 4},
		"both the group and a subnet": {func(s *side) {
			s.class.Spec.SecurityGroupSelectorTerms, s.class.Spec.SubnetSelectorTerms = groups("sg-2"), subnets("subnet-a1")
		}, 4},
	}
}

func (s *side) require(r karpv1.NodeSelectorRequirementWithMinValues) {
	s.pool.Spec.Template.Spec.Requirements = append(s.pool.Spec.Template.Spec.Requirements, r)
}

func bare(key string, operator corev1.NodeSelectorOperator) karpv1.NodeSelectorRequirementWithMinValues {
	return karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: operator}
}

func bound(key string, operator corev1.NodeSelectorOperator, value string) karpv1.NodeSelectorRequirementWithMinValues {
	return karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: operator, Values: []string{value}}
}

// Karpenter's controllers, with the AWS provider's own comparison of images, subnets and
// groups, decide after each change, and the forecast is held against them.
func TestAStepReplacesWhatKarpenterAndItsProviderReplace(t *testing.T) {
	ctx, types := resolver(t)
	for name, change := range edits() {
		t.Run(name, func(t *testing.T) {
			was, is := base(), base()
			change.make(&is)
			if got := holds(ctx, t, types, was, is); got != change.drifted {
				t.Errorf("%d of 4 nodes drift by Karpenter, not %d", got, change.drifted)
			}
		})
	}
}

// Each step of the walk starts where another has ended, so that steps also undo changes
// and make several at once.
func TestARandomWalkOfStepsReplacesWhatKarpenterReplaces(t *testing.T) {
	ctx, types := resolver(t)
	r := rand.New(rand.NewPCG(13, 7))
	values := func(ids ...string) []string {
		r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		return ids[:1+r.IntN(len(ids))]
	}
	moves := []func(*side){
		func(s *side) { s.class.Spec.AMISelectorTerms = images(values("ami-1", "ami-2", "ami-3", "")...) },
		func(s *side) {
			s.class.Spec.SubnetSelectorTerms = subnets(values("subnet-a1", "subnet-a2", "subnet-b1", "")...)
		},
		func(s *side) { s.class.Spec.SecurityGroupSelectorTerms = groups(values("sg-1", "sg-2", "sg-3", "")...) },
		func(s *side) {
			s.pool.Spec.Template.Spec.Requirements[0].Values = values("g4dn.xlarge", "g5.xlarge", "g6.xlarge")
		},
		func(s *side) { s.pool.Spec.Template.Spec.Requirements[1].Values = values("spot", "on-demand") },
		func(s *side) { s.pool.Spec.Template.Labels = map[string]string{"team": values("ml", "vision")[0]} },
		func(s *side) { s.class.Spec.Tags = map[string]string{"cost": values("1", "2")[0]} },
	}
	was := base()
	total := 0
	for range 40 {
		is := was.clone()
		for range 1 + r.IntN(2) {
			moves[r.IntN(len(moves))](&is)
		}
		total += holds(ctx, t, types, was, is)
		was = is
	}
	if total == 0 {
		t.Error("no node has drifted on the way")
	}
}
