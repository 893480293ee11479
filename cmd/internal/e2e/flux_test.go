package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// fluxSource is a source of Flux, and the server of its artifacts, as source-controller is for both. The real one runs in
// .ci/interop.
type fluxSource struct {
	*syncFixture
	object *unstructured.Unstructured
	server *httptest.Server

	mu       sync.Mutex
	archives map[string][]byte
}

func newFluxSource(s *syncFixture, kind string) *fluxSource {
	f := &fluxSource{syncFixture: s, archives: map[string][]byte{}, object: &unstructured.Unstructured{}}
	f.object.SetAPIVersion("source.toolkit.fluxcd.io/v1")
	f.object.SetKind(kind)
	f.object.SetNamespace(s.apps)
	f.object.SetName("nodes")
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		b, ok := f.archives[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(b)
	}))
	s.Cleanup(f.server.Close)
	return f
}

// install brings the kind, with no more of its schema than that it has a status.
func (f *fluxSource) install() {
	f.Helper()
	def := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(crdOf(f.object.GroupVersionKind(), "gitrepositories", "Namespaced", anyFields)), &def.Object); err != nil {
		f.Fatal(err)
	}
	if err := f.hand.Create(f.Context(), def); err != nil {
		f.Fatal(err)
	}
	f.create()
}

// create makes the source, which has fetched nothing.
func (f *fluxSource) create() {
	f.Helper()
	f.eventually("the source is accepted", func() error {
		f.object.SetResourceVersion("")
		err := f.hand.Create(f.Context(), f.object.DeepCopy())
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// report writes the status of the source.
func (f *fluxSource) report(artifact *fluxmeta.Artifact, ready metav1.ConditionStatus, message string) {
	f.Helper()
	status := map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": string(ready), "reason": "FromTest", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z",
	}}}
	if artifact != nil {
		out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(artifact)
		if err != nil {
			f.Fatal(err)
		}
		status["artifact"] = out
	}
	live := f.object.DeepCopy()
	if err := f.hand.Get(f.Context(), client.ObjectKeyFromObject(live), live); err != nil {
		f.Fatal(err)
	}
	live.Object["status"] = status
	if err := f.hand.Status().Update(f.Context(), live); err != nil {
		f.Fatal(err)
	}
}

// publish makes ConfigMaps with a value the newest artifact.
func (f *fluxSource) publish(revision, value string, names ...string) {
	f.Helper()
	f.report(f.store(revision, value, names...), metav1.ConditionTrue, "stored artifact")
}

// store serves an artifact of ConfigMaps with a value.
func (f *fluxSource) store(revision, value string, names ...string) *fluxmeta.Artifact {
	f.Helper()
	files := map[string]string{}
	for _, name := range names {
		files["config/"+name+".yaml"] = f.configMap(name, value)
	}
	return f.serve(revision, files)
}

// serve serves an artifact of files, by their names.
func (f *fluxSource) serve(revision string, files map[string]string) *fluxmeta.Artifact {
	f.Helper()
	var out bytes.Buffer
	gz := gzip.NewWriter(&out)
	w := tar.NewWriter(gz)
	var errs []error
	for name, content := range files {
		errs = append(errs, w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}))
		_, err := w.Write([]byte(content))
		errs = append(errs, err)
	}
	if err := errors.Join(append(errs, w.Close(), gz.Close())...); err != nil {
		f.Fatal(err)
	}
	sum := sha256.Sum256(out.Bytes())
	artifact := &fluxmeta.Artifact{
		URL: f.server.URL + "/" + revision, Path: revision, Revision: revision, Digest: "sha256:" + hex.EncodeToString(sum[:]),
		LastUpdateTime: metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.archives["/"+revision] = out.Bytes()
	return artifact
}

// unready waits until the Sync is not ready for a reason, with all of the given in its message.
func (f *fluxSource) unready(reason string, message ...string) {
	f.Helper()
	f.eventually("the Sync reports "+reason, func() error {
		ready := conditions.Get(f.sync(), fluxmeta.ReadyCondition)
		if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != reason ||
			slices.ContainsFunc(message, func(m string) bool { return !strings.Contains(ready.Message, m) }) {
			return fmt.Errorf("Ready is %+v", ready)
		}
		return nil
	})
}

