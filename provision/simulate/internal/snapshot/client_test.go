package snapshot_test

import (
	"maps"
	"slices"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

// podSnapshot is a snapshot with pods, and the same in a client that emulates the API server.
func podSnapshot() (*snapshot.Indexed, client.Client) {
	app := func(value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Labels = map[string]string{"app": value} }
	}
	elsewhere := func(p *corev1.Pod) { p.Namespace = "other" }
	from := provision.ClusterSnapshot{
		NodePools: []*karpv1.NodePool{pool("b", "c"), pool("a", "c")},
		Nodes:     []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, {ObjectMeta: metav1.ObjectMeta{Name: "n2"}}},
		Pods: []*corev1.Pod{
			pod("a", "n1", app("x")), pod("b", "n1", app("y")), pod("c", "n2", app("x")), pod("d", "", app("x")),
			pod("e", "n1", app("x"), elsewhere), pod("f", "unknown", app("y")),
		},
		PodDisruptionBudgets: []*policyv1.PodDisruptionBudget{{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "p"}}},
		Overlays:             []*karpv1alpha1.NodeOverlay{overlay("o", "1", "")},
	}
	builder := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
		p, _ := o.(*corev1.Pod)
		return []string{p.Spec.NodeName}
	})
	for _, o := range from.NodePools {
		builder.WithObjects(o.DeepCopy())
	}
	for _, o := range from.Nodes {
		builder.WithObjects(o.DeepCopy())
	}
	for _, o := range from.Pods {
		builder.WithObjects(o.DeepCopy())
	}
	for _, o := range from.Overlays {
		builder.WithObjects(o.DeepCopy())
	}
	for _, o := range from.PodDisruptionBudgets {
		builder.WithObjects(o.DeepCopy())
	}
	return snapshot.New(from, snapshot.Unknowns{}), builder.Build()
}

// listed are the names of what a client lists.
func listed(t *testing.T, c client.Reader, list client.ObjectList, opts ...client.ListOption) []string {
	t.Helper()
	if err := c.List(t.Context(), list, opts...); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	add := func(o metav1.Object) { names[o.GetNamespace()+"/"+o.GetName()] = true }
	switch list := list.(type) {
	case *corev1.PodList:
		for i := range list.Items {
			add(&list.Items[i])
		}
	case *karpv1.NodePoolList:
		for i := range list.Items {
			add(&list.Items[i])
		}
	case *karpv1alpha1.NodeOverlayList:
		for i := range list.Items {
			add(&list.Items[i])
		}
	case *policyv1.PodDisruptionBudgetList:
		for i := range list.Items {
			add(&list.Items[i])
		}
	default:
		t.Fatalf("%T", list)
	}
	return slices.Sorted(maps.Keys(names))
}

// selecting is a selector as kubectl takes it.
func selecting(text string) client.ListOption {
	selector, err := labels.Parse(text)
	if err != nil {
		panic(err)
	}
	return client.MatchingLabelsSelector{Selector: selector}
}

func TestASnapshotIsReadLikeACluster(t *testing.T) {
	f, cluster := podSnapshot()
	snapshot := &snapshot.Client{Snapshot: f}
	on := func(node string) client.ListOption { return client.MatchingFields{"spec.nodeName": node} }
	tests := map[string]struct {
		list func() client.ObjectList
		opts []client.ListOption
	}{
		"all pods":                               {func() client.ObjectList { return &corev1.PodList{} }, nil},
		"pods of a namespace":                    {func() client.ObjectList { return &corev1.PodList{} }, []client.ListOption{client.InNamespace("ml")}},
		"pods by a label":                        {func() client.ObjectList { return &corev1.PodList{} }, []client.ListOption{client.MatchingLabels{"app": "x"}}},
		"pods of a namespace by a label":         {func() client.ObjectList { return &corev1.PodList{} }, []client.ListOption{client.InNamespace("ml"), client.MatchingLabels{"app": "x"}}},
		"pods of a namespace by no such label":   {func() client.ObjectList { return &corev1.PodList{} }, []client.ListOption{client.InNamespace("ml"), client.MatchingLabels{"app": "z"}}},
		"pods of a namespace by two values":      {func() client.ObjectList { return &corev1.PodList{} }, []client.ListOption{client.InNamespace("ml"), selecting("app in (x, y), app != y")}},
		"pods of a namespace without a label":    {func() client.ObjectList { return &corev1.PodList{} }, []client.ListOption{client.InNamespace("ml"), selecting("!app")}},
		"pods of no namespace that there is":     {func() client.ObjectList { return &corev1.PodList{} }, []client.ListOption{client.InNamespace("none"), selecting("app in (x, y)")}},
		"pods on a node":                         {func() client.ObjectList { return &corev1.PodList{} }, []client.ListOption{on("n1")}},
		"pods on a node, by label and namespace": {func() client.ObjectList { return &corev1.PodList{} }, []client.ListOption{on("n1"), client.InNamespace("ml"), client.MatchingLabels{"app": "x"}}},
		"pods on a node that is not there":       {func() client.ObjectList { return &corev1.PodList{} }, []client.ListOption{on("n3")}},
		"pods on a node that only they name":     {func() client.ObjectList { return &corev1.PodList{} }, []client.ListOption{on("unknown")}},
		"pools":                                  {func() client.ObjectList { return &karpv1.NodePoolList{} }, nil},
		"overlays":                               {func() client.ObjectList { return &karpv1alpha1.NodeOverlayList{} }, nil},
		"disruption budgets":                     {func() client.ObjectList { return &policyv1.PodDisruptionBudgetList{} }, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			list := tt.list()
			got := listed(t, snapshot, list, tt.opts...)
			if diff := cmp.Diff(listed(t, cluster, tt.list(), tt.opts...), got); diff != "" {
				t.Errorf("(-cluster +snapshot):\n%s", diff)
			}
			// A list is filled anew, not added to.
			if diff := cmp.Diff(got, listed(t, snapshot, list, tt.opts...)); diff != "" {
				t.Errorf("the second time (-first +second):\n%s", diff)
			}
		})
	}
}

