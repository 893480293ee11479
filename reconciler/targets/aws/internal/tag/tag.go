// Package tag has the tags that mark in AWS what Poolwright made for a cluster, and compares the
// tags that are declared with those of a resource. It leaves all tags alone that others set.
// Start reading at Diff.
package tag

import (
	"github.com/poolwright/poolwright/reconciler/state"
)

// Prefix begins the keys of the tags that only Poolwright sets.
const Prefix = "poolwright.dev/"

// The tags that mark what Poolwright made. They are part of the declared objects.
const (
	// Cluster holds the cluster's region and name, because IAM is global and
	// clusters of one name may exist in several regions.
	Cluster = "poolwright.dev/cluster"
	// DeletionPolicy holds the deletion policy; it is absent from what was adopted.
	DeletionPolicy = "poolwright.dev/deletion-policy"
)

// Object writes tags in the form of an object's field.
func Object(tags map[string]string) map[string]any {
	out := make(map[string]any, len(tags))
	for k, v := range tags {
		out[k] = v
	}
	return out
}

// Declared returns the tags that an item declares.
func Declared(desired state.Item) map[string]string {
	declared, _ := desired.Object["tags"].(map[string]any)
	out := make(map[string]string, len(declared))
	for k, v := range declared {
		if text, ok := v.(string); ok {
			out[k] = text
		}
	}
	return out
}

// Diff returns which tags to set and which to remove so that the live ones become
// the declared ones. Others' tags stay; of ours, only the deletion policy can be too
// much, when the resource was adopted since.
func Diff(desired state.Item, live map[string]string) (set map[string]string, drop []string) {
	want := Declared(desired)
	set = map[string]string{}
	for k, v := range want {
		if have, ok := live[k]; !ok || have != v {
			set[k] = v
		}
	}
	if _, has := live[DeletionPolicy]; has {
		if _, wants := want[DeletionPolicy]; !wants {
			drop = append(drop, DeletionPolicy)
		}
	}
	return set, drop
}
