package aws

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// node makes a node of Karpenter, for the time of the test.
func (b *bench) node(name string) {
	b.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + b.home, Labels: map[string]string{"karpenter.sh/nodepool": "gpu"}}}
	if _, err := b.keys.CoreV1().Nodes().Create(b.Context(), node, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = b.keys.CoreV1().Nodes().Delete(context.Background(), node.Name, metav1.DeleteOptions{})
	})
}

// boundary makes a policy that lets everything pass, for the time of the test, and
// returns its name.
func (b *bench) boundary() string {
	b.Helper()
	name := "own-" + b.home
	if _, err := b.hand.IAM.CreatePolicy(b.Context(), &iam.CreatePolicyInput{
		PolicyName: &name, PolicyDocument: sdk.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`),
	}); err != nil {
		b.Fatal(err)
	}
	return name
}

// whatNodesLiveOn declares all parts on which nodes live, to be deleted with them.
func (b *bench) whatNodesLiveOn() state.Set {
	b.Helper()
	subnets, boundary := b.subnets(1), b.boundary()
	return b.declare(func(s *v1alpha1.ClusterSpec) {
		queued(deleting)(s)
		s.NodeRole = &v1alpha1.NodeRole{ManagementPolicy: deleting, Name: "nodes", InstanceProfile: "nodes", PermissionsBoundary: boundary}
		s.Discovery = &v1alpha1.Discovery{ManagementPolicy: deleting, Subnets: subnets, Value: "here"}
	})
}

func TestNothingIsDeletedInAWSOnWhichMoreNodesLiveThanWasPlanned(t *testing.T) {
	b := newBench(t, nil)
	b.reconcile(b.whatNodesLiveOn())
	p := b.plan(b.declare(nothing))
	if err := b.target.Begin(t.Context(), p.Changes); err != nil {
		t.Fatal(err)
	}
	b.node("late")
	before, kinds := len(b.writes()), map[string]bool{}
	for _, c := range p.Changes {
		kinds[c.Key.Kind] = true
		grown := &targets.LossesGrownError{}
		err := b.target.Apply(t.Context(), c)
		if !errors.As(err, &grown) || !errors.Is(err, targets.ErrChanged) || grown.Now["Node"] != 1 {
			t.Errorf("deleting %s returned %v", c.Key, err)
		}
	}
	for kind := range nodeDependencies() {
		if kind != "SecurityGroupTag" && !kinds[kind] {
			t.Errorf("the deletion of no %s was tried", kind)
		}
	}
	if n := len(b.writes()); n != before {
		t.Errorf("%d writes reached AWS: %v", n-before, b.writes()[before:])
	}
	// That they were about to be sent allows nobody more, in this process and the next.
	for range 2 {
		kept := state.NewSet(b.want(b.declare(nothing)).Items()...)
		observed, err := b.target.Observe(t.Context(), kept)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range plan.Compute(kept, observed, plan.ConfirmLosses("")).Changes {
			if c.Before.Allowed == nil || c.Admitted() {
				t.Errorf("%s: allowed %v, held %q", c.Key, c.Before.Allowed, c.Hold)
			}
		}
		b.restart()
	}
}

func TestNodesThatCannotBeCountedLiveOnWhatGoes(t *testing.T) {
	for _, path := range []string{"/nodes", "/nodeclaims", "/nodepools"} {
		t.Run(path, func(t *testing.T) { nodesThatCannotBeCountedLiveOnWhatGoes(t, path) })
	}
}

func nodesThatCannotBeCountedLiveOnWhatGoes(t *testing.T, path string) {
	direct := withKarpenter(t)
	deny := false
	b := newBench(t, nil, func(c *Config) {
		denied := rest.CopyConfig(c.REST)
		denied.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if !deny || !strings.HasSuffix(r.URL.Path, path) {
					return next.RoundTrip(r)
				}
				body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`
				return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewBufferString(body)), Request: r}, nil
			})
		})
		c.REST = denied
	})
	b.reconcile(b.declare(queued(deleting)))
	p := b.plan(b.declare(nothing))
	deny = true
	for _, c := range p.Changes {
		if err := b.target.Apply(t.Context(), c); err == nil {
			t.Errorf("%s was deleted", c.Key)
		}
	}
	p = b.plan(b.declare(nothing))
	for _, c := range p.Changes {
		if c.Before.Impact == "" || c.Before.Losses[loss.Uncounted] != 1 {
			t.Errorf("%s: impact %q, %v", c.Key, c.Before.Impact, c.Before.Losses)
		}
	}
	// Whoever is asked may allow it all the same, and allows nobody to take it from a node that is drained.
	change := drained(t, direct, b)
	for _, c := range p.Changes {
		switch _, reason, _ := state.Classify(b.target.Apply(t.Context(), c)); {
		case path == "/nodes" && reason != "EngineNeeded", reason == "":
			t.Errorf("deleting %s while a node is drained: %q", c.Key, reason)
		}
	}
	change(func(claim *unstructured.Unstructured) { claim.SetOwnerReferences(nil) })
	for _, c := range p.Changes {
		if err := b.target.Apply(t.Context(), c); (err == nil) != (path == "/nodes") {
			t.Errorf("deleting %s with no node to be drained: %v", c.Key, err)
		}
	}
}

