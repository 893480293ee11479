package cluster_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
)

// gap makes the first watch of ConfigMaps end when begin is called, and the next
// be too old, so that what within does in between is in no event.
func (b *bench) gap(within func()) (begin func()) {
	stream, begin := context.WithCancel(b.Context())
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
			return answer(r, 410, "Expired", "too old resource version"), nil
		}
		return nil, nil
	})
	return begin
}

// drop deletes ConfigMap settings as a person would.
func (b *bench) drop() {
	if err := b.hand.Delete(b.Context(), b.get("v1", "ConfigMap", "settings")); err != nil {
		b.Error(err)
	}
}

func TestADeletionInAGapOfTheWatchIsSeenAfterAnEventOfTheObject(t *testing.T) {
	b := newBench(t)
	declared := b.declare(config)
	b.reconcile(declared)
	begin := b.gap(b.drop)
	w := b.startWatch(b.want(declared), false)
	w.followed("configmaps")
	b.edit("v1", "ConfigMap", "settings", func(o map[string]any) { set(o, "x", "data", "a") })
	w.next("settings")
	begin()
	w.next("settings")
}
