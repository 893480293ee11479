package forecasting

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/forecasting/forecasttest"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// agent is a DaemonSet that asks for so much of every node.
func agent(name, cpu string) *appsv1.DaemonSet {
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	labels := map[string]string{"app": name}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	set.Spec.Template.Labels = labels
	set.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "main", Image: "agent", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
	}}
	return set
}

// agentItem is one as a revision declares it, or a world wants it.
func agentItem(t *testing.T, name, namespace, cpu string) state.Item {
	t.Helper()
	object := content(t, agent(name, cpu))
	return state.Item{Key: state.Key{Target: "kubernetes", Group: "apps", Kind: "DaemonSet", Namespace: namespace, Name: name}, Version: "v1", Object: object}
}

func TestWhatRunsOnEveryNodeAfterAStep(t *testing.T) {
	stays, small, big := agentItem(t, "stays", "", "1"), agentItem(t, "agent", "", "1"), agentItem(t, "agent", "", "2")
	gone, bigger := agentItem(t, "agent", "default", "1"), agentItem(t, "agent", "default", "2")
	compared := agentItem(t, "stays", "default", "1")
	compared.ReadOnly = "nothing is deleted (prune: false)"
	class := state.Item{Key: state.Key{Target: "kubernetes", Group: "node.k8s.io", Kind: "RuntimeClass", Name: "sandboxed"}}
	tests := map[string]struct {
		before, after state.Set
		changes       []plan.Change
		want          []string
	}{
		"is what runs and what is declared": {
			state.NewSet(small), state.NewSet(big), []plan.Change{{Key: bigger.Key, Action: plan.Update, Before: &gone, After: &bigger}},
			[]string{"agent 2", "sandboxed", "stays 1"},
		},
		"is without what the change deletes": {
			state.NewSet(small), state.NewSet(stays), []plan.Change{{Key: gone.Key, Action: plan.Delete, Before: &gone}},
			[]string{"sandboxed", "stays 1"},
		},
		"is without the RuntimeClass that the change deletes": {
			state.Set{}, state.NewSet(small), []plan.Change{{Key: class.Key, Action: plan.Delete, Before: &class}, {Key: gone.Key, Action: plan.Update, Before: &gone, After: &gone}},
			[]string{"agent 1", "stays 1"},
		},
		"is with what is deleted by nobody": {
			state.NewSet(small), state.Set{}, []plan.Change{{Key: gone.Key, Action: plan.Delete, Before: &compared}, {Key: bigger.Key, Action: plan.Update, Before: &gone, After: &gone}},
			[]string{"agent 1", "sandboxed", "stays 1"},
		},
		"is with what something declared stands for": {
			state.Set{}, state.Set{}, []plan.Change{{Key: bigger.Key, Action: plan.Update, Before: &gone, After: &bigger}},
			[]string{"agent 2", "sandboxed", "stays 1"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			objects := append(forecasttest.Live(t), agent("agent", "1"), agent("stays", "1"), &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "sandboxed"}, Handler: "x"})
			reader := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build()
			var got []string
			_, err := live(reader, func(_ context.Context, _ v1alpha1.ClusterSpec, before, after provision.ClusterSnapshot) (provision.Forecast, error) {
				last := map[string]string{} // The last of a name counts.
				for _, set := range after.DaemonSets {
					last[set.Name] = set.Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().String()
				}
				for name, cpu := range last {
					got = append(got, name+" "+cpu)
				}
				for _, class := range after.RuntimeClasses {
					got = append(got, class.Name)
				}
				if !slices.ContainsFunc(before.DaemonSets, func(s *appsv1.DaemonSet) bool { return s.Name == "agent" }) || len(before.RuntimeClasses) != 1 {
					t.Error("before the change they run")
				}
				return provision.Forecast{}, nil
			})(t.Context(), tt.before, tt.after, tt.changes)
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheSnapshotIsReadAnewAfterItsMaxAge(t *testing.T) {
	for _, tt := range []struct {
		maxAge time.Duration
		want   int
	}{{0, 3}, {time.Nanosecond, 3}, {time.Hour, 1}} {
		pods, observed := 0, time.Time{}
		f := &SnapshotReader{MaxAge: tt.maxAge, Observed: func(at time.Time) { observed = at }}
		f.Reader = fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(forecasttest.Live(t)...).WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if _, ok := list.(*corev1.PodList); ok {
					pods++
				}
				return c.List(ctx, list, opts...)
			},
		}).Build()
		for range 3 {
			if _, err := f.Read(t.Context(), provision.Cluster{Region: "eu-west-1"}); err != nil {
				t.Fatal(err)
			}
			if tt.maxAge > 0 && !observed.Equal(f.at) {
				t.Errorf("read at %s, and observed is %s", f.at, observed)
			}
		}
		if pods != tt.want {
			t.Errorf("with a maximum age of %s, all pods were read %d times, not %d", tt.maxAge, pods, tt.want)
		}
		if tt.maxAge == 0 && f.cached.NodePools != nil {
			t.Error("without an age the snapshot is kept in memory")
		}
	}
}