// drained makes a NodeClaim of a deleted NodePool whose node is drained, and returns what changes it.
func drained(t *testing.T, direct client.Client, b *bench) (change func(func(*unstructured.Unstructured))) {
	t.Helper()
	claim := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
		"metadata": map[string]any{
			"name": "drains-" + b.home, "finalizers": []any{"karpenter.sh/termination"},
			"ownerReferences": []any{map[string]any{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "gone", "uid": "9d1f0000-0000-0000-0000-000000000000"}},
		},
		"spec": map[string]any{
			"nodeClassRef": map[string]any{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
			"requirements": []any{map[string]any{"key": "karpenter.sh/capacity-type", "operator": "In", "values": []any{"spot"}}},
		},
	}}
	if err := direct.Create(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	change = func(change func(*unstructured.Unstructured)) {
		before := claim.DeepCopy()
		change(claim)
		if err := direct.Patch(context.WithoutCancel(t.Context()), claim, client.MergeFrom(before)); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { change(func(claim *unstructured.Unstructured) { claim.SetFinalizers(nil) }) })
	if err := direct.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	return change
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Pools that are no longer declared may wait with their nodes.
func TestNodesOfPoolsThatAreNotDeclaredAnyMoreCount(t *testing.T) {
	b := newBench(t, nil)
	b.reconcile(b.whatNodesLiveOn())
	b.node("left")
	for _, c := range b.plan(b.declare(nothing)).Changes {
		if !strings.HasPrefix(c.Before.Impact, "1 node ") || c.Before.UsedBy.Kind != "Cluster" {
			t.Errorf("%s: impact %q, used by %v", c.Key, c.Before.Impact, c.Before.UsedBy)
		}
	}
}

// withKarpenter is a client of the API server, once that has Karpenter's kinds.
func withKarpenter(t *testing.T) client.Client {
	t.Helper()
	direct, err := client.New(apiServer(t), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := apiextensionsv1.AddToScheme(scheme.Scheme); err != nil {
		t.Fatal(err)
	}
	if _, err := engine.InstallCRDs(t.Context(), direct, engine.DefaultSettings()); err != nil {
		t.Fatal(err)
	}
	return direct
}

// Karpenter has launched an instance that has no Node yet, or somebody else's NodePool may
// launch one at any time.
func TestInstancesOnTheirWayAndPoolsOfOthersCount(t *testing.T) {
	direct := withKarpenter(t)
	spec := map[string]any{
		"nodeClassRef": map[string]any{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
		"requirements": []any{map[string]any{"key": "karpenter.sh/capacity-type", "operator": "In", "values": []any{"spot"}}},
	}
	for _, tt := range []struct {
		kind string
		spec map[string]any
		want loss.Counts
	}{
		{"NodeClaim", spec, loss.Counts{"NodePool": 0, "Node": 1}},
		{"NodePool", map[string]any{"template": map[string]any{"spec": spec}}, loss.Counts{"NodePool": 1, "Node": 0}},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			b := newBench(t, nil)
			b.reconcile(b.whatNodesLiveOn())
			before := b.plan(b.declare(nothing))
			object := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "karpenter.sh/v1", "kind": tt.kind, "metadata": map[string]any{"name": "of-another-" + b.home}, "spec": tt.spec,
			}}
			if err := direct.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = direct.Delete(context.Background(), object) })
			for _, c := range before.Changes {
				grown := &targets.LossesGrownError{}
				if err := b.target.Apply(t.Context(), c); !errors.As(err, &grown) {
					t.Errorf("deleting %s, planned before, returned %v", c.Key, err)
				}
			}
			after := b.plan(b.declare(nothing))
			if len(after.Changes) != len(before.Changes) {
				t.Errorf("%d deletions, want %d", len(after.Changes), len(before.Changes))
			}
			for _, c := range after.Changes {
				if d := cmp.Diff(tt.want, c.Before.Losses); d != "" {
					t.Errorf("%s (-want +got):\n%s", c.Key, d)
				}
			}
		})
	}
}

func TestWhatBecomesOfNodesIsWrittenInTheirNumber(t *testing.T) {
	for _, tt := range []struct {
		users users
		want  string
	}{
		{users{nodes: 1}, "1 node loses its access to the cluster"},
		{users{nodes: 2}, "2 nodes lose their access to the cluster"},
		{users{pools: 1}, "the nodes of 1 NodePool lose their access to the cluster"},
		{users{pools: 2, nodes: 1}, "the nodes of 2 NodePools (now 1) lose their access to the cluster"},
		{users{}, ""},
	} {
		if got := tt.users.removal("AccessEntry").Impact; got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.users, got, tt.want)
		}
	}
}

func TestNothingOnWhichNodesLiveIsDeletedWhileNodesAreDeleted(t *testing.T) {
	direct := withKarpenter(t)
	b := newBench(t, nil)
	b.reconcile(b.whatNodesLiveOn())
	change := drained(t, direct, b)
	p, before := b.plan(b.declare(nothing)), len(b.writes())
	if err := b.target.Begin(t.Context(), p.Changes); err != nil {
		t.Fatal(err)
	}
	for _, c := range p.Changes {
		if _, reason, after := state.Classify(b.target.Apply(t.Context(), c)); reason != "EngineNeeded" || after <= 0 {
			t.Errorf("deleting %s while a node is drained: %q, again after %s", c.Key, reason, after)
		}
	}
	if n := len(b.writes()); n != before || len(p.Changes) == 0 {
		t.Errorf("%d writes reached AWS for %d deletions: %v", n-before, len(p.Changes), b.writes()[before:])
	}
	// One that goes while its pool stays keeps nothing.
	change(func(claim *unstructured.Unstructured) { claim.SetOwnerReferences(nil) })
	for _, c := range p.Changes {
		if err := b.target.Apply(t.Context(), c); err != nil {
			t.Errorf("deleting %s, with no pool on its way out: %v", c.Key, err)
		}
	}
}
