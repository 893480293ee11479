package kubernetes_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
)

// comment is what the comment on a pull request reports of a change, as the controller reports it.
func (b *bench) comment(before, after state.Set) string {
	b.Helper()
	b.target.StartPreview()
	got, err := reconciler.Propose(b.Context(), declared.Declared{Set: before}, declared.Declared{Set: after}, false,
		[]reconciler.NamedTarget{{Name: kubernetes.Name, Target: b.target}}, plan.Guard(50, ""))
	if err != nil {
		return "cannot be planned: " + err.Error()
	}
	var out strings.Builder
	if err := report.NewProposal(got, got.Problems, nil).Markdown(&out, report.Options{}); err != nil {
		b.Fatal(err)
	}
	return out.String()
}

// foreign goes on as the target of who may read the cluster by a pull request alone.
func (b *bench) foreign() {
	b.Helper()
	b.mod = func(c *kubernetes.Config) { c.Preview, c.OnlyManaged = true, true }
	b.restart()
}

const door = `
apiVersion: v1
kind: Service
metadata: {name: door, namespace: $NS}
spec: {type: NodePort, selector: {app: web}, ports: [{name: http, port: 80, nodePort: NODEPORT}]}
`

const hostile = `
apiVersion: v1
kind: ConfigMap
metadata: {name: other, namespace: $NS}
data: {a: x}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: same, namespace: $NS}
data: {a: x}
---
apiVersion: v1
kind: Secret
metadata: {name: hidden, namespace: $NS}
stringData: {a: x}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: inside, namespace: $NS-elsewhere}
data: {a: x}
---
apiVersion: v1
kind: Namespace
metadata: {name: $NS-third}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $NS}
rules: []
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: $NS}
spec:
  template:
    spec:
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: scaled, namespace: $NS}
spec:
  replicas: 3
  selector: {matchLabels: {app: scaled}}
  template:
    metadata: {labels: {app: scaled}}
    spec: {priorityClassName: $NS, containers: [{name: c, image: nginx}]}
`

// unmanaged are things of others that answer to what is proposed, one by one.
func unmanaged() map[string]string {
	return map[string]string{
		"an object of that name":              strings.Replace(config, "name: settings", "name: other", 1),
		"an object of that name and content":  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: same, namespace: $NS, labels: {poolwright.dev/sync: $SYNC}}\ndata: {a: x}",
		"a Secret of that name":               strings.Replace(secret, "name: token", "name: hidden", 1),
		"the namespace that nothing declares": "apiVersion: v1\nkind: Namespace\nmetadata: {name: $NS-elsewhere}",
		"a namespace of that name":            "apiVersion: v1\nkind: Namespace\nmetadata: {name: $NS-third}",
		"a role of that name":                 "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: $NS}\nrules: []",
		"a pool of that name":                 pool,
		"an autoscaler that aims at what is proposed": "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: scaled, namespace: $NS}\n" +
			"spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: scaled}, maxReplicas: 5}",
		"the port that a managed Service requests": strings.NewReplacer("name: door", "name: taken", "NODEPORT", "30991").Replace(door),
		"a quota that is used up":                  "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: none, namespace: $NS}\nspec: {hard: {configmaps: \"0\", services.nodeports: \"0\"}}",
		"a policy that refuses what is proposed": `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: $NS}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: $NS}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps, services]}]
  validations: [{expression: "false", message: "the vault of team-secret forbids it"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: $NS}
spec: {policyName: $NS, validationActions: [Deny]}`,
	}
}

// refusing waits for the API server to have read a new policy or quota.
func (b *bench) refusing() {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	for b.Context().Err() == nil {
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: "probe"}}
		if err := b.hand.Create(ctx, probe, client.DryRunAll); err != nil {
			if ctx.Err() != nil {
				b.Fatal(err)
			}
			return
		}
	}
}

// oracle asks the same of a target twice: before there is a thing of others, and after.
func oracle(t *testing.T, thing string, mod func(*bench)) (before, after string, log []string) {
	t.Helper()
	b := newBench(t)
	base := b.declare(config, strings.NewReplacer("type: NodePort, ", "", ", nodePort: NODEPORT", "").Replace(door))
	b.reconcile(base)
	head := b.declare(strings.Replace(config, `b: "2"`, `b: "5"`, 1), strings.Replace(door, "NODEPORT", "30991", 1), hostile)
	mod(b)
	before = b.comment(base, head)
	b.make(strings.ReplaceAll(thing, "$SYNC", b.sync), "kubectl-create")
	t.Cleanup(func() {
		for _, item := range b.declare(strings.ReplaceAll(thing, "$SYNC", b.sync)).Items() {
			if err := b.hand.Delete(context.WithoutCancel(t.Context()), &unstructured.Unstructured{Object: item.Object}); client.IgnoreNotFound(err) != nil {
				t.Error(err)
			}
		}
	})
	if strings.Contains(thing, "AdmissionPolicy") || strings.Contains(thing, "kind: ResourceQuota") {
		b.refusing()
	}
	b.wire.take()
	after = b.comment(base, head)
	log = b.wire.take()
	b.restart() // Nor does another process know more.
	if again := b.comment(base, head); again != after {
		t.Errorf("another process tells it otherwise:\n%s", cmp.Diff(after, again))
	}
	return strings.ReplaceAll(before, b.ns, "$NS"), strings.ReplaceAll(after, b.ns, "$NS"), log
}

func TestAPullRequestDoesNotRevealWhatTheSyncDoesNotManage(t *testing.T) {
	for name, thing := range unmanaged() {
		t.Run(name, func(t *testing.T) {
			before, after, log := oracle(t, thing, (*bench).foreign)
			if d := cmp.Diff(before, after); d != "" {
				t.Error(d)
			}
			if !strings.Contains(after, "data.b") || !strings.Contains(after, "8 to create") {
				t.Errorf("the change itself is not reported:\n%s", after)
			}
			if n := countOf(log, "DRYRUN", ""); n > 0 {
				t.Errorf("%d dry runs of what a stranger proposes: %v", n, log)
			}
		})
	}
}

// The guard switched off: the same questions are answered. So each of the things above
// would be found by the test, were it told.
func TestAReviewerWhoMayReadTheClusterGetsWhatTheSyncDoesNotManage(t *testing.T) {
	for name, thing := range unmanaged() {
		t.Run(name, func(t *testing.T) {
			before, after, _ := oracle(t, thing, (*bench).restart)
			if before == after {
				t.Error("nothing of it is told, so that this case proves nothing")
			}
		})
	}
}

func TestAPullRequestHasDriftWithFewDryRuns(t *testing.T) {
	b := newBench(t)
	base := b.declare(config, web)
	b.reconcile(base)
	b.edit("v1", "ConfigMap", "settings", func(o map[string]any) { set(o, "edited", "data", "a") })
	b.foreign()
	head := b.declare(strings.Replace(config, `a: "1", b: "2"`, `a: "4", b: "5"`, 1), web)
	for range 3 {
		got := b.comment(base, head)
		for _, want := range []string{"has drifted live in fields that the change sets: data.a", "edited"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not told:\n%s", want, got)
			}
		}
	}
	if log := b.wire.take(); countOf(log, "DRYRUN", "settings") != 1 {
		t.Errorf("an object that drifted once was sent %d times", countOf(log, "DRYRUN", "settings"))
	}
}
