package aws

import (
	"slices"

	"github.com/poolwright/poolwright/reconciler/state"
)

// StartPreview starts another comparison of a Target for previews: its next call is for the
// revision that the change starts from. Any other Target ignores it.
func (w *Target) StartPreview() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.preview != nil {
		w.preview.base = nil
	}
}

// observable are the desired things that may be read from AWS: whoever proposes a revision
// must not learn from its preview that a role, a queue or an add-on of some name exists. A record without a hash is an
// intent, maybe to make what another has made, and one of another scope is of another
// cluster's thing. Of what is read-only there are no records: that is read where
// the base compares it as well. Quotas are the account's in that region, and name nothing
// that is in it.
func (w *Target) observable(m desiredState, desired state.Set) state.Set {
	if w.preview == nil {
		return desired
	}
	w.mu.Lock()
	base := w.preview.base
	w.mu.Unlock()
	here := base != nil && base.Region != "" && base.Scope == m.Scope
	return state.NewSet(slices.DeleteFunc(desired.Items(), func(item state.Item) bool {
		rec, known := w.store.Get(item.Key)
		if known && rec.Desired != "" && rec.Scope == m.Text() {
			return false
		}
		if !here || item.ReadOnly == "" && item.Key.Kind != "Quota" {
			return true
		}
		_, compared := base.items.Get(item.Key)
		return !compared && item.Key.Kind != "Quota"
	})...)
}

// unreadItems are the desired things that are not read from AWS, as an observation has them.
func unreadItems(desired, observable state.Set) []state.Item {
	var out []state.Item
	for item := range desired.All() {
		if _, is := observable.Get(item.Key); !is {
			unread := state.Item{Key: item.Key, Version: item.Version, Wave: item.Wave, Observation: state.Observation{Hidden: true}}
			if isQuota(item.Key) {
				unread.Quota = &state.Quota{Unknown: "a preview reads only those of the account and the region that the base declares"}
			}
			out = append(out, unread)
		}
	}
	return out
}