// applied waits until the Sync has applied a revision.
func (f *fluxSource) applied(revision string) {
	f.Helper()
	f.eventually(revision+" is applied", func() error {
		if got := f.sync().Status.LastAppliedRevision; got != revision || !conditions.IsReady(f.sync()) {
			return fmt.Errorf("applied is %q: %+v", got, conditions.Get(f.sync(), fluxmeta.ReadyCondition))
		}
		return nil
	})
}

// keeps edits an object by hand, and waits until it is as the revision has it.
func (f *fluxSource) keeps(name, value string) {
	f.Helper()
	f.edit(name, `{"data":{"value":"by hand"}}`)
	f.holds(name, value)
}

// The Sync asks for what is new once in an hour: what happens earlier is by a watch.
func TestASyncAppliesTheArtifactOfFlux(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "flux")
	if err := hand.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.apps}}); err != nil {
		t.Fatal(err)
	}
	f := newFluxSource(s, "GitRepository")
	s.start()
	s.syncNamed(s.name, every("1h"), func(sync *v1alpha1.Sync) {
		sync.Spec.Source = v1alpha1.Source{}
		sync.Spec.SourceRef = &v1alpha1.CrossNamespaceSourceReference{Kind: "GitRepository", Namespace: s.apps, Name: "nodes"}
	})
	f.unready("ArtifactFailed", "no resource gitrepositories of source.toolkit.fluxcd.io/v1", "install Flux")
	f.install()
	f.report(nil, metav1.ConditionFalse, "authentication required")
	f.unready("ArtifactFailed", "has not fetched anything yet", "authentication required")

	first, second := "main@sha1:"+strings.Repeat("1", 40), "main@sha1:"+strings.Repeat("2", 40)
	f.publish(first, "v1", "a", "b", "c")
	f.applied(first)
	f.publish(second, "v2", "a", "b", "c")
	f.applied(second)
	f.keeps("a", "v2")
	newShell(s.fixture, s.repo, "wait dev", "wait "+s.name+" -n "+s.system).block(newPage(t, "howto/flux-source.md").take("poolwright wait"), exitCode{0})

	// What does not verify changes nothing.
	bad := f.store("main@sha1:"+strings.Repeat("3", 40), "v3", "a")
	bad.Digest = "sha256:" + strings.Repeat("0", 64)
	f.report(bad, metav1.ConditionTrue, "stored artifact")
	f.unready("SourceCorrupt", "does not have the digest", "stays applied")
	bad.URL = f.server.URL + "/gone"
	f.report(bad, metav1.ConditionTrue, "stored artifact")
	f.unready("ArtifactFailed", "does not have it any more", "stays applied")
	bad.URL = "http://169.254.169.254/latest/meta-data"
	f.report(bad, metav1.ConditionTrue, "stored artifact")
	f.unready("InvalidSource", "link-local", "stays applied")
	f.keeps("b", "v2")

	// Nor does the end of the source, and of its server, also not for the next controller.
	f.server.Close()
	if err := s.hand.Delete(t.Context(), f.object.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	f.unready("ArtifactFailed", "does not exist", "stays applied")
	f.keeps("c", "v2")
	c := s.now
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	s.deleteLease()
	s.run(c)
	for _, name := range []string{"a", "b", "c"} {
		f.keeps(name, "v2")
	}

	// The control: an artifact without objects prunes them.
	f.server = httptest.NewServer(f.server.Config.Handler)
	t.Cleanup(f.server.Close)
	f.create()
	f.publish(first, "v1", "a", "b")
	f.applied(first)
	f.eventually("what left the artifact is deleted", func() error {
		err := s.hand.Get(t.Context(), client.ObjectKey{Namespace: s.apps, Name: "c"}, &corev1.ConfigMap{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading c: %w", err)
		}
		return nil
	})
}
