package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision/sandbox/process"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// interopEnv names the folder with Flux's controllers and CRDs, which `make interop` builds. Without it the tests of this file
// are skipped: `make test` builds no Flux.
const interopEnv = "POOLWRIGHT_INTEROP"

// flux is the real source-controller and kustomize-controller, beside a Sync and its controller.
type flux struct {
	*syncFixture
	folder          string
	source, applier *process.Process
	storage         string
	starts          int
}

// newFlux starts source-controller, on the repository of a fixture, as the GitRepository nodes in pw-<name>.
func newFlux(t *testing.T, name string) *flux {
	t.Helper()
	skipWithoutInterop(t)
	return newFluxOn(newSyncFixture(t, name))
}

// newFluxOn installs Flux in the sandbox of a fixture, and starts source-controller.
func newFluxOn(s *syncFixture) *flux {
	s.Helper()
	f := &flux{syncFixture: s, folder: os.Getenv(interopEnv), storage: freeAddress(s.T)}
	f.installFlux()
	f.startSourceController()
	return f
}

// installFlux applies the CRDs of the controllers; those that another test has brought stay. A controller ends where one of its kinds is not
// served when it starts.
func (f *flux) installFlux() {
	f.Helper()
	f.servesKinds(f.createsCRDs(f.folder))
}

// servesKinds waits until the API server serves some kinds.
func (s *syncFixture) servesKinds(kinds []schema.GroupVersionKind) {
	s.Helper()
	for _, kind := range kinds {
		s.eventually(kind.Kind+" is served", func() error {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
			return s.hand.List(s.Context(), list)
		})
	}
}

// createsCRDs creates the definitions in the folder crds of what was built, and returns their kinds; those that another test has brought
// stay.
func (f fixture) createsCRDs(folder string) (kinds []schema.GroupVersionKind) {
	f.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "crds", "*.yaml"))
	if err != nil || len(files) == 0 {
		f.Fatalf("no CRDs in %s: %v", folder, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(raw, crd); err != nil {
			f.Fatal(err)
		}
		for _, version := range crd.Spec.Versions {
			if version.Served {
				kinds = append(kinds, schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind})
			}
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(raw, &object.Object); err != nil {
			f.Fatal(err)
		}
		if err := f.hand.Create(f.Context(), object); err != nil && !apierrors.IsAlreadyExists(err) {
			f.Fatal(err)
		}
	}
	return kinds
}

// program starts one of Flux's controllers, which reconciles only the namespace of the test.
func (f *flux) program(name string, args ...string) *process.Process {
	f.Helper()
	f.starts++
	p, err := f.Environment.Run(fmt.Sprintf("%s-%s-%d", f.name, name, f.starts), "/usr/bin/env", append([]string{
		"RUNTIME_NAMESPACE=" + f.system, filepath.Join(f.folder, name), "--watch-all-namespaces=false", "--events-addr=", "--metrics-addr=127.0.0.1:0", "--health-addr=127.0.0.1:0",
		"--enable-leader-election=false",
	}, args...)...)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = p.Kill() })
	return p
}

func (f *flux) startSourceController() {
	f.source = f.program("source-controller", "--storage-path="+f.TempDir(), "--storage-addr="+f.storage, "--storage-adv-addr="+f.storage)
}

// object is one of Flux's in the namespace of the Sync.
func (f *flux) object(version, kind, name string, spec map[string]any) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	out.SetAPIVersion(version)
	out.SetKind(kind)
	out.SetNamespace(f.system)
	out.SetName(name)
	return out
}

