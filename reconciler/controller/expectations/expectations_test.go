package expectations

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

func TestWhenACacheIsBehind(t *testing.T) {
	wrote := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		uid     types.UID
		version string
		after   time.Duration
		want    bool
	}{
		"an older version is behind, by its number":               {"sync", "999", 0, true},
		"what we wrote is not":                                    {"sync", "1000", 0, false},
		"nor what somebody wrote since":                           {"sync", "1001", 0, false},
		"a Sync that was made again is another one":               {"again", "7", 0, false},
		"versions that are no numbers cannot be ordered":          {"sync", "v9", 0, false},
		"a cache that does not catch up is awaited for a while":   {"sync", "999", Timeout - 1, true},
		"a cache that never catches up does not hold up the Sync": {"sync", "999", Timeout, false},
	} {
		t.Run(name, func(t *testing.T) {
			var all Expectations
			sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: "poolwright-system", Name: "gpu", UID: "sync", ResourceVersion: "1000"}}
			all.Expect(sync, wrote)
			sync.UID, sync.ResourceVersion = c.uid, c.version
			if got := !all.Satisfied(sync, wrote.Add(c.after)); got != c.want {
				t.Errorf("behind: %v, want %v", got, c.want)
			}
			all.Delete(client.ObjectKeyFromObject(sync))
			if !all.Satisfied(sync, wrote) || len(all.last) > 0 {
				t.Error("it is expected though it is gone")
			}
		})
	}
}
