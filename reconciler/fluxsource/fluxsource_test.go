package fluxsource

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

// apiServer responds to requests by their path, with a status where there is one.
type apiServer struct {
	objects map[string]any
	refused map[string]int
	events  chan any
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") == "true" {
		for event := range a.events {
			_ = json.NewEncoder(w).Encode(event)
			_ = http.NewResponseController(w).Flush()
		}
		return
	}
	code, object := http.StatusOK, a.objects[r.URL.Path]
	if refused := a.refused[r.URL.Path]; refused != 0 {
		code, object = refused, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(refused), Reason: map[int]metav1.StatusReason{403: metav1.StatusReasonForbidden, 500: metav1.StatusReasonInternalError}[refused], Message: "refused"}
	} else if object == nil {
		code, object = http.StatusNotFound, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound}
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}

const (
	kinds = "/apis/source.toolkit.fluxcd.io/v1"
	nodes = kinds + "/namespaces/flux-system/gitrepositories/nodes"
)

func served() metav1.APIResourceList {
	return metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "source.toolkit.fluxcd.io/v1", APIResources: []metav1.APIResource{{Name: "gitrepositories", Kind: "GitRepository", Namespaced: true}}}
}

func repository(status map[string]any) map[string]any {
	return map[string]any{"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": map[string]any{"name": "nodes", "namespace": "flux-system"}, "status": status}
}

func artifactMap(revision string) map[string]any {
	return map[string]any{"url": "http://source-controller/" + revision, "revision": revision, "digest": "sha256:0", "path": "p", "lastUpdateTime": "2026-01-01T00:00:00Z"}
}

func sourceOf(t *testing.T, server http.Handler, ref v1alpha1.CrossNamespaceSourceReference, noCrossNamespaceRefs bool) *Source {
	t.Helper()
	at := httptest.NewServer(server)
	t.Cleanup(at.Close)
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: "poolwright-system", Name: "dev"}}
	sync.Spec.SourceRef = &ref
	s, err := New(&rest.Config{Host: at.URL}, sync, noCrossNamespaceRefs)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTheArtifactOfASourceIsRead(t *testing.T) {
	ref := v1alpha1.CrossNamespaceSourceReference{Kind: "GitRepository", Namespace: "flux-system", Name: "nodes"}
	failing := []any{map[string]any{"type": "Ready", "status": "False", "reason": "GitOperationFailed", "message": "authentication required\nplease"}}
	for name, tt := range map[string]struct {
		objects map[string]any
		refused map[string]int
		want    string
		is      error
		message string
	}{
		"an artifact":                            {map[string]any{nodes: repository(map[string]any{"artifact": artifactMap("main@sha1:1")})}, nil, "main@sha1:1", nil, ""},
		"an artifact of a source that now fails": {map[string]any{nodes: repository(map[string]any{"artifact": artifactMap("main@sha1:1"), "conditions": failing})}, nil, "main@sha1:1", nil, ""},
		"no status":                              {map[string]any{nodes: repository(nil)}, nil, "", gitsource.ErrArtifact, "it has not fetched anything yet"},
		"no artifact, with the reason":           {map[string]any{nodes: repository(map[string]any{"conditions": failing})}, nil, "", gitsource.ErrArtifact, "with reason GitOperationFailed: authentication required"},
		"a status that is not of Flux":           {map[string]any{nodes: repository(map[string]any{"artifact": "x"})}, nil, "", gitsource.ErrArtifact, "it has not fetched anything yet"},
		"no such source":                         {map[string]any{kinds: served()}, nil, "", gitsource.ErrArtifact, "GitRepository flux-system/nodes: artifact not available: it does not exist"},
		"no Flux":                                {nil, nil, "", gitsource.ErrArtifact, "no resource gitrepositories of source.toolkit.fluxcd.io/v1"},
		"a Flux without that kind":               {map[string]any{kinds: metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, GroupVersion: "source.toolkit.fluxcd.io/v1"}}, nil, "", gitsource.ErrArtifact, "no resource gitrepositories"},
		"no permission to read it":               {nil, map[string]int{nodes: http.StatusForbidden}, "", gitsource.ErrArtifact, "grant get and watch"},
		"an API server that fails":               {nil, map[string]int{nodes: http.StatusInternalServerError}, "", gitsource.ErrUnreachable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := sourceOf(t, &apiServer{objects: tt.objects, refused: tt.refused}, ref, false).Artifact(t.Context())
			if got.Revision != tt.want || !errors.Is(err, tt.is) || (err == nil) != (tt.is == nil) {
				t.Errorf("got %+v, %v", got, err)
			}
			if err != nil && !strings.Contains(err.Error(), tt.message) {
				t.Errorf("the message is %v", err)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("a line break of somebody else is in %q", err)
			}
		})
	}
}

