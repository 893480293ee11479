package resource

import (
	"maps"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/tag"
)

// Declaration is one Cluster declaration, with its defaults filled in.
type Declaration struct {
	Scope
	// Spec is the Cluster object's.
	Spec v1alpha1.ClusterSpec
	// Origin is where the Cluster object is declared.
	Origin state.Origin
	// Pools are the declared NodePools, for what depends on them.
	Pools []state.Item
	// Bootstrap is true when the controller's own role may be written.
	Bootstrap bool
}

// tags are what a resource of this management policy is tagged with.
func (s Declaration) tags(management v1alpha1.ManagementPolicy) map[string]any {
	out := map[string]any{}
	for k, v := range s.Spec.Tags {
		out[k] = v
	}
	out[tag.Cluster] = s.ClusterTagValue()
	if !management.Adopt {
		policy := management.DeletionPolicy
		if policy == "" {
			policy = v1alpha1.AWSDeletionPolicyOrphan
		}
		out[tag.DeletionPolicy] = string(policy)
	}
	return out
}

// Owned is a desired resource that Poolwright makes, with its tags. The object has the form
// that the Read and Write of its Kind have in common.
func (s Declaration) Owned(k state.Key, wave int, management v1alpha1.ManagementPolicy, object map[string]any) state.Item {
	object = maps.Clone(object)
	object["tags"] = s.tags(management)
	item := s.Shared(k, wave, management.Adopt, object)
	return item
}

// Shared is a desired resource that others make and Poolwright only changes.
func (s Declaration) Shared(k state.Key, wave int, adopt bool, object map[string]any) state.Item {
	return state.Item{Key: k, Version: "v1", Object: object, Origin: s.Origin, Wave: wave, CorrectionPolicy: state.CorrectionPolicy{Adopt: adopt}}
}

// CompareOnly is a desired resource that is never written; how is the command that
// changes it.
func (s Declaration) CompareOnly(k state.Key, how string, object map[string]any) state.Item {
	item := s.Shared(k, 0, false, object)
	item.ReadOnly = how
	return item
}
