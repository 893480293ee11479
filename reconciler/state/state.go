// Package state is the one vocabulary of the reconciler: whatever is declared
// in Git, desired by a target or observed in a live target is an Item in a Set.
//
// The package is pure: no client, clock, context or logger. It does not depend on what
// an Item means; each target does. Start reading at Item.
package state

import (
	"fmt"
	"strings"

	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/state/owner"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// The targets.
const (
	// TargetKubernetes is the API server of the cluster.
	TargetKubernetes = "kubernetes"
	// TargetAWS is the account in which the cluster is.
	TargetAWS = "aws"
)

// Key names one thing in one target, whatever the version it is written in.
type Key struct {
	// Target is the target that holds the thing: TargetKubernetes or TargetAWS.
	Target string
	// Group is the Kubernetes API group (empty for the core group), or the AWS
	// service.
	Group string
	// Kind is the Kubernetes kind, or the AWS resource's kind.
	Kind string
	// Namespace is empty for things without one.
	Namespace string
	// Name is unique among things with equal Target, Group, Kind and Namespace.
	Name string
}

// String writes the key as a person would: Kind.group/namespace/name. What is no name is
// quoted, for a message with it could pass for another, see [sanitize.Name].
func (k Key) String() string {
	kind := sanitize.Name(k.Kind)
	if k.Group != "" {
		kind += "." + sanitize.Name(k.Group)
	}
	if k.Namespace != "" {
		return kind + "/" + sanitize.Name(k.Namespace) + "/" + sanitize.Name(k.Name)
	}
	return kind + "/" + sanitize.Name(k.Name)
}

// QualifiedName is the key as String writes it, after its target where that is AWS.
func QualifiedName(k Key) string {
	if k.Target == TargetAWS {
		return TargetAWS + " " + k.String()
	}
	return k.String()
}

// Compare is the total order in which keys reach a reader: target, group,
// kind, namespace, name.
func (k Key) Compare(other Key) int {
	// All five are compared only where they must be: sets of thousands are sorted by this.
	if k.Target != other.Target {
		return strings.Compare(k.Target, other.Target)
	}
	if k.Group != other.Group {
		return strings.Compare(k.Group, other.Group)
	}
	if k.Kind != other.Kind {
		return strings.Compare(k.Kind, other.Kind)
	}
	if k.Namespace != other.Namespace {
		return strings.Compare(k.Namespace, other.Namespace)
	}
	return strings.Compare(k.Name, other.Name)
}

// Origin is where in the repository something was declared. The zero value
// means nowhere: an Item that was observed and not declared.
type Origin struct {
	// File is slash-separated and relative to the repository's root.
	File string
	// Line starts at 1; 0 where only the file is known.
	Line int
}

// String writes file:line, the file alone when the line is unknown, or
// nothing for the zero Origin. A file whose name is no plain path is quoted, as by
// [sanitize.Name].
func (o Origin) String() string {
	if o.Line > 0 {
		return fmt.Sprintf("%s:%d", sanitize.Name(o.File), o.Line)
	}
	return sanitize.Name(o.File)
}

// Preconditions pins one live incarnation of a thing, so that a deletion can never
// hit its successor of the same name.
type Preconditions struct {
	// UID is the API server's uid, or the AWS identifier.
	UID string
	// ResourceVersion is the version that was observed. Empty outside Kubernetes.
	ResourceVersion string
}

// Item is one thing: its key, its content, and where it comes from. Its JSON form has all of it
// and leaves out what is zero.
type Item struct {
	Key Key `json:"key,omitzero"`
	// Version is the API version in which Object is written, without its
	// group ("v1").
	Version string `json:"version,omitempty"`
	// Object is the content in canonical JSON form (map[string]any, []any,
	// string, bool, int64, float64, nil). It is never changed in place.
	Object map[string]any `json:"object"`
	// Origin is where it was declared; zero when observed.
	Origin Origin `json:"origin,omitzero"`
	// Inputs is a digest of what else is declared that the Observation of the thing is computed
	// from, such as the pools that draw on a quota; empty where that is nothing.
	Inputs string `json:"inputs,omitempty"`
	// Live identifies what was observed; zero when desired.
	Live Preconditions `json:"live,omitzero"`
	// Applied is the Hash of the desired Object that we last applied here; set
	// only on observed Items, empty when we never applied one. An observed
	// Item with Applied and without Object was applied and is gone: somebody
	// deleted it.
	Applied string `json:"applied,omitempty"`
	// Owner is who else manages the thing. Such a thing is never forced (see Plan's
	// holds).
	Owner owner.Reference `json:"owner,omitzero"`
	// Wave orders changes: lower waves are applied and ready before higher
	// ones start; deletions go in reverse.
	Wave                int `json:"wave,omitempty"`
	loss.DeletionImpact `json:"deletionImpact,omitzero"`
	CorrectionPolicy    `json:"correctionPolicy,omitzero"`
	Observation         `json:"observation,omitzero"`
}

// WaveOnDecrease is another place in the order of work, for a change that lowers a number.
type WaveOnDecrease struct {
	// Field is the path of a map of numbers in the Object, such as spec and
	// capacity. Numbers may be written as text, as Kubernetes quantities are;
	// one that is not an integer counts as not lowered.
	Field []string
	// Wave takes the place of the Item's when any of them becomes lower.
	Wave int
}

// CorrectionPolicy is how a thing may be corrected. The zero value lets everything pass
// that is ours.
type CorrectionPolicy struct {
	// Adopt is true on a desired Item when a thing that exists under its name,
	// and that we did not make, may be changed into it.
	Adopt bool
	// ReadOnly is why the thing is only ever compared, in a sentence with how a person
	// changes it; empty for what is also corrected. A target sets it on a desired Item that
	// is not ours to write, and on an observed Item that is somebody else's.
	ReadOnly string
	// HoldUntil is what a person wrote on the thing, declared or live, to have it stay as it is until then, and HoldReason
	// why. Both are as they were written: the first may be no time.
	HoldUntil, HoldReason string `json:",omitempty"`
	// OnDecrease, where it is set on a desired Item, orders a change that makes less
	// of something: room must be given up before what fills it is taken away.
	OnDecrease *WaveOnDecrease
	// Ignore are JSON pointers (RFC 6901) to the fields of a desired Object of which the live value
	// stays once the thing exists: it is neither compared nor written. Sorted; none for most.
	Ignore []string `json:",omitempty"`
}

// Observation is what a target reports of a thing beside its content; only on
// observed Items.
type Observation struct {
	// Unknown is why the target could not observe the thing, with what a person can do
	// about it. Such an Item has no Object: it is neither there nor gone, and nothing is
	// done about it. UnknownCode is the same as a code.
	Unknown     string
	UnknownCode finding.Code
	// Hidden is true where the target did not read the thing, because whoever reads the
	// result must not learn whether it exists: it is neither there nor gone, and no
	// difference. Such an Item has no Object. Default false.
	Hidden bool
	// Warnings are what will go wrong unless somebody acts, such as a quota that is too
	// small for a pool. Notes are what else concerns a reader. Both are sorted by their texts.
	Warnings, Notes []finding.Finding
	// Unreadable is why its content may not be read, such as Forbidden: it counts as
	// different, so that the change is tried and its error reported. Empty for all others.
	Unreadable string
	// DryRunError is why an API server refused a dry run of what is desired, so that Object
	// differs only in what can be compared without it. It counts as different, so that the
	// change is tried and its error reported. Empty for all others.
	DryRunError string
	// Ownership is set where an apply gives the Object, but also makes other fields
	// Poolwright's own. It counts as different, so that this is done. Nil for all others.
	Ownership *owner.Fields
	// NotFound is true where the API has nothing of that name and the Notes are all that
	// there is of it, such as a quota that Service Quotas does not list. Default false.
	NotFound bool
	// Quota is what a quota allows; nil for all else.
	Quota *Quota
	// Ignored are the live values of the fields that CorrectionPolicy.Ignore of the desired Item
	// names, in that order.
	Ignored []IgnoredValue `json:",omitempty"`
	// Managers are those that changed what differs, other than Poolwright, the latest first; none where that is
	// not known.
	Managers []owner.Manager `json:",omitempty"`
}

// Quota is what a vCPU quota of EC2 allows the declared NodePools.
type Quota struct {
	// Code is what Service Quotas calls the quota in requests for an increase.
	Code string
	// LimitVCPUs is its value, UsedVCPUs what instances of no declared pool use of it.
	LimitVCPUs, UsedVCPUs int64
	// UsedBy is the part of UsedVCPUs of the cluster's NodePools that are not declared, by their names.
	UsedBy map[string]int64
	// Unlisted is true where Service Quotas lists no quota of that name, so that none limits the
	// pools; all else is then zero. Default false.
	Unlisted bool
	// Unknown is why the quota could not be read, with what a person can do about it; all else
	// is then zero. Where no later read changes that, such a quota is no unknown object: nothing
	// depends on it but warnings and what a guard makes of it.
	Unknown string
}

// ContentUnknown is why the content could not be compared, or not all of it; the zero value where it could.
func (f Observation) ContentUnknown() finding.Finding {
	switch {
	case f.Unreadable != "":
		return finding.New(finding.Unreadable, "unreadable: %s", finding.NewFact("reason", f.Unreadable))
	case f.DryRunError != "":
		return finding.New(finding.DryRunRefused, "a dry run of it is refused: %s", finding.NewFact("reason", f.DryRunError))
	}
	return finding.Finding{}
}