func TestASourceOfAnotherNamespace(t *testing.T) {
	server := &apiServer{objects: map[string]any{
		nodes: repository(map[string]any{"artifact": artifactMap("1")}),
		strings.Replace(nodes, "flux-system", "poolwright-system", 1):                               repository(map[string]any{"artifact": artifactMap("2")}),
		"/apis/source.toolkit.fluxcd.io/v1beta2/namespaces/poolwright-system/ocirepositories/nodes": repository(map[string]any{"artifact": artifactMap("3")}),
		"/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/buckets/nodes":                    repository(map[string]any{"artifact": artifactMap("4")}),
		"/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/externalartifacts/nodes":          repository(map[string]any{"artifact": artifactMap("5")}),
	}}
	for name, tt := range map[string]struct {
		ref    v1alpha1.CrossNamespaceSourceReference
		no     bool
		want   string
		reason string
	}{
		"by default it may be used":            {v1alpha1.CrossNamespaceSourceReference{Kind: "GitRepository", Namespace: "flux-system", Name: "nodes"}, false, "1", ""},
		"with the flag it may not":             {v1alpha1.CrossNamespaceSourceReference{Kind: "GitRepository", Namespace: "flux-system", Name: "nodes"}, true, "", "AccessDenied"},
		"without a namespace it is the Sync's": {v1alpha1.CrossNamespaceSourceReference{Kind: "GitRepository", Name: "nodes"}, true, "2", ""},
		"the Sync's by its name":               {v1alpha1.CrossNamespaceSourceReference{Kind: "GitRepository", Namespace: "poolwright-system", Name: "nodes"}, true, "2", ""},
		"of an older version":                  {v1alpha1.CrossNamespaceSourceReference{APIVersion: "source.toolkit.fluxcd.io/v1beta2", Kind: "OCIRepository", Name: "nodes"}, false, "3", ""},
		"a bucket":                             {v1alpha1.CrossNamespaceSourceReference{Kind: "Bucket", Namespace: "flux-system", Name: "nodes"}, false, "4", ""},
		"a bucket with the flag":               {v1alpha1.CrossNamespaceSourceReference{Kind: "Bucket", Namespace: "flux-system", Name: "nodes"}, true, "", "AccessDenied"},
		"an external artifact":                 {v1alpha1.CrossNamespaceSourceReference{Kind: "ExternalArtifact", Namespace: "flux-system", Name: "nodes"}, false, "5", ""},
		"an external artifact with the flag":   {v1alpha1.CrossNamespaceSourceReference{Kind: "ExternalArtifact", Namespace: "flux-system", Name: "nodes"}, true, "", "AccessDenied"},
	} {
		t.Run(name, func(t *testing.T) {
			s := sourceOf(t, server, tt.ref, tt.no)
			got, err := s.Artifact(t.Context())
			class, reason, _ := state.Classify(err)
			if got.Revision != tt.want || tt.reason != "" && (reason != tt.reason || class != state.Stalled) {
				t.Errorf("got %q, %v", got.Revision, err)
			}
			if tt.reason != "" {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if err := s.Watch(ctx, func([]state.Key) { t.Error("it is watched") }); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestOnlyAnotherArtifactIsAChange(t *testing.T) {
	server := &apiServer{events: make(chan any)}
	s := sourceOf(t, server, v1alpha1.CrossNamespaceSourceReference{Kind: "GitRepository", Namespace: "flux-system", Name: "nodes"}, false)
	ctx, cancel := context.WithCancel(t.Context())
	changes, ended := make(chan struct{}, 16), make(chan error)
	go func() {
		ended <- s.Watch(ctx, func(keys []state.Key) {
			if len(keys) > 0 {
				t.Error("it has keys")
			}
			changes <- struct{}{}
		})
	}()
	send := func(kind string, status map[string]any) {
		server.events <- map[string]any{"type": kind, "object": repository(status)}
	}
	later := artifactMap("1")
	later["lastUpdateTime"] = "2026-01-02T00:00:00Z"
	send("ADDED", map[string]any{"artifact": artifactMap("1")})
	<-changes
	send("MODIFIED", map[string]any{"artifact": later, "conditions": []any{map[string]any{"type": "Ready", "status": "False", "reason": "r", "message": "m"}}})
	send("MODIFIED", map[string]any{"artifact": artifactMap("2")})
	<-changes
	send("MODIFIED", map[string]any{})
	<-changes
	send("DELETED", map[string]any{})
	<-changes
	if len(changes) > 0 {
		t.Error("what is the same artifact is a change")
	}
	cancel()
	close(server.events)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestTheStatusIsReadAsFluxWritesIt(t *testing.T) {
	size := int64(3)
	artifact := fluxmeta.Artifact{URL: "u", Path: "p", Revision: "latest@sha256:0", Digest: "sha256:1", Size: &size, Metadata: map[string]string{"a": "b"}}
	object := &unstructured.Unstructured{Object: repository(map[string]any{"artifact": map[string]any{
		"url": "u", "path": "p", "revision": "latest@sha256:0", "digest": "sha256:1", "size": int64(3), "metadata": map[string]any{"a": "b"}, "lastUpdateTime": nil,
	}})}
	if diff := cmp.Diff(&artifact, statusOf(object).Artifact); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