func TestNodesThatAreGoneAreNotRead(t *testing.T) {
	f, _ := podSnapshot()
	snapshot := &snapshot.Client{Snapshot: f, Deleted: map[string]bool{"n1": true}}
	if diff := cmp.Diff([]string{"ml/c", "ml/d", "ml/f"}, listed(t, snapshot, &corev1.PodList{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := listed(t, snapshot, &corev1.PodList{}, client.MatchingFields{"spec.nodeName": "n1"}); len(got) > 0 {
		t.Errorf("on a node that is gone: %v", got)
	}
	for name, there := range map[string]bool{"n1": false, "n2": true, "n3": false} {
		var node corev1.Node
		err := snapshot.Get(t.Context(), client.ObjectKey{Name: name}, &node)
		if there != (err == nil && node.Name == name) || !there && !apierrors.IsNotFound(err) {
			t.Errorf("node %s: %q, %v", name, node.Name, err)
		}
	}
	for _, o := range []client.Object{&corev1.Pod{}, &karpv1.NodePool{}, &awsv1.EC2NodeClass{}} {
		if err := snapshot.Get(t.Context(), client.ObjectKey{Namespace: "ml", Name: "c"}, o); !apierrors.IsNotFound(err) {
			t.Errorf("a %T is read by its name: %v", o, err)
		}
	}
}

func TestOnlyTheRefusalOfAnOverlayIsTaken(t *testing.T) {
	f, _ := podSnapshot()
	snapshot := &snapshot.Client{Snapshot: f, Refused: map[string]string{}}
	accepted, refused := overlay("accepted", "1", ""), overlay("refused", "1", "")
	accepted.StatusConditions().SetTrue(karpv1alpha1.ConditionTypeValidationSucceeded)
	refused.StatusConditions().SetFalse(karpv1alpha1.ConditionTypeValidationSucceeded, "Conflict", "conflicts with another")
	for _, o := range []client.Object{accepted, refused, overlay("without a status", "1", "")} {
		if err := snapshot.Status().Patch(t.Context(), o, nil); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(map[string]string{"refused": "conflicts with another"}, snapshot.Refused); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if snapshot.Status().Patch(t.Context(), &karpv1.NodePool{}, nil) == nil {
		t.Error("the status of a NodePool is written")
	}
	// What Karpenter writes on a list's item is not written into the snapshot.
	var list karpv1alpha1.NodeOverlayList
	if err := snapshot.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	list.Items[0].StatusConditions().SetTrue(karpv1alpha1.ConditionTypeValidationSucceeded)
	if len(f.Overlays[0].Status.Conditions) > 0 {
		t.Error("the snapshot's own overlay is written to")
	}
}

func TestUnknownsAreSortedAndEachIsThereOnce(t *testing.T) {
	u := snapshot.Unknowns{}
	u.Add("B", "", "%s is unknown", "b")
	u.AddDrift("A", "NodePool/a", "%s is unknown", "a")
	u.Add("B", "", "%s is unknown", "b")
	if diff := cmp.Diff([]provision.Unknown{{Code: "A", Object: "NodePool/a", Text: "a is unknown", MoreReplaced: true}, {Code: "B", Text: "b is unknown"}}, u.Sorted()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := (snapshot.Unknowns{}).Sorted(); got == nil || len(got) > 0 {
		t.Errorf("of none: %#v", got)
	}
}

func TestPodsThatWereRemovedAreNotListedAnyMore(t *testing.T) {
	f, _ := podSnapshot()
	c := &snapshot.Client{Snapshot: f}
	apps := []client.ListOption{client.InNamespace("ml"), client.MatchingLabels{"app": "x"}}
	before := listed(t, c, &corev1.PodList{}, apps...)
	f.RemovePods(map[provision.Pod]bool{{Namespace: "ml", Name: "a"}: true})
	after := listed(t, c, &corev1.PodList{}, apps...)
	if diff := cmp.Diff([]string{"ml/a", "ml/c", "ml/d"}, before); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"ml/c", "ml/d"}, after); diff != "" {
		t.Error(diff)
	}
}