// follows makes the GitRepository, and the Sync that names it.
func (f *flux) follows(mods ...func(*v1alpha1.Sync)) *unstructured.Unstructured {
	f.Helper()
	f.credentials(f.token)
	repository := f.object("source.toolkit.fluxcd.io/v1", "GitRepository", "nodes", map[string]any{
		"interval": "1h", "url": f.git.url() + "/" + f.owner.Name + "/nodes.git", "ref": map[string]any{"branch": f.repo.branch}, "secretRef": map[string]any{"name": "git"},
	})
	if err := f.hand.Create(f.Context(), repository.DeepCopy()); err != nil {
		f.Fatal(err)
	}
	named := func(sync *v1alpha1.Sync) {
		sync.Spec.Source = v1alpha1.Source{}
		sync.Spec.SourceRef = &v1alpha1.CrossNamespaceSourceReference{Kind: "GitRepository", Name: "nodes"}
	}
	f.syncNamed(f.name, append([]func(*v1alpha1.Sync){every("1h"), named}, mods...)...)
	return repository
}

// reconcile has Flux reconcile an object now, as `flux reconcile` does, and waits until it has.
func (f *flux) reconcile(o *unstructured.Unstructured) {
	f.Helper()
	at := time.Now().Format(time.RFC3339Nano)
	f.patch(o, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, fluxmeta.ReconcileRequestAnnotation, at))
	f.eventually("Flux has reconciled "+o.GetKind(), func() error {
		live := f.liveObject(o)
		if got, _, _ := unstructured.NestedString(live.Object, "status", "lastHandledReconcileAt"); got != at {
			return fmt.Errorf("handled is %q", got)
		}
		return nil
	})
}

func (f *flux) patch(o *unstructured.Unstructured, patch string) {
	f.Helper()
	if err := f.hand.Patch(f.Context(), o.DeepCopy(), mergePatch(patch)); err != nil {
		f.Fatal(err)
	}
}

func (f *flux) liveObject(o *unstructured.Unstructured) *unstructured.Unstructured {
	f.Helper()
	live := o.DeepCopy()
	if err := f.hand.Get(f.Context(), client.ObjectKeyFromObject(o), live); err != nil {
		f.Fatal(err)
	}
	return live
}

// applied waits until the Sync is ready with a revision.
func (f *flux) applied(revision string) {
	f.Helper()
	f.eventually(revision+" is applied", func() error {
		if sync := f.sync(); sync.Status.LastAppliedRevision != revision || !conditions.IsReady(sync) {
			return fmt.Errorf("applied is %q: %+v", sync.Status.LastAppliedRevision, conditions.Get(sync, fluxmeta.ReadyCondition))
		}
		return nil
	})
}

// eventTimeout is how long the recorder of fluxcd/pkg/runtime/events waits for one try.
const eventTimeout = 5 * time.Second

// blackHole is the address of a server that takes connections and never responds.
func (f *flux) blackHole() string {
	f.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// reconcileSync has the Sync reconcile now by Flux's annotation, which a Receiver of Flux sets too, and waits until it has.
func (f *flux) reconcileSync() {
	f.Helper()
	at := time.Now().Format(time.RFC3339Nano)
	f.patch(f.object(v1alpha1.GroupVersion.String(), "Sync", f.name, nil), fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, fluxmeta.ReconcileRequestAnnotation, at))
	f.eventually("the Sync has handled the request", func() error {
		if got := f.sync().Status.LastHandledReconcileAt; got != at {
			return fmt.Errorf("handled is %q", got)
		}
		return nil
	})
}

// delay is how long after the artifact a revision was live, as watches of both received them; 0 where the object came first, since the
// two watches have no common order.
func (f *flux) delay(repository *unstructured.Unstructured, name, value string) time.Duration {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), waitTimeout)
	defer cancel()
	sources := f.watch(ctx, &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": repository.GetAPIVersion(), "kind": repository.GetKind() + "List"}}, f.system, repository.GetName())
	objects := f.watch(ctx, &corev1.ConfigMapList{}, f.apps, name)
	f.declare(value, name)
	revision := f.repo.commit("Change " + name)
	f.patch(repository, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, fluxmeta.ReconcileRequestAnnotation, time.Now().Format(time.RFC3339Nano)))
	var fetched time.Time
	for {
		select {
		case event := <-sources:
			o, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				f.Fatalf("the watch of the source ended: %+v", event.Object)
			}
			if got, _, _ := unstructured.NestedString(o.Object, "status", "artifact", "revision"); got == revision && fetched.IsZero() {
				fetched = time.Now()
			}
		case event := <-objects:
			if o, ok := event.Object.(*corev1.ConfigMap); ok && o.Data["value"] == value {
				if fetched.IsZero() {
					return 0
				}
				return time.Since(fetched)
			}
		case <-ctx.Done():
			f.Fatalf("%s was not applied", revision)
		}
	}
}

