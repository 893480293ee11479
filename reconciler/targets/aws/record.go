package aws

import (
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/discovery"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/tag"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
)

// record is what the inventory records of a desired thing, but for the hash of what was desired:
// its identity, where it is, and three things that only the declaration has and its deletion
// needs: its wave, its deletion policy, and whether only bootstrap may write it. uid is empty
// while the thing was not observed.
func (m desiredState) record(item state.Item, uid string) inventory.Record {
	rec := inventory.Record{Key: item.Key, Version: item.Version, Scope: m.Text()}
	rec.Fingerprint.UID = uid
	rec.Wave, rec.Policy = item.Wave, deletionPolicyOf(m.Declaration.Scope, item)
	rec.Reserved = m.reserved != nil && m.reserved()[item.Key]
	return rec
}

// deletionPolicyOf is what a declaration sets for the end of a thing; empty for what
// is adopted or was never ours to make.
func deletionPolicyOf(p resource.Scope, item state.Item) string {
	tags, _ := item.Object["tags"].(map[string]any)
	policy, _ := tags[tag.DeletionPolicy].(string)
	if item.Key.Group == "ec2" {
		_, key := discovery.ParseName(item.Key.Name)
		policy, _ = tags[discovery.MarkerKey(p, key)].(string)
	}
	if item.Adopt {
		return ""
	}
	return policy
}

// deletable reports whether a thing that is not desired any more may be deleted:
// it is ours by its tags, they have Delete, so had the last declaration, and it
// is the very thing that we made.
func deletable(rec inventory.Record, live resource.Live) bool {
	return live.Ours && live.Tags[tag.DeletionPolicy] == string(v1alpha1.AWSDeletionPolicyDelete) && rec.Policy == string(v1alpha1.AWSDeletionPolicyDelete) &&
		(rec.Fingerprint.UID == "" || rec.Fingerprint.UID == live.UID)
}
