package drift_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	awscloud "github.com/aws/karpenter-provider-aws/pkg/cloudprovider"
	classhash "github.com/aws/karpenter-provider-aws/pkg/controllers/nodeclass/hash"
	"github.com/aws/karpenter-provider-aws/pkg/providers/instance"
	"github.com/aws/karpenter-provider-aws/pkg/providers/instancetype"
	"github.com/aws/karpenter-provider-aws/pkg/providers/placementgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	clocktest "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/disruption"
	poolhash "sigs.k8s.io/karpenter/pkg/controllers/nodepool/hash"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/simulate/internal/drift"
	"github.com/poolwright/poolwright/provision/simulate/internal/offerings"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

const (
	region   = "us-east-1"
	caBundle = "Y2EtYnVuZGxl"
)

// noon is the moment of every cluster here.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// account is what EC2 has for the selectors of classes: subnets by id with their zones,
// groups, and images, the newest first as the provider lists them.
type account struct {
	subnets []awsv1.Subnet
	groups  []string
	images  []string
	// tagged are the ids that a selector by tags finds.
	tagged map[string]bool
}

func emulated() account {
	return account{
		subnets: []awsv1.Subnet{{ID: "subnet-a1", Zone: "us-east-1a"}, {ID: "subnet-a2", Zone: "us-east-1a"}, {ID: "subnet-b1", Zone: "us-east-1b"}},
		groups:  []string{"sg-3", "sg-1", "sg-2"},
		images:  []string{"ami-3", "ami-2", "ami-1"},
		tagged:  map[string]bool{"subnet-a1": true, "subnet-b1": true, "sg-2": true, "ami-2": true},
	}
}

// found is what the provider would write into the status of the class.
func (a account) found(class *awsv1.EC2NodeClass) (out awsv1.EC2NodeClassStatus) {
	finds := func(id, of string) bool { return id == of || id == "" && a.tagged[of] }
	for _, s := range a.subnets {
		if slices.ContainsFunc(class.Spec.SubnetSelectorTerms, func(t awsv1.SubnetSelectorTerm) bool { return finds(t.ID, s.ID) }) {
			out.Subnets = append(out.Subnets, s)
		}
	}
	for _, id := range a.groups {
		if slices.ContainsFunc(class.Spec.SecurityGroupSelectorTerms, func(t awsv1.SecurityGroupSelectorTerm) bool { return finds(t.ID, id) }) {
			out.SecurityGroups = append(out.SecurityGroups, awsv1.SecurityGroup{ID: id})
		}
	}
	for _, id := range a.images {
		if slices.ContainsFunc(class.Spec.AMISelectorTerms, func(t awsv1.AMISelectorTerm) bool { return finds(t.ID, id) }) {
			out.AMIs = append(out.AMIs, awsv1.AMI{ID: id})
		}
	}
	return out
}

// side is a pool with its class.
type side struct {
	pool  *karpv1.NodePool
	class *awsv1.EC2NodeClass
}

func (s side) clone() side { return side{s.pool.DeepCopy(), s.class.DeepCopy()} }

// base is a pool of GPUs whose class selects everything by id.
func base() side {
	family := awsv1.AMIFamilyAL2023
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	pool.Spec.Template.Labels = map[string]string{"team": "ml"}
	pool.Spec.Template.Spec = karpv1.NodeClaimTemplateSpec{
		NodeClassRef: &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "gpu"},
		Taints:       []corev1.Taint{{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}},
		Requirements: []karpv1.NodeSelectorRequirementWithMinValues{
			need(corev1.LabelInstanceTypeStable, "g4dn.xlarge", "g5.xlarge"), need(karpv1.CapacityTypeLabelKey, "on-demand"),
		},
	}
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	class.Spec.AMIFamily, class.Spec.Role = &family, "nodes"
	class.Spec.AMISelectorTerms = images("ami-2")
	class.Spec.SubnetSelectorTerms = subnets("subnet-a1", "subnet-b1")
	class.Spec.SecurityGroupSelectorTerms = groups("sg-1")
	return side{pool, class}
}

