package gate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// row breaks one thing in a fixture in which every gate is open.
type row struct {
	name    string
	breakIt func(*fixture)
	adjust  func(*Gates)
	// closed are the gates that must be closed, with a question mark where the
	// check could not be made.
	closed []string
	// message must be in the first refusal's sentence.
	message []string
}

func TestGates(t *testing.T) {
	forbidden := func(resource string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no"))
	}
	for _, r := range []row{
		{name: "all gates are open when everything agrees"},

		{name: "another API server than EKS names is refused",
			breakIt: func(w *fixture) { w.eksKubeSystem = "uid-2" },
			closed:  []string{"Identity"}, message: []string{"uid-1", "uid-2", cluster, "spec.name"}},
		{name: "an API server that does not show kube-system proves nothing",
			breakIt: func(w *fixture) { w.kubeSystem = "" },
			closed:  []string{"Identity?"}, message: []string{"through our own connection", "kube-system"}},
		{name: "an EKS endpoint that does not let us in proves nothing",
			breakIt: func(w *fixture) { w.eksKubeSystem = "" },
			closed:  []string{"Identity?"}, message: []string{"at the endpoint of EKS cluster"}},
		{name: "without DescribeCluster three gates are unproven",
			breakIt: func(w *fixture) { w.deny = "DescribeCluster" },
			closed:  []string{"Identity?", "Account?", "AutoMode?"}, message: []string{"AccessDeniedException", "eks:DescribeCluster"}},

		{name: "credentials of another account are refused",
			breakIt: func(w *fixture) { w.caller = "999999999999" },
			closed:  []string{"Account"}, message: []string{"999999999999", account, "spec.account"}},
		{name: "an unanswered STS proves nothing",
			breakIt: func(w *fixture) { w.deny = "GetCallerIdentity" },
			closed:  []string{"Account?"}, message: []string{"AccessDenied", "sts:GetCallerIdentity"}},
		{name: "a cluster of another region is refused",
			breakIt: func(w *fixture) { w.arn = strings.Replace(w.arn, region, "eu-west-1", 1) },
			closed:  []string{"Account"}, message: []string{"eu-west-1", "spec.region"}},
		{name: "a cluster of another account is refused",
			breakIt: func(w *fixture) { w.arn = strings.Replace(w.arn, account, "999999999999", 1) },
			closed:  []string{"Account"}, message: []string{"999999999999"}},
		{name: "an SDK configured for another region is refused",
			adjust: func(g *Gates) { g.AWS.Region = "eu-west-1" },
			closed: []string{"Account"}, message: []string{"eu-west-1", region}},

		{name: "EKS Auto Mode is refused",
			breakIt: func(w *fixture) { w.autoMode = true },
			closed:  []string{"AutoMode"}, message: []string{"Auto Mode is on"}},
		{name: "a NodePool with an Auto Mode class is refused",
			breakIt: func(w *fixture) {
				w.objects = []client.Object{pool("general", autoModeGroup), pool("gpu", "karpenter.k8s.aws")}
			},
			closed: []string{"AutoMode"}, message: []string{"NodePool general"}},
		{name: "an Auto Mode NodeClass is refused",
			breakIt: func(w *fixture) { w.objects = []client.Object{autoClass()} },
			closed:  []string{"AutoMode"}, message: []string{"NodeClass default"}},
		{name: "NodePools that cannot be listed prove nothing",
			breakIt: func(w *fixture) { w.listErr["NodePoolList"] = forbidden("nodepools") },
			closed:  []string{"AutoMode?"}, message: []string{"nodepools.karpenter.sh"}},

		{name: "another Karpenter's renewed lease is refused",
			breakIt: func(w *fixture) { w.objects = []client.Object{lease("karpenter", "pod-1", 59*time.Second)} },
			closed:  []string{"OtherKarpenter"}, message: []string{"lease karpenter/karpenter-leader-election of pod-1", "scale the Deployment behind it to zero", "External"}},
		{name: "a lease that nobody renews is ignored",
			breakIt: func(w *fixture) { w.objects = []client.Object{lease("karpenter", "pod-1", 61*time.Second)} }},
		{name: "a lease that its holder gave back is ignored",
			breakIt: func(w *fixture) { w.objects = []client.Object{lease("karpenter", "", time.Second)} }},
		{name: "our own lease is not another Karpenter's",
			breakIt: func(w *fixture) { w.objects = []client.Object{lease("karpenter", "us", time.Second)} },
			adjust:  func(g *Gates) { g.OwnLease = client.ObjectKey{Namespace: "karpenter", Name: karpenterLease} }},
		{name: "a Karpenter of another lease, or of none, is refused while its pods are ready",
			breakIt: func(w *fixture) { w.objects = []client.Object{stock("ops", 2), stock("kube-system", 1)} },
			closed:  []string{"OtherKarpenter"}, message: []string{"Deployment kube-system/karpenter, ops/karpenter has ready pods", "scale it to zero", "External"}},
		{name: "a Karpenter that is named otherwise is refused by its image",
			breakIt: func(w *fixture) {
				d := stock("ops", 1)
				d.Name, d.Labels = "scaler", map[string]string{"app.kubernetes.io/name": "scaler"}
				w.objects = []client.Object{d}
			},
			closed: []string{"OtherKarpenter"}, message: []string{"Deployment ops/scaler has ready pods"}},
		{name: "what is only labelled like a Karpenter is none",
			breakIt: func(w *fixture) {
				d := stock("monitoring", 1)
				d.Spec.Template.Spec.Containers[0].Image = "registry.example.com/exporter:1"
				w.objects = []client.Object{d}
			}},
		{name: "a Karpenter without a ready pod is none",
			breakIt: func(w *fixture) { w.objects = []client.Object{stock("kube-system", 0)} }},
		{name: "Deployments that cannot be listed prove nothing",
			breakIt: func(w *fixture) { w.listErr["DeploymentList"] = forbidden("deployments") },
			closed:  []string{"OtherKarpenter?"}, message: []string{"deployments.apps"}},
		{name: "another Poolwright whose engine runs is refused",
			breakIt: func(w *fixture) { w.objects = []client.Object{poolwright("other", "pod-1", "on", time.Second)} },
			closed:  []string{"OtherKarpenter"}, message: []string{"other/poolwright", "another Poolwright", "scale the other to zero"}},
		{name: "another Poolwright that does not report its engine is refused",
			breakIt: func(w *fixture) { w.objects = []client.Object{poolwright("other", "pod-1", "", time.Second)} },
			closed:  []string{"OtherKarpenter"}, message: []string{"may run"}},
		{name: "another Poolwright whose engine is off or held is none",
			breakIt: func(w *fixture) { w.objects = []client.Object{poolwright("other", "pod-1", "off", time.Second)} }},
		{name: "another Poolwright that restarts is refused meanwhile",
			breakIt: func(w *fixture) { w.objects = []client.Object{poolwright("other", "", "on", 5*time.Second)} },
			closed:  []string{"OtherKarpenter"}, message: []string{"other/poolwright"}},
		{name: "another Poolwright that went a minute ago is none",
			breakIt: func(w *fixture) { w.objects = []client.Object{poolwright("other", "", "on", 61*time.Second)} }},
		{name: "another Poolwright that died a minute ago is none",
			breakIt: func(w *fixture) { w.objects = []client.Object{poolwright("other", "pod-1", "on", 61*time.Second)} }},
		{name: "our own lease is not another Poolwright's",
			breakIt: func(w *fixture) {
				w.objects = []client.Object{poolwright("poolwright-system", "us", "on", time.Second)}
			}},
		{name: "leases that cannot be listed prove nothing",
			breakIt: func(w *fixture) { w.listErr["LeaseList"] = forbidden("leases") },
			closed:  []string{"OtherKarpenter?"}, message: []string{"leases.coordination.k8s.io"}},

		{name: "instances in use without NodeClaims are refused",
			breakIt: func(w *fixture) { w.instances = []string{instances(used("i-2"), used("i-1"))} },
			closed:  []string{"GarbageCollection"}, message: []string{"2 instances", "i-1, i-2", "poolwright.dev/confirm-garbage-collection=2-" + digest("i-1", "i-2")}},
		{name: "instances with NodeClaims are ours",
			breakIt: func(w *fixture) {
				w.instances, w.objects = []string{instances(used("i-1"))}, []client.Object{claim("a", "i-1")}
			}},
		{name: "a launch that was cut short is the engine's to collect",
			breakIt: func(w *fixture) { w.instances = []string{instances(launching("i-1", time.Minute))} }},
		{name: "a launch that was cut short long ago is the engine's to collect",
			breakIt: func(w *fixture) {
				w.instances, w.objects = []string{instances(launching("i-1", time.Hour))}, []client.Object{pool("general", "karpenter.k8s.aws")}
			}},
		{name: "an old instance without the tag that is a Node is refused",
			breakIt: func(w *fixture) {
				w.instances = []string{instances(launching("i-1", time.Hour), launching("i-2", time.Hour))}
				w.objects = []client.Object{pool("general", "karpenter.k8s.aws"), node("i-1")}
			},
			closed: []string{"GarbageCollection"}, message: []string{"1 instances", "i-1"}},
		{name: "an old instance without the tag and of no NodePool here is refused",
			breakIt: func(w *fixture) {
				w.instances, w.objects = []string{instances(launching("i-1", time.Hour))}, []client.Object{pool("other", "karpenter.k8s.aws")}
			},
			closed: []string{"GarbageCollection"}, message: []string{"i-1"}},
		{name: "Nodes that cannot be listed prove nothing about an old instance",
			breakIt: func(w *fixture) {
				w.instances, w.listErr["NodeList"] = []string{instances(launching("i-1", time.Hour))}, forbidden("nodes")
			},
			closed: []string{"GarbageCollection?"}, message: []string{"nodes"}},
		{name: "leaked instances confirmed by their number and digest pass",
			breakIt: func(w *fixture) { w.instances = []string{instances(used("i-2"), used("i-1"))} },
			adjust:  confirming("2-" + digest("i-1", "i-2"))},
		{name: "leaked instances confirmed by their number alone are refused",
			breakIt: func(w *fixture) { w.instances = []string{instances(used("i-1"), used("i-2"))} },
			adjust:  confirming("2"),
			closed:  []string{"GarbageCollection"}, message: []string{"2 instances"}},
		{name: "a confirmation of as many others is refused",
			breakIt: func(w *fixture) { w.instances = []string{instances(used("i-1"), used("i-2"))} },
			adjust:  confirming("2-" + digest("i-1", "i-3")),
			closed:  []string{"GarbageCollection"}, message: []string{"2 instances"}},
		{name: "an instance that EC2 showed for a moment too long is none",
			breakIt: func(w *fixture) { w.instances = []string{instances(used("i-1")), instances()} }},
		{name: "instances that cannot be listed prove nothing",
			breakIt: func(w *fixture) { w.deny = "DescribeInstances" },
			closed:  []string{"GarbageCollection?"}, message: []string{"UnauthorizedOperation", "ec2:DescribeInstances"}},
		{name: "NodeClaims that cannot be listed prove nothing",
			breakIt: func(w *fixture) {
				w.instances, w.listErr["NodeClaimList"] = []string{instances(used("i-1"))}, forbidden("nodeclaims")
			},
			closed: []string{"GarbageCollection?"}, message: []string{"nodeclaims.karpenter.sh"}},
	} {
		t.Run(r.name, func(t *testing.T) { r.check(t) })
	}
}

