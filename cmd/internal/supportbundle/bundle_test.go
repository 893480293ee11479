package supportbundle

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/cmd/internal/check"
)

const home = "poolwright-system"

// planted has a secret, each with hunter2 in it, wherever one may be.
const planted = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: poolwright
  namespace: poolwright-system
  labels: {app.kubernetes.io/name: poolwright}
  annotations:
    deployment.kubernetes.io/revision: "7"
    vault.example.com/inject: hunter2-annotation
    kubectl.kubernetes.io/last-applied-configuration: '{"password":"hunter2-last-applied"}'
spec:
  template:
    metadata:
      annotations: {sidecar.example.com/password: hunter2-template}
    spec:
      initContainers:
        - {name: init, image: x, command: [sh, -c, "curl -u me:hunter2-command x"]}
      containers:
        - name: poolwright
          image: registry.example.com/poolwright:v1
          args: [run, --namespace=poolwright-system]
          env:
            - {name: GOMEMLIMIT, value: 1843MiB}
            - {name: DB_PASSWORD, value: "hunter2 \"with\" quotes"}
            - {name: HTTPS_PROXY, value: "http://me:hunter2-proxy@proxy.example.com/hunter2-path"}
            - {name: HF_TOKEN, value: hunter2-token}
          livenessProbe: {httpGet: {path: /x, httpHeaders: [{name: Authorization, value: hunter2-header}]}}
        - {name: sidecar, image: y, args: [--password, hunter2-args]}
---
apiVersion: v1
kind: Pod
metadata: {name: poolwright-a, namespace: poolwright-system, labels: {app.kubernetes.io/name: poolwright}}
spec: {containers: [{name: poolwright, image: x, env: [{name: API_KEY, value: hunter2-key}]}]}
status: {phase: Running, containerStatuses: [{name: poolwright, restartCount: 2}]}
---
apiVersion: v1
kind: Pod
metadata: {name: bystander, namespace: poolwright-system}
spec: {containers: [{name: x, image: bystander-image}]}
---
apiVersion: poolwright.dev/v1alpha1
kind: Sync
metadata: {name: dev, namespace: poolwright-system, annotations: {poolwright.dev/confirm: gpu-1}}
spec:
  source: {git: {url: "https://me:hunter2-url@git.example.com/team/nodes"}}
  substitute: {DOMAIN: hunter2-variable}
status:
  conditions: [{type: Ready, status: "False", reason: AuthenticationFailed, message: "fetching https://git.example.com/x?token=hunter2-query"}]
