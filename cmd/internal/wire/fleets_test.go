package wire

import (
	"context"
	"slices"
	"strings"
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
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
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
	return state.Item{Key: state.Key{Target: "cluster", Group: "apps", Kind: "DaemonSet", Namespace: namespace, Name: name}, Version: "v1", Object: object}
}

func TestWhatRunsOnEveryNodeAfterAStep(t *testing.T) {
	if _, err := DirectClient(&rest.Config{Host: "http://127.0.0.1:1"}); err != nil { // registers the kinds
		t.Fatal(err)
	}
	stays, small, big := agentItem(t, "stays", "", "1"), agentItem(t, "agent", "", "1"), agentItem(t, "agent", "", "2")
	gone, bigger := agentItem(t, "agent", "default", "1"), agentItem(t, "agent", "default", "2")
	compared := agentItem(t, "stays", "default", "1")
	compared.Hold = "nothing is deleted (prune: false)"
	class := state.Item{Key: state.Key{Target: "cluster", Group: "node.k8s.io", Kind: "RuntimeClass", Name: "sandboxed"}}
	tests := map[string]struct {
		c    change
		want []string
	}{
		"is what runs and what is declared": {
			change{before: state.NewSet(small), after: state.NewSet(big), changes: []plan.Change{{Key: bigger.Key, Action: plan.Update, Before: &gone, After: &bigger}}},
			[]string{"agent 2", "sandboxed", "stays 1"},
		},
		"is without what the step deletes": {
			change{before: state.NewSet(small), after: state.NewSet(stays), changes: []plan.Change{{Key: gone.Key, Action: plan.Delete, Before: &gone}}},
			[]string{"sandboxed", "stays 1"},
		},
		"is without the RuntimeClass that the step deletes": {
			change{after: state.NewSet(small), changes: []plan.Change{{Key: class.Key, Action: plan.Delete, Before: &class}, {Key: gone.Key, Action: plan.Update, Before: &gone, After: &gone}}},
			[]string{"agent 1", "stays 1"},
		},
		"is with what is deleted by nobody": {
			change{before: state.NewSet(small), changes: []plan.Change{{Key: gone.Key, Action: plan.Delete, Before: &compared}, {Key: bigger.Key, Action: plan.Update, Before: &gone, After: &gone}}},
			[]string{"agent 1", "sandboxed", "stays 1"},
		},
		"is with what something declared stands for": {
			change{changes: []plan.Change{{Key: bigger.Key, Action: plan.Update, Before: &gone, After: &bigger}}},
			[]string{"agent 2", "sandboxed", "stays 1"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			objects := append(runningFleet(t), agent("agent", "1"), agent("stays", "1"), &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "sandboxed"}, Handler: "x"})
			live := &stock{reader: fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build()}
			var got []string
			_, err := foresee(t.Context(), live, func(_ context.Context, _ engine.Settings, before, after provision.Fleet) (provision.Forecast, error) {
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
					t.Error("before the step they run")
				}
				return provision.Forecast{}, nil
			}, tt.c)
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

func TestTheFleetIsReadAnewAfterAWhile(t *testing.T) {
	r, _, pods := stageReview(t, nil)
	for _, tt := range []struct {
		lasts time.Duration
		want  int
	}{{0, 3}, {time.Nanosecond, 3}, {time.Hour, 1}} {
		*pods = 0
		at := &sighting{}
		s := &stock{reader: r.live, lasts: tt.lasts, seen: at}
		for range 3 {
			at.begin(time.Now().Add(time.Hour))
			if _, err := s.fleet(t.Context(), provision.Cluster{Region: "eu-west-1"}); err != nil {
				t.Fatal(err)
			}
			if !at.oldest().Equal(s.at) {
				t.Errorf("looked at %s, and noted is %s", s.at, at.oldest())
			}
		}
		if *pods != tt.want {
			t.Errorf("kept for %s, all pods were read %d times, not %d", tt.lasts, *pods, tt.want)
		}
	}
}

func TestWhatIsDeclaredAndNotLiveYetIsNew(t *testing.T) {
	item := func(name, content string) state.Item {
		return state.Item{Key: state.Key{Target: "cluster", Group: "apps", Kind: "Deployment", Name: name}, Object: map[string]any{"spec": content}}
	}
	live := func(i state.Item) state.Item {
		i.Key.Namespace = "default"
		return i
	}
	change := func(action plan.Action, was *state.Item, is state.Item) plan.Change {
		return plan.Change{Key: live(is).Key, Action: action, Before: was, After: new(live(is))}
	}
	was := live(item("changed", "old"))
	set := before(state.NewSet(item("same", "s"), item("new", "n"), item("changed", "newer")),
		[]plan.Change{change(plan.Create, nil, item("new", "n")), change(plan.Update, &was, item("changed", "newer"))})
	var got []string
	for _, i := range set.Items() {
		got = append(got, strings.Join([]string{i.Key.Name, i.Object["spec"].(string)}, " "))
	}
	if diff := cmp.Diff([]string{"changed old", "same s"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAForecastForStrangersIsTheSameWhateverPoolsOthersHave(t *testing.T) {
	if _, err := DirectClient(&rest.Config{Host: "http://127.0.0.1:1"}); err != nil { // registers the kinds
		t.Fatal(err)
	}
	ours := runningFleet(t)
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
	fleet := func(of string, objects ...client.Object) provision.Fleet {
		live := &stock{reader: fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build(), of: of}
		out, err := live.fleet(t.Context(), provision.Cluster{})
		if err != nil {
			t.Fatal(err)
		}
		out.Now = time.Time{}
		return out
	}
	alone, among := fleet("main", ours...), fleet("main", append(theirs, ours...)...)
	if d := cmp.Diff(alone, among); d != "" {
		t.Errorf("pools of others are among those of the Sync:\n%s", d)
	}
	if len(alone.NodePools) != 1 || len(alone.NodeClaims) != 1 || len(alone.Nodes) != 1 {
		t.Errorf("of the Sync's own there are %d pools, %d claims and %d nodes", len(alone.NodePools), len(alone.NodeClaims), len(alone.Nodes))
	}
	// The guard switched off: who may read the cluster has them all.
	if d := cmp.Diff(alone, fleet("", append(theirs, ours...)...)); d == "" {
		t.Error("nothing of others would be found")
	}
}
