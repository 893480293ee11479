package explain

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/simulate"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/causes"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
)

func TestWhatArgumentsName(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want Object
		err  string
	}{
		"a pod of the namespace":       {args: []string{"pod", "train"}, want: Object{KindPod, "team", "train"}},
		"a pod with its namespace":     {args: []string{"po", "ml/train"}, want: Object{KindPod, "ml", "train"}},
		"a pod as kubectl names it":    {args: []string{"pod/train"}, want: Object{KindPod, "team", "train"}},
		"a pod with all":               {args: []string{"pods/ml/train"}, want: Object{KindPod, "ml", "train"}},
		"a node":                       {args: []string{"Node", "ip-1"}, want: Object{KindNode, "", "ip-1"}},
		"a NodePool":                   {args: []string{"nodepool/gpu"}, want: Object{KindPool, "", "gpu"}},
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
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "data", Annotations: map[string]string{bindCompleted: "yes"}}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv-1"}}
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
	if err := e.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/pod-text.golden", e.text())
	golden.Compare(t, "testdata/pod-json.golden", out.String())
}

func TestWhatCannotBeReadIsNamed(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("not allowed"))
	kube := interceptor.NewClient(installed(t, append(append(declared(t), storage()...), pendingPod())...), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, is := object.(*corev1.PersistentVolumeClaim); is {
				return forbidden
			}
			return c.Get(ctx, key, object, options...)
		},
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
	for _, part := range []string{"You have no permission to read events", "PersistentVolumeClaim ml/data can be attached is not known"} {
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

func TestWhereAVolumeCanBeAttached(t *testing.T) {
	host := corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"ip-1"}}
	zone := corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"us-east-1a"}}
	for name, test := range map[string]struct {
		source corev1.PersistentVolumeSource
		terms  []corev1.NodeSelectorTerm
		want   []corev1.NodeSelectorTerm
	}{
		"in one of two zones": {
			terms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{zone}}, {MatchExpressions: []corev1.NodeSelectorRequirement{zone, host}}},
			want:  []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{zone}}, {MatchExpressions: []corev1.NodeSelectorRequirement{zone, host}}},
		},
		"a local volume is not sought on its node": {
			source: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{}},
			terms:  []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{host, zone}}, {MatchExpressions: []corev1.NodeSelectorRequirement{host}}},
			want:   []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{zone}}, {MatchExpressions: []corev1.NodeSelectorRequirement{}}},
		},
		"a term without expressions is none": {terms: []corev1.NodeSelectorTerm{{}}},
		"everywhere":                         {},
	} {
		t.Run(name, func(t *testing.T) {
			volume := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: test.source}}
			if test.terms != nil {
				volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: test.terms}}
			}
			if diff := cmp.Diff(test.want, attachable(volume)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestForWhichPersistentVolumeClaimsNoNodeIsLaunched(t *testing.T) {
	immediate, waits, none := storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer, ""
	classes := map[string]*storagev1.VolumeBindingMode{"immediate": &immediate, "waits": &waits}
	now := metav1.NewTime(noon.Time)
	for name, test := range map[string]struct {
		change func(*corev1.PersistentVolumeClaim, *corev1.PersistentVolume)
		want   string
		state  causes.VolumeClaimState
	}{
		"one that is bound": {change: func(*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {}, want: "VolumeZone"},
		"one without a volume whose class waits for the pod": {change: func(c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
			c.Spec.VolumeName, c.Spec.StorageClassName = "", new("waits")
		}, want: "Launchable"},
		"one that is not there": {change: func(c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) { c.Name = "other" }, want: "VolumeClaimUnusable", state: causes.VolumeClaimNotFound},
		"one whose volume is not there": {change: func(c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) { c.Spec.VolumeName = "pv-2" },
			want: "VolumeClaimUnusable", state: causes.VolumeClaimNotFound},
		"one that is being deleted": {change: func(c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
			c.DeletionTimestamp, c.Finalizers = &now, []string{"kubernetes.io/pvc-protection"}
		}, want: "VolumeClaimUnusable", state: causes.VolumeClaimTerminating},
		"one whose volume is being deleted": {change: func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
			v.DeletionTimestamp, v.Finalizers = &now, []string{"kubernetes.io/pv-protection"}
		}, want: "VolumeClaimUnusable", state: causes.VolumeClaimTerminating},
		"one that is lost": {change: func(c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) { c.Status.Phase = corev1.ClaimLost },
			want: "VolumeClaimUnusable", state: causes.VolumeClaimLost},
		"one whose binding is not complete": {change: func(c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) { c.Annotations = nil },
			want: "VolumeClaimUnusable", state: causes.VolumeClaimUnbound},
		"one without a volume whose class binds at once": {change: func(c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
			c.Spec.VolumeName, c.Spec.StorageClassName = "", new("immediate")
		}, want: "VolumeClaimUnusable", state: causes.VolumeClaimUnbound},
		"one with neither a volume nor a class": {change: func(c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
			c.Spec.VolumeName, c.Spec.StorageClassName = "", &none
		}, want: "VolumeClaimUnusable", state: causes.VolumeClaimUnbound},
	} {
		t.Run(name, func(t *testing.T) {
			objects := storage()
			test.change(objects[0].(*corev1.PersistentVolumeClaim), objects[1].(*corev1.PersistentVolume))
			for class, mode := range classes {
				objects = append(objects, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}, VolumeBindingMode: mode})
			}
			e, err := explained(t, installed(t, append(append(declared(t), objects...), pendingPod())...), "pod", "train")
			if err != nil {
				t.Fatal(err)
			}
			if c := e.Causes[0]; len(e.Causes) != 1 || string(c.Reason) != test.want || c.VolumeClaimState != test.state {
				t.Errorf("%+v", e.Causes)
			}
		})
	}
}