func (f *flux) watch(ctx context.Context, list client.ObjectList, namespace, name string) <-chan watch.Event {
	f.Helper()
	w, err := f.hand.Watch(ctx, list, client.InNamespace(namespace), client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", name)})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(w.Stop)
	return w.ResultChan()
}

// corrections edits each of some objects by hand, and returns how long the edits stayed, in order of length.
func (f *flux) corrections(value string, names ...string) []time.Duration {
	f.Helper()
	var out []time.Duration
	for _, name := range names {
		out = append(out, f.correction(value, name))
	}
	slices.Sort(out)
	return out
}

// correction edits an object by hand, and returns how long the edit stayed.
func (f *flux) correction(value, name string) time.Duration {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), waitTimeout)
	defer cancel()
	events := f.watch(ctx, &corev1.ConfigMapList{}, f.apps, name)
	f.edit(name, `{"data":{"value":"by hand"}}`)
	var edited time.Time
	for {
		select {
		case event := <-events:
			o, ok := event.Object.(*corev1.ConfigMap)
			switch {
			case !ok:
				f.Fatalf("the watch of %s ended: %+v", name, event.Object)
			case o.Data["value"] == "by hand":
				edited = time.Now()
			case o.Data["value"] == value && !edited.IsZero():
				return time.Since(edited)
			}
		case <-ctx.Done():
			f.Fatalf("%s was not put back to %s in %s", name, value, waitTimeout)
		}
	}
}

// quantiles are the median and the longest of durations in order.
func quantiles(d []time.Duration) string {
	return fmt.Sprintf("median %s, longest %s of %d", d[len(d)/2].Round(time.Millisecond), d[len(d)-1].Round(time.Millisecond), len(d))
}