func (r row) check(t *testing.T) {
	w := newFixture(t)
	if r.breakIt != nil {
		r.breakIt(w)
	}
	g := w.gates()
	if r.adjust != nil {
		r.adjust(&g)
	}
	refusals, err := g.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var closed []string
	for _, refusal := range refusals {
		name := string(refusal.Gate)
		if refusal.Unproven {
			name += "?"
		}
		closed = append(closed, name)
		if refusal.Message == "" || refusal.Remedy == "" {
			t.Errorf("a refusal without message or remedy: %+v", refusal)
		}
	}
	if diff := cmp.Diff(r.closed, closed); diff != "" {
		t.Fatalf("closed gates (-want +got):\n%s%v", diff, refusals)
	}
	for _, part := range r.message {
		if sentence := refusals[0].Error(); !strings.Contains(sentence, part) {
			t.Errorf("%q does not say %q", sentence, part)
		}
	}
}

func TestAnUnreachableAWSClosesEveryGateThatNeedsIt(t *testing.T) {
	g := newFixture(t).gates()
	nowhere := "http://127.0.0.1:1"
	g.AWS.BaseEndpoint = &nowhere
	refusals, err := g.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var closed []Name
	for _, r := range refusals {
		closed = append(closed, r.Gate)
		if !r.Unproven {
			t.Errorf("%v claims to have found something", r)
		}
	}
	if diff := cmp.Diff([]Name{Identity, Account, AutoMode, GarbageCollection}, closed); diff != "" {
		t.Errorf("closed gates (-want +got):\n%s", diff)
	}
}

