package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// TestMetadataIsInLargerPagesThanWholeObjects counts requests: a run without a difference lists the metadata of every
// kind, and of some kinds, such as CustomResourceDefinitions, an object alone is a hundred times as large.
func TestMetadataIsInLargerPagesThanWholeObjects(t *testing.T) {
	const objects = 10_000
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
		if err != nil {
			t.Errorf("the limit is no number: %v", err)
		}
		from, _ := strconv.Atoi(r.URL.Query().Get("continue")) // The first has none.
		to, next := from+limit, ""
		if to < objects {
			next = strconv.Itoa(to)
		}
		var items []string
		for i := from; i < min(to, objects); i++ {
			items = append(items, fmt.Sprintf(`{"apiVersion":"v1","kind":"Object","metadata":{"name":"o%d"}}`, i))
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadataList","metadata":{"continue":%q},"items":[%s]}`, next, strings.Join(items, ","))
	}))
	defer server.Close()
	c, err := New(&rest.Config{Host: server.URL}, "manager", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "configmaps"}, {Version: "v1", Resource: "secrets"}, {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	} {
		for list, want := range map[string]int{"metadata": 2, "whole objects": 20} {
			t.Run(list+" of "+resource.Resource, func(t *testing.T) {
				requests = 0
				names := map[string]bool{}
				var err error
				if list == "metadata" {
					err = c.Names(t.Context(), Ref{Resource: resource}, "", "", func(m *metav1.PartialObjectMetadata) { names[m.Name] = true })
				} else {
					_, err = c.List(t.Context(), Ref{Resource: resource}, "", func(u *unstructured.Unstructured) { names[u.GetName()] = true })
				}
				if err != nil || len(names) != objects || requests != want {
					t.Errorf("%d objects in %d requests, want %d, %v", len(names), requests, want, err)
				}
			})
		}
	}
}