---
apiVersion: v1
kind: Event
metadata: {name: e, namespace: poolwright-system}
reason: Failed
message: "the container was started with hunter2-key and http://me:hunter2-proxy@proxy.example.com/hunter2-path"
involvedObject: {kind: Pod, name: poolwright-a}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec: {userData: "#!/bin/sh\nexport X=hunter2-userdata"}
---
apiVersion: v1
kind: Node
metadata: {name: node-a, annotations: {csi.example.com/x: hunter2-node, karpenter.sh/nodepool-hash: "123"}}
status: {images: [{names: [registry.example.com/long]}], allocatable: {cpu: "2"}}
---
apiVersion: v1
kind: Secret
metadata: {name: git, namespace: poolwright-system}
stringData: {password: hunter2-secret}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: values, namespace: poolwright-system}
data: {password: hunter2-configmap}
`

const logged = `{"level":"info","msg":"connecting","proxy":"http://me:hunter2-proxy@proxy.example.com/hunter2-path"}
{"level":"error","msg":"GET https://x:hunter2-password@git.example.com: authorization: Bearer hunter2hunter2.hunter2"}
{"level":"error","msg":"the password hunter2 \"with\" quotes is refused, token hunter2-token"}
`

// objects decodes manifests.
func objects(t *testing.T, manifests string) []client.Object {
	t.Helper()
	var out []client.Object
	for document := range strings.SplitSeq(manifests, "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &u.Object); err != nil {
			t.Fatal(err)
		}
		out = append(out, u)
	}
	return out
}

// request collects what manifests have, or else what is planted; list is called for each kind that is listed.
func request(t *testing.T, list func(kind string) error, manifests ...string) Request {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, k := range append(kinds(home), kind{gvk: schema.GroupVersionKind{Version: "v1", Kind: "Secret"}}, kind{gvk: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}}) {
		scheme.AddKnownTypeWithName(k.gvk, &unstructured.Unstructured{})
		scheme.AddKnownTypeWithName(k.gvk.GroupVersion().WithKind(k.gvk.Kind+"List"), &unstructured.UnstructuredList{})
	}
	kube := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects(t, cmp.Or(strings.Join(manifests, ""), planted))...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, options ...client.ListOption) error {
			if err := list(strings.TrimSuffix(l.GetObjectKind().GroupVersionKind().Kind, "List")); err != nil {
				return err
			}
			return c.List(ctx, l, options...)
		},
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("a single object is read")
		},
	}).Build()
	return Request{
		Kube: kube, Namespace: home, Timeout: time.Minute, Now: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC),
		Checks: check.Report{Namespace: home, Results: []check.Result{{
			Name: "syncs", Status: check.Failed, Object: "Sync dev of hunter2-variable",
			Message: "not Ready: https://hunter2-variable/nodes: 404; started with API_KEY=hunter2-key and token hunter2-token",
			Remedy:  "open http://me:hunter2-proxy@proxy.example.com/hunter2-path",
		}}},
		Logs: func(_ context.Context, namespace, pod string, options *corev1.PodLogOptions) (io.ReadCloser, error) {
			if namespace != home || options.Container != "poolwright" || *options.TailLines != logLines || *options.LimitBytes != logBytes {
				t.Errorf("the log of %s/%s is read with %+v", namespace, pod, options)
			}
			if options.Previous {
				return nil, errors.New("previous terminated container not found: https://x:hunter2@kubelet")
			}
			return io.NopCloser(strings.NewReader(logged)), nil
		},
	}
}

// unpack are the files of an archive.
func unpack(t *testing.T, raw []byte) map[string]string {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	in, files := tar.NewReader(compressed), map[string]string{}
	for {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if header.Mode != 0o600 {
			t.Errorf("%s has mode %o", header.Name, header.Mode)
		}
		files[strings.TrimPrefix(header.Name, folder)] = string(content)
	}
}

func TestABundleHasNoSecret(t *testing.T) {
	var listed []string
	req := request(t, func(kind string) error { listed = append(listed, kind); return nil })
	var out bytes.Buffer
	if err := Write(t.Context(), &out, req); err != nil {
		t.Fatal(err)
	}
	files := unpack(t, out.Bytes())
	for name, content := range files {
		for line := range strings.Lines(content) {
			if strings.Contains(line, "hunter2") {
				t.Errorf("%s has a secret: %s", name, line)
			}
		}
	}
	if slices.Contains(listed, "Secret") || slices.Contains(listed, "ConfigMap") {
		t.Errorf("it lists %v", listed)
	}
}

func TestABundleHasWhatExplainsAFailure(t *testing.T) {
	var out bytes.Buffer
	if err := Write(t.Context(), &out, request(t, func(string) error { return nil })); err != nil {
		t.Fatal(err)
	}
	files := unpack(t, out.Bytes())
	for name, parts := range map[string][]string{
		"check.json":            {`"name": "syncs"`, "not Ready: https://(masked)/nodes: 404"},
		"deployments.json":      {"1843MiB", `"deployment.kubernetes.io/revision": "7"`, "--namespace=poolwright-system", "DB_PASSWORD", "vault.example.com/inject"},
		"pods.json":             {"poolwright-a", `"restartCount": 2`},
		"syncs.json":            {"AuthenticationFailed", "git.example.com/team/nodes", "DOMAIN", "gpu-1"},
		"events.json":           {"the container was started with (masked) and (masked)"},
		"nodes.json":            {"karpenter.sh/nodepool-hash", `"123"`},
		"clusters.json":         {`"items": []`},
		"logs/poolwright-a.log": {`"msg":"connecting"`, "the password (masked) is refused"},
		"not-collected.json":    {"logs/poolwright-a.previous.log: previous terminated container not found"},
	} {
		for _, part := range parts {
			if !strings.Contains(files[name], part) {
				t.Errorf("%s lacks %q: %s", name, part, files[name])
			}
		}
	}
	if strings.Contains(files["pods.json"], "bystander") || strings.Contains(files["nodes.json"], "registry.example.com/long") {
		t.Error("it has pods that are not the controller's, or a node's images")
	}
	for name, content := range files {
		if strings.HasSuffix(name, ".json") && !json.Valid([]byte(content)) {
			t.Errorf("%s is no JSON", name)
		}
	}
}

// A variable may have the name of an object as its value, or a part of it: the variable is masked, and the object is known by its name.
func TestNamesOfObjectsAreReadable(t *testing.T) {
	const named = `