func TestOnlyThisClustersInstancesAreListed(t *testing.T) {
	w := newFixture(t)
	if _, err := w.gates().Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for key, values := range w.queries[0] {
		if strings.HasPrefix(key, "Filter.") && strings.HasSuffix(key, ".Name") {
			got[values[0]] += w.queries[0].Get(strings.TrimSuffix(key, "Name")+"Value.1") + " "
		}
	}
	if got["tag:eks:eks-cluster-name"] != cluster+" " || len(strings.Fields(got["tag-key"])) != 2 {
		t.Errorf("filters are %v", got)
	}
}

func TestIdentityKeepsOurCredentialsAndTrustsOnlyTheCAThatEKSNames(t *testing.T) {
	w := newFixture(t)
	g := w.gates()
	// Whatever our own connection is lax about must not carry over.
	g.REST.TLSClientConfig = restInsecure()
	if refusals, err := g.Check(t.Context()); err != nil || len(refusals) > 0 {
		t.Fatal(refusals, err)
	}
	if diff := cmp.Diff([]string{"Bearer token", "Bearer token"}, w.tokens); diff != "" {
		t.Errorf("credentials (-want +got):\n%s", diff)
	}
	other, err := connectionTo(described(w), g.REST)
	if err != nil {
		t.Fatal(err)
	}
	if other.Insecure || other.ServerName != "" || other.CAFile != "" || len(other.CAData) == 0 {
		t.Errorf("the other connection is %+v", other.TLSClientConfig)
	}
}

