package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// objectStore is a bucket of S3, as far as source-controller requires of one: whether it is there, the list of its objects, and each of them.
type objectStore struct {
	*httptest.Server
	name, accessKey string

	mu      sync.Mutex
	objects map[string]string
	denies  bool
}

func newObjectStore(t *testing.T, name, accessKey string) *objectStore {
	t.Helper()
	s := &objectStore{name: name, accessKey: accessKey, objects: map[string]string{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

// change edits the bucket.
func (s *objectStore) change(edit func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	edit()
}

// storedObject is one of a list.
type storedObject struct {
	Key, ETag    string
	LastModified time.Time
	Size         int
}

func (s *objectStore) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	content, found := s.objects[key]
	modified := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	switch {
	case s.denies || !strings.Contains(r.Header.Get("Authorization"), "Credential="+s.accessKey+"/"):
		w.WriteHeader(http.StatusForbidden)
	case name != s.name || key != "" && !found:
		w.WriteHeader(http.StatusNotFound)
	case key != "":
		w.Header().Set("ETag", etag(content))
		http.ServeContent(w, r, key, modified, strings.NewReader(content))
	case r.Method == http.MethodGet:
		list := struct {
			XMLName     xml.Name `xml:"ListBucketResult"`
			Name        string
			IsTruncated bool
			Contents    []storedObject
		}{Name: s.name}
		for _, key := range slices.Sorted(maps.Keys(s.objects)) {
			list.Contents = append(list.Contents, storedObject{key, etag(s.objects[key]), modified, len(s.objects[key])})
		}
		_ = xml.NewEncoder(w).Encode(list) // a client that went away
	}
}

// etag is that of an object's content.
func etag(content string) string {
	sum := sha256.Sum256([]byte(content))
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// artifact is the revision of a source's artifact.
func (f *flux) artifact(source *unstructured.Unstructured) string {
	f.Helper()
	revision, _, err := unstructured.NestedString(f.liveObject(source).Object, "status", "artifact", "revision")
	if err != nil {
		f.Fatal(err)
	}
	return revision
}

// fetches waits until Flux has reconciled a Bucket, by whether it fetched it.
func (f *flux) fetches(source *unstructured.Unstructured, fetched bool) {
	f.Helper()
	f.reconcile(source)
	all, _, err := unstructured.NestedSlice(f.liveObject(source).Object, "status", "conditions")
	if err != nil {
		f.Fatal(err)
	}
	failed := slices.ContainsFunc(all, func(c any) bool {
		condition, ok := c.(map[string]any)
		return ok && condition["type"] == "FetchFailed" && condition["status"] == "True"
	})
	if failed == fetched {
		f.Errorf("the conditions of the Bucket are %v", all)
	}
}

// The real source-controller fetches the objects of a bucket, whose revision has no branch.
func TestInteropASyncAppliesABucket(t *testing.T) {
	t.Parallel()
	const secretKey = "secret-of-the-bucket"
	f := newFlux(t, "interop-bucket")
	store := newObjectStore(t, "nodes", "AKIAINTEROP")
	f.hide(secretKey)
	store.objects["README.md"] = "# Nodes"
	store.objects["config/namespace.yaml"] = fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", f.apps)
	for _, name := range []string{"a", "b"} {
		store.objects["config/"+name+".yaml"] = f.configMap(name, "v1")
	}
	f.start()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.system, Name: "bucket"}, StringData: map[string]string{"accesskey": store.accessKey, "secretkey": secretKey}}
	source := f.object("source.toolkit.fluxcd.io/v1", "Bucket", "nodes", map[string]any{
		"interval": "1h", "provider": "generic", "bucketName": store.name, "endpoint": store.Listener.Addr().String(), "insecure": true,
		"region": "us-east-1", "secretRef": map[string]any{"name": secret.Name},
	})
	if err := errors.Join(f.hand.Create(t.Context(), secret), f.hand.Create(t.Context(), source.DeepCopy())); err != nil {
		t.Fatal(err)
	}
	f.syncNamed(f.name, every("1h"), func(sync *v1alpha1.Sync) {
		sync.Spec.Source = v1alpha1.Source{}
		sync.Spec.SourceRef = &v1alpha1.CrossNamespaceSourceReference{Kind: "Bucket", Name: "nodes"}
	})
	f.holds("a", "v1")
	f.holds("b", "v1")
	first := f.artifact(source)
	f.applied(first)
	if !strings.HasPrefix(first, "sha256:") {
		t.Errorf("the revision is %q", first)
	}
	f.expect(f.command("wait", f.name, "--for=applied="+first), 0, "applied "+first)
	f.expect(f.command("wait", f.name, "--for=applied="+strings.TrimPrefix(first, "sha256:")[:7]), 0, "applied "+first)

	store.change(func() {
		store.objects["config/a.yaml"] = f.configMap("a", "v2")
		delete(store.objects, "config/b.yaml")
	})
	f.fetches(source, true)
	f.holds("a", "v2")
	f.gone("b")
	second := f.artifact(source)
	f.applied(second)
	if second == first {
		t.Errorf("the revision is still %q", second)
	}

	// A bucket that cannot be read changes nothing.
	store.change(func() {
		store.denies = true
		delete(store.objects, "config/a.yaml")
	})
	f.fetches(source, false)
	f.reconcileSync()
	if sync := f.sync(); sync.Status.LastAppliedRevision != second || !conditions.IsReady(sync) {
		t.Errorf("applied is %q: %+v", sync.Status.LastAppliedRevision, sync.Status.Conditions)
	}
	f.edit("a", `{"data":{"value":"by hand"}}`)
	f.holds("a", "v2")

	// The control: one that can be read is followed again, and what left it is pruned.
	store.change(func() { store.denies = false })
	f.fetches(source, true)
	f.gone("a")
}