apiVersion: poolwright.dev/v1alpha1
kind: Sync
metadata: {name: training, namespace: poolwright-system}
spec: {substitute: {POOL: training-pool, CLUSTER: production, TEAM: analytics, HOME: poolwright-system, KIND: NodePool, KEY: hunter2-training-pool}}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: training-pool}
spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: analytics-gpus}}}}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: analytics-gpus}
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: training-pool-x7k2p, labels: {karpenter.sh/nodepool: training-pool}}
---
apiVersion: v1
kind: Event
metadata: {name: training-pool.18c5, namespace: poolwright-system}
message: "NodePool training-pool: the key hunter2-training-pool of production and analytics is refused"
involvedObject: {kind: NodePool, name: training-pool}
`
	req := request(t, func(string) error { return nil }, named)
	req.Checks.Results = []check.Result{
		{Name: "syncs", Object: "Sync poolwright-system/training", Message: "production: training-pool is not ready"},
		{Name: "karpenter", Object: "Deployment production/karpenter", Message: "it runs"},
		{Name: "node-classes", Object: "EC2NodeClass analytics-gpus", Message: "that of hunter2-training-pool"},
	}
	var out bytes.Buffer
	if err := Write(t.Context(), &out, req); err != nil {
		t.Fatal(err)
	}
	files := unpack(t, out.Bytes())
	for name, parts := range map[string][]string{
		"check.json":          {`"object": "Sync poolwright-system/training"`, `"object": "Deployment production/karpenter"`, `"object": "EC2NodeClass analytics-gpus"`, `training-pool is not ready`},
		"syncs.json":          {`"name": "training"`, `"namespace": "poolwright-system"`, `"POOL": "(masked)"`, `"CLUSTER": "(masked)"`, `"TEAM": "(masked)"`, `"HOME": "(masked)"`, `"KIND": "(masked)"`},
		"nodepools.json":      {`"kind": "NodePool"`, `"name": "training-pool"`, `"name": "analytics-gpus"`},
		"ec2nodeclasses.json": {`"name": "analytics-gpus"`},
		"nodeclaims.json":     {`"name": "training-pool-x7k2p"`, `"karpenter.sh/nodepool": "training-pool"`},
		"events.json":         {`"name": "training-pool.18c5"`, "NodePool training-pool: the key (masked) of production and (masked) is refused"},
	} {
		for _, part := range parts {
			if !strings.Contains(files[name], part) {
				t.Errorf("%s lacks %s: %s", name, part, files[name])
			}
		}
	}
	for name, content := range files {
		if strings.Contains(content, "hunter2") {
			t.Errorf("%s has a secret: %s", name, content)
		}
	}
}

func TestTheSameContentIsTheSameBundle(t *testing.T) {
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := Write(t.Context(), out, request(t, func(string) error { return nil })); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two bundles of the same differ")
	}
}

func TestWhatMayNotBeReadIsListed(t *testing.T) {
	req := request(t, func(kind string) error {
		if kind == "Node" || kind == "Pod" {
			return fmt.Errorf("%ss are forbidden", kind)
		}
		return nil
	})
	var out bytes.Buffer
	if err := Write(t.Context(), &out, req); err != nil {
		t.Fatal(err)
	}
	files := unpack(t, out.Bytes())
	if got := files["not-collected.json"]; !strings.Contains(got, "nodes: Nodes are forbidden") || !strings.Contains(got, "pods: Pods are forbidden") || files["syncs.json"] == "" || files["nodes.json"] != "" {
		t.Errorf("not collected: %s", got)
	}
}

// A log that is cut ends with a whole line: the first part of a secret would not be masked.
func TestALogIsBoundedAndEndsWithAWholeLine(t *testing.T) {
	req := request(t, func(string) error { return nil })
	line := strings.Repeat("x", 99) + "\n"
	req.Logs = func(context.Context, string, string, *corev1.PodLogOptions) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(strings.Repeat(line, logBytes/len(line)) + strings.Repeat(line, 10))), nil
	}
	var out bytes.Buffer
	if err := Write(t.Context(), &out, req); err != nil {
		t.Fatal(err)
	}
	if got := unpack(t, out.Bytes())["logs/poolwright-a.log"]; len(got) != logBytes/len(line)*len(line) {
		t.Errorf("%d bytes of a log", len(got))
	}
}