func TestAForecastForForksIsTheSameWhateverPoolsOthersHave(t *testing.T) {
	ours := forecasttest.Live(t)
	for _, o := range ours {
		switch o.(type) {
		case *karpv1.NodePool, *awsv1.EC2NodeClass:
			o.SetLabels(map[string]string{v1alpha1.SyncLabel: "main"})
		}
	}
	claim, node := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "gpu-theirs"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}
	claim.Labels, node.Labels = map[string]string{karpv1.NodePoolLabelKey: "secret"}, map[string]string{karpv1.NodePoolLabelKey: "secret"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "theirs"}, Spec: corev1.PodSpec{NodeName: "theirs"}}
	theirs := []client.Object{
		&karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "secret", Labels: map[string]string{v1alpha1.SyncLabel: "other"}}},
		&awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "secret"}}, claim, node, pod,
	}
	snapshot := func(of string, objects ...client.Object) provision.ClusterSnapshot {
		live := &SnapshotReader{Reader: fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build(), Sync: of}
		out, err := live.Read(t.Context(), provision.Cluster{})
		if err != nil {
			t.Fatal(err)
		}
		out.Now = time.Time{}
		return out
	}
	alone, among := snapshot("main", ours...), snapshot("main", append(theirs, ours...)...)
	if d := cmp.Diff(alone, among); d != "" {
		t.Errorf("pools of others are among those of the Sync:\n%s", d)
	}
	if len(alone.NodePools) != 1 || len(alone.NodeClaims) != 1 || len(alone.Nodes) != 1 {
		t.Errorf("of the Sync's own there are %d pools, %d claims and %d nodes", len(alone.NodePools), len(alone.NodeClaims), len(alone.Nodes))
	}
	// The guard switched off: who may read the cluster has them all.
	if d := cmp.Diff(alone, snapshot("", append(theirs, ours...)...)); d == "" {
		t.Error("nothing of others would be found")
	}
}

func TestPodsAndNodesAreReadInPagesAndReduced(t *testing.T) {
	const count = 3*pageSize + 1
	pages := 0
	reader := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			options := (&client.ListOptions{}).ApplyOptions(opts)
			from, _ := strconv.Atoi(options.Continue)
			to := min(from+int(options.Limit), count)
			switch out := list.(type) {
			case *corev1.PodList:
				for i := from; i < to; i++ {
					pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: strconv.Itoa(i), Labels: map[string]string{"app": "a"}}}
					pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "large"}}
					out.Items = append(out.Items, pod)
				}
			case *corev1.NodeList:
				for i := from; i < to; i++ {
					node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: strconv.Itoa(i)}}
					node.Status.Images = []corev1.ContainerImage{{Names: []string{"large"}}}
					out.Items = append(out.Items, node)
				}
			default:
				return nil
			}
			if pages++; to < count {
				list.SetContinue(strconv.Itoa(to))
			}
			return nil
		},
	}).Build()
	got, err := (&SnapshotReader{Reader: reader}).Read(t.Context(), provision.Cluster{Region: "eu-west-1"})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Pods) != count || len(got.Nodes) != count || pages != 8 {
		t.Fatalf("%d pods and %d nodes in %d pages", len(got.Pods), len(got.Nodes), pages)
	}
	for i, pod := range got.Pods {
		node := got.Nodes[i]
		if pod.Name != strconv.Itoa(i) || pod.Spec.Containers[0].Image != "" || node.Name != pod.Name || len(node.Status.Images) > 0 {
			t.Fatalf("pod %d is %+v, node %+v", i, pod, node)
		}
		if &pod.Spec.Containers[0] != &got.Pods[0].Spec.Containers[0] {
			t.Fatalf("pod %d has another shape than the first", i)
		}
	}
}
