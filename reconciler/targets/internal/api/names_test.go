package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// TestTheMetadataOfTenThousandObjectsIsInTwoPages counts requests: a run without a difference lists every
// kind.
func TestTheMetadataOfTenThousandObjectsIsInTwoPages(t *testing.T) {
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
			items = append(items, fmt.Sprintf(`{"metadata":{"name":"o%d"}}`, i))
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadataList","metadata":{"continue":%q},"items":[%s]}`, next, strings.Join(items, ","))
	}))
	defer server.Close()
	c, err := New(&rest.Config{Host: server.URL}, "manager", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	err = c.Names(t.Context(), Ref{Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}}, "", "", func(m *metav1.PartialObjectMetadata) { names[m.Name] = true })
	if err != nil || len(names) != objects || requests != 2 {
		t.Errorf("%d objects in %d requests, %v", len(names), requests, err)
	}
}
