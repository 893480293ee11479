package aws

import (
	"fmt"
	"strings"

	iampolicy "github.com/poolwright/poolwright/config/iam"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
)

// What the inventory remembers of a thing beside its key: the hash of what was
// wanted (Desired), its identity (Print.UID), where it is (Scope), and three
// things that only the declaration knew and its deletion needs: its wave, its
// deletion policy, and whether only bootstrap may write it.

// record describes a wanted thing of this wish. uid is empty while nobody has
// seen it.
func (m desiredState) record(item state.Item, uid string) inventory.Record {
	rec := inventory.Record{Key: item.Key, Version: item.Version, Scope: m.text()}
	rec.Print.UID = uid
	rec.Wave, rec.Policy = item.Wave, m.policyOf(item)
	rec.Reserved = m.reserved != nil && m.reserved()[item.Key]
	return rec
}

// policyOf is what a declaration says about the end of a thing; empty for what
// is adopted or was never ours to make.
func (p place) policyOf(item state.Item) string {
	tags, _ := item.Object["tags"].(map[string]any)
	policy, _ := tags[policyTag].(string)
	if item.Key.Group == "ec2" {
		_, key := parseDiscoveryName(item.Key.Name)
		policy, _ = tags[p.markerKey(key)].(string)
	}
	if item.Adopt {
		return ""
	}
	return policy
}

// text writes a place as the inventory keeps it.
func (p place) text() string { return p.Account + "/" + p.Region + "/" + p.Cluster }

// placeIn reads what text wrote.
func placeIn(scope string) (place, error) {
	parts := strings.Split(scope, "/")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return place{}, fmt.Errorf("the inventory says that it is in %q, which is not account/region/cluster: another release may have written it", scope)
	}
	return place{Partition: iampolicy.PartitionOf(parts[1]), Account: parts[0], Region: parts[1], Cluster: parts[2]}, nil
}

// deletable reports whether a thing that nobody wants any more may be deleted:
// it is ours by its tags, they say Delete, so did the last declaration, and it
// is the very thing that we made.
func deletable(rec inventory.Record, live liveResource) bool {
	return live.ours && live.tags[policyTag] == string(v1alpha1.PartDelete) && rec.Policy == string(v1alpha1.PartDelete) &&
		(rec.Print.UID == "" || rec.Print.UID == live.uid)
}
