package kubernetes_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: $NS, labels: {team: infra}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: nginx:1
        ports: [{containerPort: 80}]
        resources: {requests: {cpu: 1000m}, limits: {nvidia.com/gpu: 1}}
`

const config = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: $NS}
data: {a: "1", b: "2"}
`

const secret = `
apiVersion: v1
kind: Secret
metadata: {name: token, namespace: $NS, annotations: {note: hunter2}}
stringData: {password: hunter2}
`

const pool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: $NS, annotations: {karpenter.sh/nodepool-hash: "1"}}
spec:
  template:
    spec:
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: $NS}
`

func TestFirstApplySendsOneRequestAnObject(t *testing.T) {
	b := newBench(t)
	declared := b.declare(web, config, secret)
	p := b.plan(declared)
	if d := cmp.Diff([]string{"create ConfigMap/$NS/settings", "create Secret/$NS/token", "create Deployment.apps/$NS/web"}, b.lines(p)); d != "" {
		t.Fatal(d)
	}
	b.wire.take()
	for k, err := range b.apply(p) {
		t.Errorf("%s: %v", k, err)
	}
	log := b.wire.take()
	if n := countOf(log, "PATCH", "") - countOf(log, "PATCH", "-inventory-key"); n != 3 {
		t.Errorf("%d applies for 3 objects:\n%v", n, log)
	}
	// The inventory before and after, the key for digests of Secrets once, and
	// nothing else.
	if len(log) != 6 {
		t.Errorf("requests: %v", log)
	}
	b.converged(declared)
	log = b.wire.take()
	if n := countOf(log, "PATCH", "") + countOf(log, "DRYRUN", "") + countOf(log, "GET", "/web") + countOf(log, "PUT", ""); n != 0 {
		t.Errorf("an unchanged reconcile sent %v", log)
	}
}

func TestHandEditsAreShownAndPutBack(t *testing.T) {
	b := newBench(t)
	declared := b.declare(web, config, secret, pool)
	b.reconcile(declared)
	b.edit("apps/v1", "Deployment", "web", func(o map[string]any) {
		set(o, int64(7), "spec", "replicas")
		set(o, "mine", "metadata", "labels", "owner")
		set(o, int64(5), "spec", "minReadySeconds")
	})
	b.edit("v1", "ConfigMap", "settings", func(o map[string]any) {
		set(o, map[string]any{"a": "9", "c": "3"}, "data")
	})
	b.edit("v1", "Secret", "token", func(o map[string]any) {
		set(o, "b3RoZXI=", "data", "password")
	})
	b.edit("karpenter.sh/v1", "NodePool", b.ns, func(o map[string]any) {
		set(o, int64(10), "spec", "weight")
		set(o, map[string]any{"cpu": "10"}, "spec", "limits")
		set(o, "30m", "spec", "template", "spec", "terminationGracePeriod")
	})
	p := b.plan(declared)
	got := b.lines(p)
	for i, l := range got {
		if len(l) > 22 && l[:22] == "  data.password: maske" {
			got[i] = "  data.password: masked"
		}
	}
	want := []string{
		"update ConfigMap/$NS/settings",
		"  data.a: 9 -> 1",
		"  data.b: <nil> -> 2",
		"update Secret/$NS/token",
		"  data.password: masked",
		"update Deployment.apps/$NS/web",
		"  spec.replicas: 7 -> 2",
		"update NodePool.karpenter.sh/$NS",
		"  spec.limits.cpu: 10 -> <nil>",
		"  spec.template.spec.terminationGracePeriod: 30m -> <nil>",
		"  spec.weight: 10 -> <nil>",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
	for k, err := range b.apply(p) {
		t.Errorf("%s: %v", k, err)
	}
	b.converged(declared)
	if weight, found := b.get("karpenter.sh/v1", "NodePool", b.ns).Object["spec"].(map[string]any)["weight"]; found {
		t.Errorf("weight %v was added by hand and is still there", weight)
	}
	b.restart()
	b.edit("v1", "Secret", "token", func(o map[string]any) { set(o, "b3RoZXI=", "data", "password") })
	if p := b.plan(declared); len(p.Changes) != 1 || !p.Changes[0].Drift {
		t.Errorf("after a restart a Secret's drift is not told from a revision:\n%s", show(p))
	}
	b.reconcile(declared)
	b.restart()
	b.converged(declared)
	log := b.wire.take()
	if n := countOf(log, "DRYRUN", "") + countOf(log, "PUT", ""); n != 0 {
		t.Errorf("after a restart nothing had changed, and it sent %v", log)
	}
}

func TestCommitsAreShownFieldByField(t *testing.T) {
	b := newBench(t)
	b.reconcile(b.declare(web, config))
	changed := b.declare(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: $NS}
spec:
  replicas: 2
  progressDeadlineSeconds: 600
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: nginx:2
        resources: {requests: {cpu: 1, memory: 1Gi}}
      - {name: sidecar, image: busybox}
`)
	p := b.plan(changed)
	want := []string{
		"update Deployment.apps/$NS/web",
		"  metadata.labels.team: infra -> <nil>",
		"  spec.template.spec.containers[name=sidecar].image: <nil> -> busybox",
		"  spec.template.spec.containers[name=sidecar].name: <nil> -> sidecar",
		"  spec.template.spec.containers[name=web].image: nginx:1 -> nginx:2",
		"  spec.template.spec.containers[name=web].ports: [map[containerPort:80 protocol:TCP]] -> <nil>",
		`  spec.template.spec.containers[name=web].resources.limits["nvidia.com/gpu"]: 1 -> <nil>`,
		"  spec.template.spec.containers[name=web].resources.requests.memory: <nil> -> 1Gi",
		"delete ConfigMap/$NS/settings",
	}
	if d := cmp.Diff(want, b.lines(p)); d != "" {
		t.Fatal(d)
	}
	for k, err := range b.apply(p) {
		t.Errorf("%s: %v", k, err)
	}
	b.converged(changed)
}
