// Package dependency decides whether the Syncs that a Sync depends on let a revision of it be
// applied, and which Syncs a change of another one concerns.
//
// It refuses to order runs, and to read anything but a cache of Syncs: each Sync waits for itself.
// Start reading at Checker.Check.
package dependency

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// Checker checks the dependencies of Syncs. All fields are needed.
type Checker struct {
	// Reader has all Syncs. From one cache it has them as of one time, which is why a Sync that
	// was changed before its dependent is never taken for what it was before.
	Reader client.Reader
}

// Check is why a revision of a Sync must not be applied yet, an error of [state.Fail]; nil where it
// may.
func (c Checker) Check(ctx context.Context, name types.NamespacedName, revision, treeID string) error {
	all, err := c.read(ctx, name.Namespace)
	if err != nil {
		return err
	}
	sync := all[name.Name]
	if sync == nil || len(sync.Spec.DependsOn) == 0 {
		return nil
	}
	return all.check(ctx, sync).reason(sync, revision, treeID)
}

// Fingerprint is what Check depends on beside the revision; empty for a Sync that depends on none.
func (c Checker) Fingerprint(ctx context.Context, sync *v1alpha1.Sync) string {
	if len(sync.Spec.DependsOn) == 0 {
		return ""
	}
	all, err := c.read(ctx, sync.Namespace)
	if err != nil {
		return err.Error() // Check has it, too.
	}
	return all.check(ctx, sync).fingerprint()
}

func (c Checker) read(ctx context.Context, namespace string) (syncs, error) {
	var list v1alpha1.SyncList
	if err := c.Reader.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the Syncs that others depend on: %w", err)
	}
	all := syncs{}
	for i := range list.Items {
		all[list.Items[i].Name] = &list.Items[i]
	}
	return all, nil
}

// syncs are the Syncs of a namespace by name.
type syncs map[string]*v1alpha1.Sync

// cycle is the shortest path by which the dependencies of a Sync lead back to it, with the Sync at
// both ends; nil where there is none.
func (s syncs) cycle(sync *v1alpha1.Sync) []string {
	from := map[string]string{}
	for next := []*v1alpha1.Sync{sync}; len(next) > 0; next = next[1:] {
		at := next[0]
		for _, d := range at.Spec.DependsOn {
			if foreign(at, d) {
				continue
			}
			if d.Name == sync.Name {
				path := []string{sync.Name}
				for name := at.Name; name != sync.Name; name = from[name] {
					path = append([]string{name}, path...)
				}
				return append([]string{sync.Name}, path...)
			}
			if _, known := from[d.Name]; !known && s[d.Name] != nil {
				from[d.Name] = at.Name
				next = append(next, s[d.Name])
			}
		}
	}
	return nil
}

// foreign reports whether a dependency is in another namespace.
func foreign(sync *v1alpha1.Sync, d v1alpha1.DependencyReference) bool {
	return d.Namespace != "" && d.Namespace != sync.Namespace
}
