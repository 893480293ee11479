package karpenter

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
)

// server answers each request for a path by the code that it has there; without one, by an empty list.
func server(t *testing.T, codes map[string]int) *api.Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		code, special := codes[path.Base(r.URL.Path)]
		if special && code != http.StatusOK {
			w.WriteHeader(code)
			reason := map[int]metav1.StatusReason{404: metav1.StatusReasonNotFound, 403: metav1.StatusReasonForbidden}[code]
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(code), Reason: reason})
			return
		}
		if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList") {
			fmt.Fprint(w, `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadataList","metadata":{},"items":[]}`)
			return
		}
		fmt.Fprint(w, `{"apiVersion":"v1","kind":"List","metadata":{},"items":[]}`)
	}))
	t.Cleanup(s.Close)
	client, err := api.New(&rest.Config{Host: s.URL}, "test", rest.NoWarnings{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// A cluster in which nothing defines NodePools and NodeClaims has none, also where permissions to them were never given. All
// else that keeps them from being listed is no answer.
func TestWhatNothingDefinesIsNotThere(t *testing.T) {
	const pools, claims, classes = "nodepools", "nodeclaims", "ec2nodeclasses"
	all := func(list, definition int) map[string]int {
		out := map[string]int{}
		for _, name := range []string{pools, claims, classes} {
			suffix := ".karpenter.sh"
			if name == classes {
				suffix = ".karpenter.k8s.aws"
			}
			out[name], out[name+suffix] = list, definition
		}
		return out
	}
	for _, tt := range []struct {
		name  string
		codes map[string]int
		known bool
	}{
		{"they are listed", all(200, 200), true},
		{"they are not served, and not defined", all(404, 404), true},
		{"they may not be listed, and are not defined", all(403, 404), true},
		{"they are not served, and defined", all(404, 200), false},
		{"they may not be listed, and are defined", all(403, 200), false},
		{"they are not served, and definitions may not be read", all(404, 403), false},
		{"the API server fails", all(500, 404), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client, ctx := server(t, tt.codes), t.Context()
			none := func(*unstructured.Unstructured) bool { return false }
			for how, count := range map[string]func() error{
				"Pools":       func() error { _, err := Pools(ctx, client); return err },
				"Claims":      func() error { _, err := Claims(ctx, client); return err },
				"Claimed":     func() error { _, err := ClaimedPools(ctx, client, ""); return err },
				"Nodes":       func() error { _, _, err := Nodes(ctx, client, "", ""); return err },
				"Users":       func() error { _, err := NodeClassUsers(ctx, client, "x", none); return err },
				"AwaitNodes":  func() error { return AwaitNodes(ctx, client) },
				"AwaitEngine": func() error { return AwaitEngine(ctx, client, nil) },
			} {
				if err := count(); (err == nil) != tt.known {
					t.Errorf("%s: %v", how, err)
				}
			}
		})
	}
}
