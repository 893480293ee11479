package wire

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	testclock "k8s.io/utils/clock/testing"
)

func TestOnlyAReplicaWithAFreshLeaseWrites(t *testing.T) {
	refuse := false
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.URL.Path)
		if refuse {
			http.Error(w, "conflict", http.StatusConflict)
		}
	}))
	t.Cleanup(server.Close)
	const leases = "/apis/coordination.k8s.io/v1/namespaces/ours/leases"
	clock := testclock.NewFakePassiveClock(time.Now())
	f := &fence{next: http.DefaultTransport, lease: &lease{path: "/namespaces/ours/leases", clock: clock}}
	send := func(method, path string) error {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := f.RoundTrip(req)
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	}
	passes := func(want bool, method, path string) {
		t.Helper()
		got = nil
		err := send(method, path)
		if want && (err != nil || len(got) != 1) {
			t.Errorf("%s %s does not pass: %v", method, path, err)
		}
		if !want && (!errors.Is(err, errFenced) || len(got) != 0) {
			t.Errorf("%s %s passes: %v", method, path, err)
		}
	}
	const write = "/api/v1/namespaces/apps/configmaps/a"
	passes(false, http.MethodPatch, write) // it never led
	passes(true, http.MethodGet, write)
	passes(true, http.MethodPut, "/apis/coordination.k8s.io/v1/namespaces/ours/leases/poolwright")
	passes(true, http.MethodPatch, write)
	clock.SetTime(clock.Now().Add(LeaseDuration - time.Millisecond))
	passes(true, http.MethodDelete, write)
	clock.SetTime(clock.Now().Add(time.Millisecond))
	passes(false, http.MethodDelete, write)
	passes(false, http.MethodPut, "/apis/coordination.k8s.io/v1/namespaces/ours/leases/another")
	passes(false, http.MethodPut, "/apis/coordination.k8s.io/v1/namespaces/theirs/leases/poolwright")
	refuse = true
	passes(true, http.MethodPut, leases+"/poolwright") // and is refused: somebody else holds it
	refuse = false
	passes(false, http.MethodPatch, write)
	passes(true, http.MethodPost, leases)
	passes(true, http.MethodPatch, write)
}

func TestAllTransportsOfAConfigShareTheLease(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	cfg, lease := fenced(&rest.Config{Host: server.URL}, "ours")
	send := func(cfg *rest.Config, method, path string) error {
		t.Helper()
		client, err := rest.HTTPClientFor(cfg)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	}
	other := rest.CopyConfig(cfg)
	if err := send(other, http.MethodDelete, "/api/v1/nodes/a"); !errors.Is(err, errFenced) {
		t.Errorf("got %v", err)
	}
	if err := lease.fresh(); !errors.Is(err, errFenced) {
		t.Errorf("others may write: %v", err)
	}
	if err := send(cfg, http.MethodPut, "/apis/coordination.k8s.io/v1/namespaces/ours/leases/poolwright"); err != nil {
		t.Fatal(err)
	}
	if err := send(other, http.MethodDelete, "/api/v1/nodes/a"); err != nil {
		t.Error(err)
	}
	if err := lease.fresh(); err != nil {
		t.Errorf("others may not write: %v", err)
	}
}
