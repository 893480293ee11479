// Package resource is what the kinds of AWS resources and the target that compares and corrects
// them have in common: the contract of a kind, what it reads, the Cluster declaration that it
// works from, and the clients that it sends requests with. It decides neither whether a resource
// may be written or deleted nor in which order. Start reading at Kind and at Live.
package resource

import (
	"context"
	"errors"
	"slices"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// Kind is one type of AWS resource. Its methods decide neither by deletion policies
// nor by ownership nor by the inventory: the target does.
type Kind interface {
	// Desired lists the resources of this kind that a Cluster needs; it sends no
	// request.
	Desired(s Declaration) []state.Item
	// Read reads the named resources, with as few requests as the service
	// allows. A key that is not in the result does not exist. What could not be
	// read has an Err, and does not keep the others from being read.
	Read(ctx context.Context, c *Clients, keys []state.Key) map[state.Key]Live
	// Write makes the resource (live.Object is nil) or changes it into the desired
	// one; live was read a moment ago. It may be called again after it died at
	// any of its requests, and then ends in the same state.
	Write(ctx context.Context, c *Clients, desired state.Item, live Live) error
	// Remove deletes the resource that was read a moment ago; one that is gone
	// already is no error.
	Remove(ctx context.Context, c *Clients, k state.Key, live Live) error
}

// GrantsExtra is a Kind that gives what it makes more than a resource has that somebody
// else made.
type GrantsExtra interface {
	// WithGrants is the projection of somebody else's resource as if it had that, too.
	WithGrants(at Scope, desired, found map[string]any) map[string]any
}

// Live is what was read of one resource.
type Live struct {
	// Object is the resource in the form in which Desired declares it, with all the
	// fields that Desired may declare; nil where it does not exist.
	Object map[string]any
	// UID is its ARN and, where AWS reports it, what sets this incarnation apart
	// from its successor of the same name (an id, a creation time), after "#".
	UID string
	// Tags are all its tags; nil for what has none.
	Tags map[string]string
	// Ours is true for what Poolwright made for this cluster, or may write
	// without adoption; compare Scope.Owns.
	Ours bool
	// Pending is what AWS has not finished yet, such as an update; empty when
	// the resource is as it will stay.
	Pending string
	// Missing is that the resource does not exist and Poolwright never makes it, with the
	// command that does; Object is nil then.
	Missing string
	// ReadOnly is why a difference must not be corrected by writing, and with which
	// commands a person does it.
	ReadOnly string
	// Superseded is true where there is nothing to report of the resource, because another
	// that is missing is reported; Object is nil then, and nothing differs.
	Superseded bool
	// Warnings and Notes are for the reader of a report.
	Warnings, Notes []finding.Finding
	// NotFound is true where AWS has nothing of that name, as in state.Observation.
	NotFound bool
	// Quota is what a quota allows; nil for all else.
	Quota *state.Quota
	// Err is why the state of the resource is unknown; all else is then zero.
	Err error
}

// The waves: a resource is made after all that it needs, and deleted before them.
const (
	WaveFirst  = 10 // policies, queues, log groups, tags
	WaveSecond = 20 // roles, rules
	WaveThird  = 30 // instance profiles, access entries, pod identity
	WaveLast   = 40 // what AWS takes minutes for and nothing waits for: logging, node groups
)

// NeverDeleted is the Remove of kinds that Poolwright never deletes.
type NeverDeleted struct{}

// Remove implements Kind; it is an error.
func (NeverDeleted) Remove(_ context.Context, _ *Clients, k state.Key, _ Live) error {
	return state.Failf(state.Stalled, "NeverDeleted", "%s is never deleted by Poolwright", k)
}

// ReadOnly is the Write and Remove of kinds that are read-only, and so never
// written or deleted.
type ReadOnly struct{ NeverDeleted }

// Write implements Kind; it is an error, and sends no request.
func (ReadOnly) Write(_ context.Context, _ *Clients, desired state.Item, _ Live) error {
	return state.Fail(state.Stalled, "ReadOnly", errors.New(desired.Key.String()+" is read-only: "+desired.ReadOnly))
}

// AllUnknown is the result of a Read that failed for all keys.
func AllUnknown(keys []state.Key, err error) map[state.Key]Live {
	out := make(map[state.Key]Live, len(keys))
	for _, k := range keys {
		out[k] = Live{Err: err}
	}
	return out
}

// Each is the Read of resources that AWS returns one by one. What read returns without an
// object, Missing or Notes does not exist.
func Each(keys []state.Key, read func(state.Key) (Live, error)) map[state.Key]Live {
	out := make(map[state.Key]Live, len(keys))
	for _, k := range keys {
		observed, err := read(k)
		switch {
		case err != nil:
			out[k] = Live{Err: err}
		case observed.Object != nil || observed.Missing != "" || len(observed.Notes) > 0:
			out[k] = observed
		}
	}
	return out
}

// Strings returns strings as the list of an object, sorted.
func Strings[S ~string](in []S) []any {
	sorted := slices.Sorted(slices.Values(in))
	out := make([]any, len(sorted))
	for i, s := range sorted {
		out[i] = string(s)
	}
	return out
}