func TestALeaseThatIsRenewedHasALeaderWhateverItsClock(t *testing.T) {
	w := newFixture(t)
	g := w.gates()
	reads := 0
	g.Kube = listFunc(func(list client.ObjectList) error {
		if leases, ok := list.(*coordinationv1.LeaseList); ok {
			reads++
			leases.Items = []coordinationv1.Lease{*lease("karpenter", "pod-1", time.Hour-time.Duration(reads)*time.Second)}
		}
		return nil
	})
	refusals, err := g.Check(t.Context())
	if err != nil || len(refusals) != 1 || refusals[0].Gate != OtherKarpenter || reads != 4 {
		t.Errorf("got %v, %v after %d lists, want two looks for two names", refusals, err, reads)
	}
}

func TestCheckOthersReadsOnlyTheAPIServer(t *testing.T) {
	w := newFixture(t)
	w.autoMode, w.deny = true, "DescribeInstances"
	if err := w.gates().CheckOthers(t.Context()); err != nil {
		t.Errorf("nobody else is there, and got %v", err)
	}
	w.objects = []client.Object{poolwright("other", "pod-1", "on", time.Second)}
	var refusal ClosedGate
	if err := w.gates().CheckOthers(t.Context()); !errors.As(err, &refusal) || refusal.Gate != OtherKarpenter || refusal.Unproven {
		t.Errorf("got %v", err)
	}
	w.objects = []client.Object{stock("ops", 1)}
	if err := w.gates().CheckOthers(t.Context()); !errors.As(err, &refusal) || !strings.Contains(refusal.Message, "Deployment ops/karpenter") {
		t.Errorf("got %v", err)
	}
}

