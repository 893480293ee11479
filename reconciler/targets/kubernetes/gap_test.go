package kubernetes_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
)

// gap makes the first watch of ConfigMaps end when begin is called, and the next
// be too old, so that what within does in between is in no event. After that,
// listed is closed once everything has been listed again.
func (b *bench) gap(within func()) (begin func(), listed <-chan struct{}) {
	stream, begin := context.WithCancel(b.Context())
	again := make(chan struct{})
	watches := 0
	b.wire.failing(func(r *http.Request) (*http.Response, error) {
		if r.URL.Query().Get("watch") == "" || !strings.HasSuffix(r.URL.Path, "/configmaps") {
			return nil, nil
		}
		switch watches++; watches {
		case 1:
			return b.wire.next.RoundTrip(r.WithContext(stream))
		case 2:
			within()
			return response(r, 410, "Expired", "too old resource version"), nil
		case 3:
			close(again)
		}
		return nil, nil
	})
	return begin, again
}

// drop deletes ConfigMap settings as a person would.
func (b *bench) drop() {
	if err := b.hand.Delete(b.Context(), b.get("v1", "ConfigMap", "settings")); err != nil {
		b.Error(err)
	}
}

func TestADeletionInAGapOfTheWatchIsDetectedAfterAnEventOfTheObject(t *testing.T) {
	b := newBench(t)
	declared := b.declare(config)
	b.reconcile(declared)
	begin, _ := b.gap(b.drop)
	w := b.startWatch(b.want(declared), false)
	w.followed("configmaps")
	b.edit("v1", "ConfigMap", "settings", func(o map[string]any) { set(o, "x", "data", "a") })
	w.next("settings")
	begin()
	w.next("settings")
}

func TestADeletionInAGapOfTheWatchIsDetectedDuringACorrection(t *testing.T) {
	b := newBench(t)
	declared := b.declare(config)
	b.reconcile(declared)
	dropped := make(chan struct{})
	begin, listed := b.gap(func() { <-dropped })
	watches := b.wire.fail
	b.wire.failing(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodPatch || r.URL.Query().Get("dryRun") != "" || !strings.HasSuffix(r.URL.Path, "/settings") {
			return watches(r)
		}
		begin()
		resp, err := b.wire.next.RoundTrip(r)
		b.drop()
		close(dropped)
		<-listed
		return resp, err
	})
	w := b.startWatch(b.want(declared), false)
	w.followed("configmaps")
	p := b.plan(b.declare(strings.Replace(config, `a: "1"`, `a: "2"`, 1)))
	for k, err := range b.apply(p) {
		t.Errorf("%s: %v", k, err)
	}
	w.next("settings")
}
