// Package ssmversion decides which values the SSM parameters of a Sync have: those that
// were read first, until a person requests newer ones. An image that AWS publishes must
// not replace a team's nodes by itself.
//
// It refuses to read anything: what SSM returns and the time are its input. Start
// reading at Resolve.
package ssmversion

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// Reading is what SSM returns of a parameter.
type Reading struct {
	Value   string
	Version int64
}

// Resolution is what the parameters of a Sync come to.
type Resolution struct {
	// Pins are the values in use, by variable, to be recorded in status.parameters.
	Pins []v1alpha1.PinnedParameter
	// Handled is the value of the update annotation that is handled, to be recorded in
	// status.lastHandledUpdateParameters.
	Handled string
	// Missing are the names of parameters without a value: they were never read.
	Missing []string
	// Updated are the pins of which an update changed the value, Outdated those whose
	// newest value is another since this resolution.
	Updated, Outdated []v1alpha1.PinnedParameter
}

// Values are the variables with the values in use.
func (r Resolution) Values() map[string]string {
	if len(r.Pins) == 0 {
		return nil
	}
	out := make(map[string]string, len(r.Pins))
	for _, p := range r.Pins {
		out[p.Variable] = p.Value
	}
	return out
}

// Resolve decides which values the Sync's parameters have, from its spec, its status
// and its annotations. read is what SSM returns now, by parameter; it may lack any. A
// pin stays for as long as its entry keeps name and variable. An update takes all
// parameters anew, and none where one of them was not read.
func Resolve(sync *v1alpha1.Sync, read map[string]Reading, now time.Time) Resolution {
	out := Resolution{Handled: sync.Status.LastHandledUpdateParameters}
	desired := entries(sync)
	update := updateRequested(sync) && !slices.ContainsFunc(desired, func(e v1alpha1.SubstituteReference) bool { return !has(read, e.Name) })
	if update {
		out.Handled = sync.Annotations[v1alpha1.UpdateParametersAnnotation]
	}
	for _, e := range desired {
		latest, known := read[e.Name]
		old, pinned := pinOf(sync, e)
		switch {
		case !pinned && !known:
			out.Missing = append(out.Missing, e.Name)
			continue
		case !pinned, update && old.Value != latest.Value:
			p := v1alpha1.PinnedParameter{Variable: e.Variable, Name: e.Name, Value: latest.Value, Version: latest.Version, PinnedAt: metav1.NewTime(now.UTC().Truncate(time.Second))}
			if out.Pins = append(out.Pins, p); pinned {
				out.Updated = append(out.Updated, p)
			}
			continue
		}
		was := old.Latest
		if known {
			old.Latest = ""
			if latest.Value != old.Value {
				old.Latest = latest.Value
			}
		}
		if out.Pins = append(out.Pins, old); old.Latest != "" && old.Latest != was {
			out.Outdated = append(out.Outdated, old)
		}
	}
	slices.Sort(out.Missing)
	out.Missing = slices.Compact(out.Missing)
	return out
}

// Names are the parameters of the Sync, sorted, each once.
func Names(sync *v1alpha1.Sync) []string {
	var out []string
	for _, e := range entries(sync) {
		out = append(out, e.Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Due reports whether Resolve needs what SSM returns now: a parameter has no value yet,
// or an update was requested.
func Due(sync *v1alpha1.Sync) bool {
	return updateRequested(sync) || slices.ContainsFunc(entries(sync), func(e v1alpha1.SubstituteReference) bool {
		_, pinned := pinOf(sync, e)
		return !pinned
	})
}

// Pinned is what a Sync's parameters come to by its status alone, for who must not
// change it.
func Pinned(sync *v1alpha1.Sync) Resolution { return Resolve(sync, nil, time.Time{}) }

// updateRequested reports whether the update annotation is not handled yet.
func updateRequested(sync *v1alpha1.Sync) bool {
	value := sync.Annotations[v1alpha1.UpdateParametersAnnotation]
	return value != "" && value != sync.Status.LastHandledUpdateParameters
}

// entries are the Sync's parameters by variable; the last one gives a variable its
// value.
func entries(sync *v1alpha1.Sync) []v1alpha1.SubstituteReference {
	var out []v1alpha1.SubstituteReference
	for _, e := range sync.Spec.SubstituteFrom {
		if e.Kind != v1alpha1.SubstituteSSMParameter {
			continue
		}
		out = slices.DeleteFunc(out, func(o v1alpha1.SubstituteReference) bool { return o.Variable == e.Variable })
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b v1alpha1.SubstituteReference) int { return strings.Compare(a.Variable, b.Variable) })
	return out
}

// pinOf finds the value that an entry has.
func pinOf(sync *v1alpha1.Sync, e v1alpha1.SubstituteReference) (v1alpha1.PinnedParameter, bool) {
	for _, p := range sync.Status.Parameters {
		if p.Variable == e.Variable && p.Name == e.Name {
			return p, true
		}
	}
	return v1alpha1.PinnedParameter{}, false
}

func has(read map[string]Reading, name string) bool {
	_, ok := read[name]
	return ok
}