// secretText is in whatever of a pod, its Secrets and its ConfigMaps has values of applications.
const secretText = "hunter2"

func TestNoSecretIsReadAndNoValueOfAPodIsPrinted(t *testing.T) {
	pod := pendingPod()
	pod.Annotations = map[string]string{"example.com/token": secretText}
	container := &pod.Spec.Containers[0]
	container.Env = []corev1.EnvVar{{Name: "PASSWORD", Value: secretText}}
	container.Command, container.Args = []string{"run", secretText}, []string{"--password=" + secretText}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "token", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "token"}}})
	running := pod.DeepCopy()
	running.Name, running.Spec.NodeName, running.Status = "runs", "ip-1", corev1.PodStatus{Phase: corev1.PodRunning}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ip-1", Annotations: map[string]string{"example.com/token": secretText}}}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "general-x7k2p", Labels: map[string]string{karpv1.NodePoolLabelKey: "general"}}}
	claim.Status.NodeName = node.Name
	for _, kind := range []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized} {
		claim.StatusConditions().SetTrue(kind)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "token"}, Data: map[string][]byte{"token": []byte(secretText)}}
	refused := func(object any) error {
		switch object.(type) {
		case *corev1.Secret, *corev1.SecretList, *corev1.ConfigMap, *corev1.ConfigMapList:
			t.Errorf("%T is read", object)
		}
		return nil
	}
	kube := interceptor.NewClient(installed(t, append(append(declared(t), storage()...), pod, running, node, claim, secret)...), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			return errors.Join(refused(object), c.Get(ctx, key, object, options...))
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			return errors.Join(refused(list), c.List(ctx, list, options...))
		},
	})
	for _, what := range []string{"pod/train", "pod/runs", "node/ip-1", "pool/general"} {
		e, err := explained(t, kube, what)
		if err != nil || len(e.Causes) == 0 {
			t.Fatalf("%s: %+v, %v", what, e, err)
		}
		var out bytes.Buffer
		if err := e.WriteJSON(&out); err != nil {
			t.Fatal(err)
		}
		if all := e.text() + out.String(); strings.Contains(all, secretText) {
			t.Errorf("%s: the output has a value of the pod:\n%s", what, all)
		}
	}
}