// The real source-controller fetches the sandbox's Git; Flux asks for nothing new in an hour by itself, nor does the Sync.
func TestInteropASyncAppliesWhatSourceControllerFetched(t *testing.T) {
	t.Parallel()
	f := newFlux(t, "interop-source")
	var edited []string
	for i := range 20 {
		edited = append(edited, fmt.Sprintf("d%02d", i))
	}
	f.declare("v1", append(edited, "a", "c")...)
	first := f.repo.commit("Begin")
	f.flags = []string{"--events-addr=http://" + f.blackHole() + "/"}
	f.start()
	repository := f.follows()
	f.applied(first)
	f.holds("a", "v1")

	var delays []time.Duration
	for i := range 5 {
		delays = append(delays, f.delay(repository, "a", fmt.Sprintf("a%d", i)))
	}
	slices.Sort(delays)
	t.Logf("from the artifact to the object: %s", quantiles(delays))
	if median := delays[len(delays)/2]; median > time.Second {
		t.Errorf("half of the artifacts are applied later than %s after they are there", median)
	}
	// Delays that were not measured are no proof of short ones.
	if delays[1] == 0 {
		t.Errorf("of %v more than one was not measured", delays)
	}
	newest := f.repo.revision()
	f.applied(newest)
	with := f.corrections("v1", edited...)

	// An ExternalArtifact of other content, by the real schema, and back.
	files := map[string]string{"config/namespace.yaml": fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", f.apps)}
	for _, name := range append(edited, "a", "c") {
		files["config/"+name+".yaml"] = f.configMap(name, "made")
	}
	made := newFluxSource(f.syncFixture, "ExternalArtifact")
	artifact, err := runtime.DefaultUnstructuredConverter.ToUnstructured(made.serve("made@sha1:"+strings.Repeat("1", 40), files))
	if err != nil {
		t.Fatal(err)
	}
	external := f.object("source.toolkit.fluxcd.io/v1", "ExternalArtifact", "made", map[string]any{})
	if err := f.hand.Create(t.Context(), external.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	live := f.liveObject(external)
	live.Object["status"] = map[string]any{"artifact": artifact}
	if err := f.hand.Status().Update(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	f.change(func(sync *v1alpha1.Sync) {
		sync.Spec.SourceRef.Kind, sync.Spec.SourceRef.Name = "ExternalArtifact", "made"
	})
	f.applied("made@sha1:" + strings.Repeat("1", 40))
	if got := f.sync().Status.LastAttemptedURL; got != "ExternalArtifact/"+f.system+"/made" {
		t.Errorf("read from %q", got)
	}
	f.holds("a", "made")
	f.change(func(sync *v1alpha1.Sync) {
		sync.Spec.SourceRef.Kind, sync.Spec.SourceRef.Name = "GitRepository", "nodes"
	})
	f.applied(newest)
	f.holds("a", "a4")
	f.holds("c", "v1")

	// Without source-controller, and then without the source.
	before := f.census()
	if err := f.source.Kill(); err != nil {
		t.Fatal(err)
	}
	without := f.corrections("v1", edited...)
	t.Logf("drift is put back with Flux: %s; without: %s", quantiles(with), quantiles(without))
	// A recorder that posts within a reconciliation waits for each of its tries.
	if longest := max(with[len(with)-1], without[len(without)-1]); longest >= eventTimeout {
		t.Errorf("while nothing takes events, drift stays for %s", longest)
	}
	f.patch(repository, `{"spec":{"suspend":true},"metadata":{"finalizers":null}}`)
	if err := f.hand.Delete(t.Context(), repository.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	f.eventually("the Sync reports that its source is gone", func() error {
		if ready := conditions.Get(f.sync(), fluxmeta.ReadyCondition); ready.Reason != "ArtifactFailed" {
			return fmt.Errorf("Ready is %+v", ready)
		}
		return nil
	})
	f.corrections("v1", edited[0])
	if diff := cmp.Diff(before, f.census()); diff != "" {
		t.Errorf("without its source the objects, by UID, are others (-before +after):\n%s", diff)
	}

	// It comes back, and the control: what leaves Git is pruned.
	f.startSourceController()
	f.repo.remove("config/c.yaml")
	last := f.repo.commit("Remove c")
	repository.SetResourceVersion("")
	if err := f.hand.Create(t.Context(), repository.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	f.applied(last)
	f.gone("c")
}

// ownedByFlux is a folder that Flux applies by a Kustomization, which waits for what it applied where wait is set.
func (f *flux) ownedByFlux(name, path string, wait bool) *unstructured.Unstructured {
	f.Helper()
	return f.object("kustomize.toolkit.fluxcd.io/v1", "Kustomization", name, map[string]any{
		"interval": "1h", "retryInterval": "1h", "timeout": "10m", "path": path, "prune": true, "wait": wait,
		"sourceRef": map[string]any{"kind": "GitRepository", "name": "nodes"},
	})
}

// Flux applies a ConfigMap, and the Sync declares another value of it: neither writes it again and again.
func TestInteropOneObjectHasOneOwner(t *testing.T) {
	t.Parallel()
	f := newFlux(t, "interop-owner")
	f.applier = f.program("kustomize-controller")
	f.repo.write("apps/namespace.yaml", fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", f.apps))
	f.repo.write("apps/shared.yaml", f.configMap("shared", "of Flux"))
	f.repo.write("config/own.yaml", f.configMap("own", "ours"))
	first := f.repo.commit("Begin")
	f.start()
	repository := f.follows()
	owner := f.ownedByFlux("apps", "./apps", true)
	if err := f.hand.Create(t.Context(), owner.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	f.holds("shared", "of Flux")
	f.applied(first)

	f.repo.write("config/shared.yaml", f.configMap("shared", "of Poolwright"))
	f.repo.commit("Declare it twice")
	f.reconcile(repository)
	f.eventually("the Sync reports who owns it", func() error {
		ready := conditions.Get(f.sync(), fluxmeta.ReadyCondition)
		if ready.Reason != "ApplyFailed" || !strings.Contains(ready.Message, "Flux Kustomization "+f.system+"/apps") || !strings.Contains(ready.Message, ".data.value") {
			return fmt.Errorf("Ready is %+v", ready)
		}
		return nil
	})
	// Flux has applied the new revision too, before its reconciliations are counted.
	f.reconcile(owner)
	before := f.live("shared").ResourceVersion
	for range 20 {
		f.reconcile(owner)
	}
	if now := f.live("shared"); now.ResourceVersion != before || now.Data["value"] != "of Flux" {
		t.Errorf("written since: %s is not %s, value %q", now.ResourceVersion, before, now.Data["value"])
	}
	f.holds("own", "ours")
}

// Flux applies the Sync itself, and is ready once that is.
func TestInteropFluxWaitsForTheSyncThatItApplies(t *testing.T) {
	t.Parallel()
	f := newFlux(t, "interop-wait")
	f.applier = f.program("kustomize-controller")
	f.declare("v1", "a")
	sync := f.spelled(f.name, every("1h"))
	sync.APIVersion, sync.Kind = v1alpha1.GroupVersion.String(), "Sync"
	raw, err := yaml.Marshal(sync)
	if err != nil {
		t.Fatal(err)
	}
	f.repo.write("sync/sync.yaml", string(raw))
	f.repo.commit("Begin")
	f.start()
	f.eventually("the kind Sync is served", func() error { return f.hand.List(t.Context(), &v1alpha1.SyncList{}) })
	f.credentials(f.token)
	repository := f.object("source.toolkit.fluxcd.io/v1", "GitRepository", "nodes", map[string]any{
		"interval": "1h", "url": sync.Spec.Source.Git.URL, "ref": map[string]any{"branch": f.repo.branch}, "secretRef": map[string]any{"name": "git"},
	})
	// Without the expressions, Flux takes a Sync that has no status yet for ready.
	example := &unstructured.Unstructured{}
	if raw, err = os.ReadFile("../../../config/flux/examples/kustomization.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, &example.Object); err != nil {
		t.Fatal(err)
	}
	waiting := f.ownedByFlux("waits", "./sync", true)
	waiting.Object["spec"].(map[string]any)["healthCheckExprs"] = example.Object["spec"].(map[string]any)["healthCheckExprs"]
	for _, o := range []client.Object{repository.DeepCopy(), waiting.DeepCopy()} {
		if err := f.hand.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	ready := func(o *unstructured.Unstructured, status metav1.ConditionStatus, reason, message string) {
		t.Helper()
		f.eventually(fmt.Sprintf("%s is %s", o.GetName(), status), func() error {
			live := f.liveObject(o)
			all, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
			for _, c := range all {
				if c := c.(map[string]any); c["type"] == "Ready" && c["status"] == string(status) && c["observedGeneration"] == live.GetGeneration() &&
					(reason == "" || c["reason"] == reason) && strings.Contains(fmt.Sprint(c["message"]), message) {
					return nil
				}
			}
			return fmt.Errorf("of generation %d its conditions are %v", live.GetGeneration(), all)
		})
	}
	ready(waiting, metav1.ConditionTrue, "", "")
	if !conditions.IsReady(f.sync()) {
		t.Error("Flux is ready, and the Sync is not")
	}

	// A revision that cannot be applied.
	f.repo.write("config/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: }\n")
	f.repo.commit("Break it")
	f.change(func(sync *v1alpha1.Sync) {
		sync.Annotations = map[string]string{fluxmeta.ReconcileRequestAnnotation: time.Now().Format(time.RFC3339Nano)}
	})
	f.eventually("the Sync is stalled", func() error {
		if !conditions.IsStalled(f.sync()) {
			return fmt.Errorf("it has %+v", f.sync().Status.Conditions)
		}
		return nil
	})
	f.patch(waiting, fmt.Sprintf(`{"metadata":{"annotations":{%q:"now"}}}`, fluxmeta.ReconcileRequestAnnotation))
	ready(waiting, metav1.ConditionFalse, fluxmeta.HealthCheckFailedReason, "Sync/"+f.system+"/"+f.name)

	// The control: without wait, Flux is ready all the same.
	f.patch(waiting, `{"spec":{"wait":false}}`)
	ready(waiting, metav1.ConditionTrue, "", "")
	// A suspended Sync is no failure.
	f.repo.write("config/a.yaml", f.configMap("a", "v2"))
	f.repo.commit("Mend it")
	f.change(func(sync *v1alpha1.Sync) {
		sync.Annotations = map[string]string{fluxmeta.ReconcileRequestAnnotation: time.Now().Format(time.RFC3339Nano)}
	})
	f.holds("a", "v2")
	f.ready()
	f.change(func(sync *v1alpha1.Sync) { sync.Spec.Suspend = true })
	f.patch(waiting, `{"spec":{"wait":true}}`)
	f.reconcile(waiting) // Ready is true from before.
	ready(waiting, metav1.ConditionTrue, "", "")
}

// The steps of docs/howto/beside-flux-or-argocd.md, and those back. An object that is moved keeps its UID: nobody deletes it.
func TestInteropAnObjectMovesFromFluxAndBack(t *testing.T) {
	t.Parallel()
	const disabled = "\n  annotations: {%s: disabled}\n"
	f := newFlux(t, "interop-move")
	f.applier = f.program("kustomize-controller")
	f.repo.write("apps/namespace.yaml", fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", f.apps))
	annotated := func(name, value, key string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\n  namespace: %s"+disabled+"data: {value: %s}\n", name, f.apps, key, value)
	}
	const fluxPrune = "kustomize.toolkit.fluxcd.io/prune"
	// 1. Annotated in the old repository, but for the control.
	f.repo.write("apps/moved.yaml", annotated("moved", "v1", fluxPrune))
	f.repo.write("apps/lost.yaml", f.configMap("lost", "v1"))
	f.repo.write("config/own.yaml", f.configMap("own", "ours"))
	f.repo.commit("Begin")
	f.start()
	repository := f.follows()
	owner := f.ownedByFlux("apps", "./apps", false)
	if err := f.hand.Create(t.Context(), owner.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	moved, lost := f.holds("moved", "v1").UID, f.holds("lost", "v1").UID

	// 2. Removed there, and added to the folder of the Sync.
	f.repo.remove("apps/moved.yaml")
	f.repo.remove("apps/lost.yaml")
	f.repo.write("config/moved.yaml", f.configMap("moved", "v1"))
	f.repo.commit("Move it")
	f.reconcile(repository)
	f.reconcile(owner)
	f.gone("lost") // The control: without the annotation, Flux deletes it.
	f.repo.write("config/lost.yaml", f.configMap("lost", "v1"))
	second := f.repo.commit("Declare what was lost")
	f.reconcile(repository)
	// 3. Flux's labels are removed.
	f.edit("moved", `{"metadata":{"labels":{"kustomize.toolkit.fluxcd.io/name":null,"kustomize.toolkit.fluxcd.io/namespace":null}}}`)
	f.reconcileSync()
	f.applied(second)
	f.labelled("moved")
	if got := f.holds("moved", "v1"); got.UID != moved || f.holds("lost", "v1").UID == lost {
		t.Errorf("%s is %s now", moved, got.UID)
	}
	f.repo.write("config/moved.yaml", annotated("moved", "v2", v1alpha1.PruneAnnotation))
	f.applied(f.fetched(repository, "Change it, and keep it"))
	f.holds("moved", "v2")

	// And back, by the annotation of ours.
	f.repo.remove("config/moved.yaml")
	f.repo.write("apps/moved.yaml", f.configMap("moved", "v3"))
	f.applied(f.fetched(repository, "Move it back"))
	f.reconcile(owner)
	if got := f.holds("moved", "v3"); got.UID != moved {
		t.Errorf("%s is %s now", moved, got.UID)
	}
}

// fetched commits, and has Flux fetch that.
func (f *flux) fetched(repository *unstructured.Unstructured, message string) string {
	f.Helper()
	revision := f.repo.commit(message)
	f.reconcile(repository)
	return revision
}
