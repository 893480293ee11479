package kubernetes_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/poolwright/poolwright/reconciler/state"
)

// once answers the first request that matches, and lets all others pass.
func once(match func(*http.Request) bool, give func(*http.Request) *http.Response) func(*http.Request) (*http.Response, error) {
	var done atomic.Bool
	return func(r *http.Request) (*http.Response, error) {
		if match(r) && done.CompareAndSwap(false, true) {
			return give(r), nil
		}
		return nil, nil
	}
}

func TestAThrottledWriteIsRetriedAfterRetryAfter(t *testing.T) {
	b := newBench(t)
	p := b.plan(b.declare(config))
	b.wire.failing(once(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/settings") }, func(r *http.Request) *http.Response {
		resp := response(r, 429, "TooManyRequests", "slow down")
		resp.Header.Set("Retry-After", "1")
		return resp
	}))
	for k, err := range b.apply(p) {
		t.Errorf("%s: %v", k, err)
	}
	b.converged(b.declare(config))
}

func TestAListWhosePageTokenExpiresStartsAgain(t *testing.T) {
	b := newBench(t)
	var docs []string
	for i := range 501 {
		docs = append(docs, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d, namespace: $NS}", i))
	}
	declared := b.declare(docs...)
	b.applyAll(b.plan(declared))
	expired := once(func(r *http.Request) bool {
		return r.URL.Query().Get("continue") != "" && strings.HasSuffix(r.URL.Path, "/configmaps")
	},
		func(r *http.Request) *http.Response { return response(r, 410, "Expired", "too old") })
	b.wire.failing(expired)
	b.converged(declared)
	b.wire.failing(expired)
	if n := countOf(b.wire.take(), "GET", "configmaps"); n < 4 {
		t.Errorf("only %d requests: the page token did not expire", n)
	}
}

func TestAWatchThatIsTooOldListsAgain(t *testing.T) {
	b := newBench(t)
	declared := b.declare(config, secret)
	b.reconcile(declared)
	b.wire.failing(once(func(r *http.Request) bool {
		return r.URL.Query().Get("watch") != "" && strings.HasSuffix(r.URL.Path, "/configmaps")
	},
		func(r *http.Request) *http.Response {
			// It happened between the List and the Watch.
			b.edit("v1", "ConfigMap", "settings", func(o map[string]any) { set(o, "x", "data", "a") })
			return response(r, 410, "Expired", "too old resource version")
		}))
	w := b.startWatch(b.want(declared), false)
	w.next("settings")
}

func TestAnAPIServerThatGoesAwayIsFoundAgain(t *testing.T) {
	b := newBench(t)
	declared := b.declare(config, secret)
	b.reconcile(declared)
	w := b.startWatch(b.want(declared), false)
	w.followed("configmaps", "secrets")
	if err := sandboxed.KillAPIServer(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.target.Observe(t.Context(), b.declare()); err == nil {
		t.Error("Observe concluded something without an API server")
	}
	if err := sandboxed.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.edit("v1", "ConfigMap", "settings", func(o map[string]any) { set(o, "x", "data", "a") })
	w.next("settings")
}

func TestProblemsThatOnlyTheServerDetectsAreTheUsers(t *testing.T) {
	tests := []struct{ name, manifest, message string }{
		{"an unknown field", strings.Replace(web, "replicas: 2", "replcas: 2", 1), "replcas"},
		{"a field of another type", strings.Replace(web, "replicas: 2", "replicas: many", 1), "replicas"},
		{"two list elements with one key", strings.Replace(web, "image: nginx:1", "image: nginx:1\n        env: [{name: A, value: x}, {name: A, value: y}]", 1), "env"},
		{"an unknown field of a custom resource", strings.Replace(pool, "spec:", "spec:\n  wieght: 1", 1), "wieght"},
		{"a value that the definition forbids", strings.Replace(pool, "spec:", "spec:\n  weight: 1000", 1), "weight"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			errs := b.apply(b.plan(b.declare(tt.manifest)))
			if len(errs) != 1 {
				t.Fatalf("errors: %v", errs)
			}
			for _, err := range errs {
				if class, reason, _ := state.Classify(err); class != state.Stalled || !strings.Contains(err.Error(), tt.message) {
					t.Errorf("%s, %s: %v", class, reason, err)
				}
			}
		})
	}
}