func TestGatesThatWereNotFilledInAreAnError(t *testing.T) {
	if _, err := (Gates{}).Check(t.Context()); err == nil {
		t.Error("empty gates were checked")
	}
	if err := (Gates{}).CheckOthers(t.Context()); err == nil {
		t.Error("empty gates found nobody else")
	}
	if err := (Gates{}).CheckGarbageCollection(t.Context()); err == nil {
		t.Error("empty gates found no leaked instances")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newFixture(t).gates().Check(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("after the context's end: %v", err)
	}
}

func TestAConfirmationIsTheNumberAndADigestOfTheIDs(t *testing.T) {
	if got, want := confirmation([]string{"i-1", "i-2"}), "2-acab6224"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestCheckGarbageCollectionListsOnce(t *testing.T) {
	w := newFixture(t)
	w.instances = []string{instances(used("i-1")), instances()}
	var refusal ClosedGate
	if err := w.gates().CheckGarbageCollection(t.Context()); !errors.As(err, &refusal) || refusal.Gate != GarbageCollection || w.calls != 1 {
		t.Errorf("got %v after %d calls", err, w.calls)
	}
}

// listFunc is a reader that only lists.
type listFunc func(client.ObjectList) error

func (f listFunc) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("unexpected Get")
}
func (f listFunc) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	return f(list)
}

// confirming sets a person's word.
func confirming(text string) func(*Gates) {
	return func(g *Gates) { g.ConfirmGarbageCollection = func() string { return text } }
}

// digest is what a confirmation must quote beside the number.
func digest(ids ...string) string {
	_, digest, _ := strings.Cut(confirmation(ids), "-")
	return digest
}

func node(instance string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node"},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///us-east-1a/" + instance},
	}
}

func pool(name, group string) *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: group, Kind: "X", Name: "x"}
	return p
}

func claim(name, instance string) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     karpv1.NodeClaimStatus{ProviderID: "aws:///us-east-1a/" + instance},
	}
}

func autoClass() client.Object {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: autoModeGroup + "/v1", Kind: "NodeClass"},
		ObjectMeta: metav1.ObjectMeta{Name: "default"},
	}
}

func lease(namespace, holder string, age time.Duration) *coordinationv1.Lease {
	renewed := metav1.NewMicroTime(now().Add(-age))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: karpenterLease},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed},
	}
}

// stock is a Karpenter as its chart names it.
func stock(namespace string, ready int32) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "karpenter", Labels: map[string]string{"app.kubernetes.io/name": "karpenter"}},
		Status:     appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: ready},
	}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "controller", Image: "public.ecr.aws/karpenter/controller:1.14.1@sha256:0"}}
	return d
}

// poolwright is the lease of a Poolwright; without a word about its engine when
// that is empty.
func poolwright(namespace, holder, engine string, age time.Duration) *coordinationv1.Lease {
	l := lease(namespace, holder, age)
	l.Name = "poolwright"
	if engine != "" {
		l.Labels = LeaseLabels(engine == "on")
	}
	return l
}
