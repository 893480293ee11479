package explain

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/simulate"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
)

func TestWhatArgumentsName(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want explainedObject
		err  string
	}{
		"a pod of the namespace":       {args: []string{"pod", "train"}, want: explainedObject{kindPod, "team", "train"}},
		"a pod with its namespace":     {args: []string{"po", "ml/train"}, want: explainedObject{kindPod, "ml", "train"}},
		"a pod as kubectl names it":    {args: []string{"pod/train"}, want: explainedObject{kindPod, "team", "train"}},
		"a pod with all":               {args: []string{"pods/ml/train"}, want: explainedObject{kindPod, "ml", "train"}},
		"a node":                       {args: []string{"Node", "ip-1"}, want: explainedObject{kindNode, "", "ip-1"}},
		"a NodePool":                   {args: []string{"nodepool/gpu"}, want: explainedObject{kindPool, "", "gpu"}},
		"a kind without a name":        {args: []string{"pod"}, err: "give a kind and a name: poolwright explain pod NAME"},
		"a kind that is not explained": {args: []string{"sync", "dev"}, err: `"sync" is not one of pod, node, pool`},
		"too many names":               {args: []string{"pod", "a", "b"}, err: "explain takes a kind and a name, and got 3 arguments: poolwright explain pod NAME"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(test.args, func() string { return "team" })
			if test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Errorf("error %v, want %s", err, test.err)
				}
				return
			}
			if err != nil || got != test.want {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

const class = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: nodes}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@v20261001}]
  subnetSelectorTerms: [{tags: {cluster: c}}]
  securityGroupSelectorTerms: [{id: sg-1}]
`

const pool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: nodes}
      taints: [{key: team, value: ml, effect: NoSchedule}]
      requirements:
      - {key: topology.kubernetes.io/zone, operator: In, values: [us-east-1a, us-east-1b]}
      - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}
`

// declared are the Cluster, a class and a pool.
func declared(t *testing.T) []client.Object {
	t.Helper()
	out := []client.Object{reconcilertest.Cluster(func(c *v1alpha1.Cluster) { c.Spec.Region = "us-east-1" })}
	var live provision.ClusterSnapshot
	reader, err := simulate.NewReader()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{class, pool} {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		if err := reader.Add(&live, object); err != nil {
			t.Fatal(err)
		}
	}
	return append(out, live.NodeClasses[0], live.NodePools[0])
}

// pendingPod is one with a volume of a zone.
func pendingPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "train", CreationTimestamp: metav1.NewTime(noon.Add(-6 * time.Minute))},
		Spec: corev1.PodSpec{
			Tolerations: []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}},
			Containers:  []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}},
			Volumes:     []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}},
	}
}

func storage() []client.Object {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv-1"}}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-1"}}
	volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"us-east-1c"}},
	}}}}}
	return []client.Object{claim, volume}
}

// explained is the text of an explanation by a client.
func explained(t *testing.T, kube client.Reader, args ...string) (Explanation, error) {
	t.Helper()
	what, err := parse(args, func() string { return "ml" })
	if err != nil {
		t.Fatal(err)
	}
	types, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	return (&clusterReader{kube: kube, types: types, now: func() time.Time { return noon.Time }}).explain(t.Context(), what)
}

func installed(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	reconcilertest.InstalledClient(t) // completes the scheme
	return fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).
		WithIndex(&corev1.Event{}, "reason", func(o client.Object) []string { return []string{o.(*corev1.Event).Reason} }).
		WithIndex(&corev1.Event{}, "involvedObject.name", func(o client.Object) []string { return []string{o.(*corev1.Event).InvolvedObject.Name} }).Build()
}

func TestAPodIsExplainedFromLiveObjects(t *testing.T) {
	e, err := explained(t, installed(t, append(append(declared(t), storage()...), pendingPod())...), "pod", "train")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := write(get.Environment{Out: &out}, e, &printers.JSONPrinter{}); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/pod-text.golden", e.text())
	golden.Compare(t, "testdata/pod-json.golden", out.String())
}

func TestWhatCannotBeReadIsNamed(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("not allowed"))
	kube := interceptor.NewClient(installed(t, append(declared(t), pendingPod())...), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, is := list.(*corev1.EventList); is {
				return forbidden
			}
			return c.List(ctx, list, options...)
		},
	})
	e, err := explained(t, kube, "pod", "train")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(e.Unknown, "\n")
	for _, part := range []string{"You have no right to read events", "PersistentVolumeClaim ml/data can be attached is not known"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q lacks %q", text, part)
		}
	}
}

func TestWhatIsNotThereIsAnError(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ip-1", Labels: map[string]string{corev1.LabelTopologyRegion: "us-east-1"}}}
	kube := installed(t, append(declared(t), node)...)
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"a pod":                    {[]string{"pod", "other"}, `there is no pod "other" in namespace ml; to name another, use -n`},
		"a node":                   {[]string{"node", "ip-9"}, `there is neither a node nor a NodeClaim "ip-9"`},
		"a node without Karpenter": {[]string{"node", "ip-1"}, "node ip-1 has no NodeClaim: Karpenter neither launched it nor removes it"},
		"a NodePool":               {[]string{"pool", "gpu"}, `there is no NodePool "gpu"`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := explained(t, kube, test.args...); err == nil || err.Error() != test.want {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}

func TestANodeAndAPoolAreExplainedFromLiveObjects(t *testing.T) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "general-x7k2p", Labels: map[string]string{karpv1.NodePoolLabelKey: "general"}}}
	claim.Status.NodeName = "ip-1"
	kube := installed(t, append(declared(t), claim)...)
	for args, want := range map[string]string{"node/ip-1": "Initializing", "node/general-x7k2p": "Initializing", "pool/general": "Launchable"} {
		e, err := explained(t, kube, args)
		if err != nil || len(e.Causes) == 0 || string(e.Causes[0].Reason) != want {
			t.Errorf("%s: %+v, %v", args, e.Causes, err)
		}
	}
}