func need(key string, values ...string) karpv1.NodeSelectorRequirementWithMinValues {
	return karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

// Of an id that is empty the term selects by tags.
func images(ids ...string) (out []awsv1.AMISelectorTerm) {
	for _, id := range ids {
		out = append(out, awsv1.AMISelectorTerm{ID: id, Tags: tags(id)})
	}
	return out
}

func subnets(ids ...string) (out []awsv1.SubnetSelectorTerm) {
	for _, id := range ids {
		out = append(out, awsv1.SubnetSelectorTerm{ID: id, Tags: tags(id)})
	}
	return out
}

func groups(ids ...string) (out []awsv1.SecurityGroupSelectorTerm) {
	for _, id := range ids {
		out = append(out, awsv1.SecurityGroupSelectorTerm{ID: id, Tags: tags(id)})
	}
	return out
}

func tags(id string) map[string]string {
	if id != "" {
		return nil
	}
	return map[string]string{"cluster": "c"}
}

// resolver has the instance types of a few families, as the provider makes them.
func resolver(t *testing.T) (context.Context, *offerings.Catalog) {
	t.Helper()
	all, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	few, err := all.Subset("g4dn", "g5", "g6")
	if err != nil {
		t.Fatal(err)
	}
	settings := engine.DefaultSettings()
	settings.Cluster, settings.Region, settings.Account = "c", region, "111122223333"
	ctx := engine.Offline(t.Context(), settings)
	out, err := offerings.NewCatalog(ctx, provision.Cluster{Region: region}, few, snapshot.Unknowns{})
	if err != nil {
		t.Fatal(err)
	}
	return ctx, out
}

// read is a side as the comparison reads it.
func (s side) read(ctx context.Context, t *testing.T, types *offerings.Catalog, bundle string) *offerings.Resolved {
	t.Helper()
	out, err := types.Resolve(ctx, snapshot.New(provision.ClusterSnapshot{
		Now: noon, Cluster: provision.Cluster{Region: region, CABundle: bundle},
		NodePools: []*karpv1.NodePool{s.pool}, NodeClasses: []*awsv1.EC2NodeClass{s.class},
	}, snapshot.Unknowns{}))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// machine is a node that runs: its NodeClaim, and what EC2 has of it.
type machine struct {
	claim  *karpv1.NodeClaim
	subnet string
	groups []string
}

// machines are one of each offering and subnet that the side can buy, launched as the
// provider would.
func (s side) machines(f *offerings.Resolved) (out []machine) {
	bundle := caBundle
	var ids []string
	for _, g := range s.class.Status.SecurityGroups {
		ids = append(ids, g.ID)
	}
	desired := offerings.Requirements(s.pool)
	for _, it := range f.Offerings[s.pool.Name].Allowed {
		for _, of := range it.Offerings.Available().Compatible(desired) {
			for _, subnet := range s.class.Status.Subnets {
				if subnet.Zone != of.Zone() {
					continue
				}
				all := scheduling.NewRequirements(it.Requirements.Values()...)
				all.Add(of.Requirements.Values()...)
				all.Add(desired.Values()...)
				labels := map[string]string{karpv1.NodePoolLabelKey: s.pool.Name}
				for key, r := range all {
					if r.Operator() == corev1.NodeSelectorOpIn && r.Len() == 1 {
						labels[key] = r.Any()
					}
				}
				maps.Copy(labels, s.pool.Spec.Template.Labels)
				name := fmt.Sprint(it.Name, "-", of.CapacityType(), "-", subnet.ID)
				claim := &karpv1.NodeClaim{
					ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(noon), Labels: labels, Annotations: map[string]string{
						karpv1.NodePoolHashAnnotationKey: s.pool.Hash(), karpv1.NodePoolHashVersionAnnotationKey: karpv1.NodePoolHashVersion,
						awsv1.AnnotationEC2NodeClassHash: s.class.Hash(&bundle), awsv1.AnnotationEC2NodeClassHashVersion: awsv1.EC2NodeClassHashVersion,
					}},
					Spec:   karpv1.NodeClaimSpec{NodeClassRef: s.pool.Spec.Template.Spec.NodeClassRef},
					Status: karpv1.NodeClaimStatus{ProviderID: "aws:///" + subnet.Zone + "/i-0123456789abcdef0", ImageID: s.class.Status.AMIs[0].ID},
				}
				claim.StatusConditions().SetTrue(karpv1.ConditionTypeLaunched)
				out = append(out, machine{claim, subnet.ID, ids})
			}
		}
	}
	return out
}

type typesOf struct {
	instancetype.Provider
	all []*cloudprovider.InstanceType
}

func (p typesOf) List(context.Context, instancetype.NodeClass) ([]*cloudprovider.InstanceType, error) {
	return p.all, nil
}

type instanceOf struct {
	instance.Provider
	machine machine
}

func (p instanceOf) Get(context.Context, string, ...instance.Options) (*instance.Instance, error) {
	return &instance.Instance{SubnetID: p.machine.subnet, SecurityGroupIDs: p.machine.groups}, nil
}

type noPlacementGroup struct{}

func (noPlacementGroup) Get(context.Context, placementgroup.NodeClass) (*placementgroup.PlacementGroup, error) {
	return nil, nil
}

// upstream is the reason that Karpenter's own controllers write on the node under a side,
// with the AWS provider's own IsDrifted; empty for none.
func (s side) upstream(ctx context.Context, t *testing.T, m machine, all []*cloudprovider.InstanceType) string {
	t.Helper()
	pool, class, claim := s.pool.DeepCopy(), s.class.DeepCopy(), m.claim.DeepCopy()
	// As the controllers have left them before the change, so that nodes are not marked anew.
	pool.Annotations = map[string]string{karpv1.NodePoolHashVersionAnnotationKey: karpv1.NodePoolHashVersion}
	class.Annotations = map[string]string{awsv1.AnnotationEC2NodeClassHashVersion: awsv1.EC2NodeClassHashVersion}
	api := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithStatusSubresource(&karpv1.NodeClaim{}).WithObjects(pool, class, claim).Build()
	bundle := caBundle
	cloud := awscloud.New(typesOf{all: all}, instanceOf{machine: m}, nil, api, nil, nil, nil, noPlacementGroup{}, nil, &bundle)
	if _, err := classhash.NewController(api, &bundle).Reconcile(ctx, class); err != nil {
		t.Fatal(err)
	}
	if _, err := poolhash.NewController(api, cloud).Reconcile(ctx, pool); err != nil {
		t.Fatal(err)
	}
	live := &karpv1.NodeClaim{}
	if err := api.Get(ctx, client.ObjectKeyFromObject(claim), live); err != nil {
		t.Fatal(err)
	}
	if _, err := disruption.NewController(clocktest.NewFakeClock(noon), api, cloud).Reconcile(ctx, live); err != nil {
		t.Fatal(err)
	}
	if found := live.StatusConditions().Get(karpv1.ConditionTypeDrifted); found.IsTrue() {
		return found.Reason
	}
	return ""
}

// holds compares a change with what Karpenter does after it, for each node that there may
// be, and returns how many of them drift.
func holds(ctx context.Context, t *testing.T, types *offerings.Catalog, was, is side) (drifted int) {
	t.Helper()
	ec2 := emulated()
	was.class.Status, is.class.Status = ec2.found(was.class), ec2.found(is.class)
	before := was.read(ctx, t, types, caBundle)
	// What is declared has the status of before, as Indexed.Observe leaves it.
	declared := is.clone()
	declared.class.Status = was.class.Status
	step := &drift.Change{Before: before, After: declared.read(ctx, t, types, caBundle), Unknown: snapshot.Unknowns{}}
	every, some := step.Extent("gpu")
	reasons := map[string]bool{}
	nodes := was.machines(before)
	for _, m := range nodes {
		if now := step.ReasonBefore(m.claim, was.pool); now != "" {
			t.Errorf("%s drifts for %s before the change", m.claim.Name, now)
		}
		got, want := step.ReasonAfter(m.claim, was.pool, is.pool), is.upstream(ctx, t, m, before.Offerings["gpu"].All)
		open := slices.ContainsFunc(step.Unknown.Sorted(), func(u provision.Unknown) bool { return u.MoreReplaced })
		if got != want && (got != "" || !open) {
			t.Errorf("%s: forecast %q, Karpenter's %q", m.claim.Name, got, want)
		}
		if want != "" {
			drifted++
			reasons[want] = true
		}
	}
	if len(nodes) == 0 {
		t.Fatal("no node is possible")
	}
	if every && drifted < len(nodes) {
		t.Errorf("the change is to reach every node, and %d of %d drift", drifted, len(nodes))
	}
	if !every && !some && drifted > 0 {
		t.Errorf("the change is to reach no node, and %d of %d drift for %v", drifted, len(nodes), slices.Sorted(maps.Keys(reasons)))
	}
	changes := step.Changes("gpu", func(reason string) bool { return reasons[reason] })
	for reason := range reasons {
		if len(drift.Causes(changes, reason)) == 0 {
			t.Errorf("nodes drift for %s, and no change has caused it: %+v", reason, changes)
		}
	}
	for _, change := range step.Changes("gpu", func(string) bool { return true }) {
		if change.Reason != "" && drifted == 0 && (!every && !some || drift.DecidedByHash(change.Reason)) {
			t.Errorf("%s %s is to cause %s, and no node drifts", change.Object, change.Field, change.Reason)
		}
	}
	for _, change := range step.Changes("gpu", func(string) bool { return false }) {
		if change.Reason != "" && change.Reason != "NodePoolDrifted" && change.Reason != "NodeClassDrift" {
			t.Errorf("%s %s is to cause %s, for which no node is replaced", change.Object, change.Field, change.Reason)
		}
	}
	return drifted
}
