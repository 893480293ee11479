package dynamicresources_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/poolwright/poolwright/provision/engine/dynamicresources"
)

// apiServer serves the resources of resource.k8s.io/v1, none where there are none, and allows everything but one verb
// on one of them.
func apiServer(t *testing.T, denied string, status int, resources ...string) *rest.Config {
	t.Helper()
	mux := http.NewServeMux()
	reply := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(v); err != nil {
			t.Error(err)
		}
	}
	if len(resources) > 0 {
		mux.HandleFunc("GET /apis/resource.k8s.io/v1", func(w http.ResponseWriter, _ *http.Request) {
			list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: "resource.k8s.io/v1"}
			for _, name := range resources {
				list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
			}
			reply(w, list)
		})
	}
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", func(w http.ResponseWriter, r *http.Request) {
		if status != 0 {
			w.WriteHeader(status)
			return
		}
		var review authorizationv1.SelfSubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		of := review.Spec.ResourceAttributes
		if of.Group != "resource.k8s.io" || of.Namespace != "" || !slices.Contains(resources, of.Resource) {
			t.Errorf("reviewed is %+v", of)
		}
		review.Status.Allowed = of.Verb+" "+of.Resource != denied
		reply(w, review)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

func TestKarpenterWatchesOnlyWhatIsServedAndAllowed(t *testing.T) {
	all := []string{"deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"}
	for name, c := range map[string]struct {
		config *rest.Config
		want   error
	}{
		"all kinds are served and allowed":        {config: apiServer(t, "", 0, all...)},
		"an API server before Kubernetes 1.34":    {apiServer(t, "", 0), dynamicresources.ErrUnserved},
		"a kind is missing":                       {apiServer(t, "", 0, all[:3]...), dynamicresources.ErrUnserved},
		"a role without the list of claims":       {apiServer(t, "list resourceclaims", 0, all...), dynamicresources.ErrForbidden},
		"a role without the watch of slices":      {apiServer(t, "watch resourceslices", 0, all...), dynamicresources.ErrForbidden},
		"a role without the watch of the classes": {apiServer(t, "watch deviceclasses", 0, all...), dynamicresources.ErrForbidden},
	} {
		if err := dynamicresources.Check(t.Context(), c.config); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	err := dynamicresources.Check(t.Context(), apiServer(t, "", http.StatusForbidden, all...))
	if err == nil || errors.Is(err, dynamicresources.ErrForbidden) || errors.Is(err, dynamicresources.ErrUnserved) {
		t.Errorf("a permission that cannot be reviewed: %v", err)
	}
}
