package pluginupdate

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// expectation is a version of a Node that this process made.
type expectation struct {
	uid     types.UID
	version string
}

// caughtUp reports whether the nodes, as the cache has them, show all that this
// process wrote. Until they do, a node whose plugin has just been deleted can seem
// untouched, and another would be taken beside it. After a restart there is nothing to
// compare with: a new cache begins with the newest state.
func (r *Updater) caughtUp(nodes []corev1.Node) bool {
	if len(r.expectations) == 0 {
		return true
	}
	waits := map[string]expectation{}
	for i := range nodes {
		w, ok := r.expectations[nodes[i].Name]
		if !ok || w.uid != nodes[i].UID {
			continue
		}
		if order, err := resourceversion.CompareResourceVersion(nodes[i].ResourceVersion, w.version); err == nil && order < 0 {
			waits[nodes[i].Name] = w
		}
	}
	r.expectations = waits
	return len(waits) == 0
}

// errBehind reports that a cache does not show the newest state yet.
var errBehind = errors.New("the cache is behind")
