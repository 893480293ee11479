package get

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
)

// installed is the client of an API server with these objects, which selects events by their reasons.
func installed(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	reconcilertest.InstalledClient(t) // completes the scheme
	return fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).WithIndex(&corev1.Event{}, "reason", func(o client.Object) []string {
		return []string{o.(*corev1.Event).Reason}
	}).Build()
}

// denying is a client by which lists of a kind fail.
func denying(t *testing.T, fail func(client.ObjectList) error, objects ...client.Object) client.Client {
	t.Helper()
	return interceptor.NewClient(installed(t, objects...), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if err := fail(list); err != nil {
				return err
			}
			return c.List(ctx, list, options...)
		},
	})
}

func forbidden(what string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: what}, "", errors.New("not allowed"))
}

func TestWhatAUserMayNotReadIsLeftOutAndNamed(t *testing.T) {
	one, sync := claim("x", "gpu", "g5.xlarge", "spot"), readySync("dev")
	objects := []client.Object{&one, &sync}
	for name, test := range map[string]struct {
		section   sectionName
		namespace string
		fail      func(client.ObjectList) error
		warning   string
		err       string
	}{
		"pods": {sectionNodes, "poolwright-system", func(l client.ObjectList) error {
			if _, is := l.(*corev1.PodList); is {
				return forbidden("pods")
			}
			return nil
		}, "Warning: you have no permission to list pods; to check, run: kubectl auth can-i list pods -A\n", ""},
		"Syncs of the namespace": {sectionSyncs, "poolwright-system", func(client.ObjectList) error { return forbidden("syncs") }, "",
			"you have no permission to list syncs.poolwright.dev; to check, run: kubectl auth can-i list syncs.poolwright.dev -n poolwright-system"},
		"Syncs of all namespaces": {sectionSyncs, "", func(client.ObjectList) error { return forbidden("syncs") }, "",
			"you have no permission to list syncs.poolwright.dev; to check, run: kubectl auth can-i list syncs.poolwright.dev -A"},
		"all": {sectionAll, "", func(client.ObjectList) error { return forbidden("all") }, "", "nothing could be read"},
		"a kind that is not installed": {sectionAll, "", func(l client.ObjectList) error {
			if _, is := l.(*karpv1.NodePoolList); is {
				return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "karpenter.sh", Kind: "NodePool"}}
			}
			return nil
		}, "Warning: the cluster does not have the kind nodepools.karpenter.sh; to check the installation, run: poolwright check\n", ""},
		"a kind whose list fails": {sectionNodes, "poolwright-system", func(l client.ObjectList) error {
			if _, is := l.(*corev1.PodList); is {
				return errors.New("etcd\x1b is full")
			}
			return nil
		}, "Warning: listing pods: etcd\\x1b is full; run the command again\n", ""},
		"the kind of the section, whose list fails": {sectionNodes, "poolwright-system", func(l client.ObjectList) error {
			if _, is := l.(*karpv1.NodeClaimList); is {
				return errors.New("etcd is full")
			}
			return nil
		}, "", "listing nodeclaims.karpenter.sh: etcd is full; run the command again"},
		"an API server that fails": {sectionPools, "", func(client.ObjectList) error { return errors.New("etcd is full") }, "", "listing nodepools.karpenter.sh: etcd is full"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := read(t.Context(), denying(t, test.fail, objects...), test.section, test.namespace)
			var warnings bytes.Buffer
			if err == nil {
				err = reportUnread(&warnings, NewReport(o, now(), types(t)), reportSource{namespace: test.namespace, rowSelection: rowSelection{section: test.section}})
			}
			if got := fmt.Sprint(err); !strings.Contains(got, test.err) || (err == nil) != (test.err == "") {
				t.Errorf("error %q lacks %q", got, test.err)
			}
			if test.err == "" && warnings.String() != test.warning {
				t.Errorf("stderr %q, want %q", warnings.String(), test.warning)
			}
		})
	}
}

// pagesOf is a reader that returns pods in pages, endlessly.
type pagesOf struct {
	client.Reader
	perPage, lists int
}

func (p *pagesOf) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	if o.Limit != pageSize || (p.lists > 0) != (o.Continue == fmt.Sprint(p.lists)) {
		return fmt.Errorf("page %d is requested by limit %d and token %q", p.lists, o.Limit, o.Continue)
	}
	p.lists++
	list.(*corev1.PodList).Items = make([]corev1.Pod, p.perPage)
	list.SetContinue(fmt.Sprint(p.lists))
	return nil
}

func TestListsAreBounded(t *testing.T) {
	endless := &pagesOf{perPage: pageSize}
	k := readers(sectionPools, "")
	var o Objects
	err := k[len(k)-1].read(t.Context(), endless, &o)
	if !errors.Is(err, errTooMany) || len(o.Pods) != maxObjects || endless.lists != maxObjects/pageSize {
		t.Errorf("%d pods of %d lists, and %v", len(o.Pods), endless.lists, err)
	}
	unread, ok := unreadOf(kindPods, "", err)
	if !ok || unread.Reason != tooMany {
		t.Errorf("it is reported as %+v", unread)
	}
}

func TestPodsAreReducedToWhatTheyRequest(t *testing.T) {
	spec := func(gpus string) corev1.PodSpec {
		return corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(gpus)}}}}}
	}
	yes := true
	list := &corev1.PodList{Items: []corev1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Name: "runs", Annotations: map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}}, Spec: spec("2")},
		{ObjectMeta: metav1.ObjectMeta{Name: "ended"}, Spec: spec("1"), Status: corev1.PodStatus{Phase: corev1.PodSucceeded}},
		{ObjectMeta: metav1.ObjectMeta{Name: "daemon", OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Controller: &yes}}}, Spec: spec("0")},
	}}
	var o Objects
	addPods(&o, list)
	want := []Pod{{Name: "runs", Node: "n", GPUs: gpu.Resources{"nvidia.com/gpu": 2}, DoNotDisrupt: true}, {Name: "daemon", Node: "n", DaemonSet: true}}
	if diff := cmp.Diff(want, o.Pods); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
}

func TestEventsAreThoseOfWhatKarpenterDoesNotDisrupt(t *testing.T) {
	event := func(name, namespace, reason string) *corev1.Event {
		return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Reason: reason}
	}
	kube := installed(t, event("a", "default", reasonBlocked), event("b", "default", reasonUnconsolidatable), event("c", "default", "Registered"), event("d", "web", reasonBlocked))
	o, err := read(t.Context(), kube, sectionNodes, "")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range o.Events {
		names = append(names, e.Name)
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "a b" {
		t.Errorf("events %s", got)
	}
}

func TestOfSeveralClustersTheOldestCounts(t *testing.T) {
	var o Objects
	for _, name := range []string{"b", "a"} {
		c := reconcilertest.Cluster(func(c *v1alpha1.Cluster) {
			if c.Name = name; name == "b" {
				c.CreationTimestamp = ago(1)
			}
		})
		addClusters(&o, &v1alpha1.ClusterList{Items: []v1alpha1.Cluster{*c}})
	}
	if o.Cluster.Name != "a" {
		t.Errorf("Cluster %s counts", o.Cluster.Name)
	}
}

func TestEachSectionReadsOnlyWhatItNeeds(t *testing.T) {
	for s, want := range map[sectionName]string{
		sectionSyncs: kindSyncs, sectionPulls: kindSyncs, sectionDrift: kindSyncs + " " + kindClusters, sectionQuota: kindClusters,
		sectionNodes: strings.Join([]string{kindClusters, kindPlugins, kindPools, kindClaims, kindNodes, kindPods, kindEvents, kindEvents}, " "),
	} {
		var kinds []string
		for _, k := range readers(s, "") {
			kinds = append(kinds, k.kind)
		}
		if got := strings.Join(kinds, " "); got != want {
			t.Errorf("%s reads %s, not %s", s, got, want)
		}
	}
}
