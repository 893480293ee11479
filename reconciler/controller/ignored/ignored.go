// Package ignored reports of a Sync which fields it ignores, and which of its rules are of no use.
//
// It refuses to repeat values: status and events name fields alone. Start reading at Status.
package ignored

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/poolwright/poolwright/internal/truncate"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// Reason is that of the event on rules that match no object.
const Reason = "IgnoreRuleUnused"

// The bounds of what a status has: objects, fields of each, and bytes of a name.
const (
	objects   = 20
	fields    = 20
	nameBytes = 256
)

// Status is what status.ignored of a Sync has of a plan for everything.
func Status(p plan.Plan) []v1alpha1.IgnoredFields {
	var out []v1alpha1.IgnoredFields
	for _, i := range p.Ignored[:min(len(p.Ignored), objects)] {
		item := v1alpha1.IgnoredFields{Object: name(i.Key().String()), Source: name(i.Declared.Origin.String())}
		changed := i.Fields()
		for _, f := range changed[:min(len(changed), fields)] {
			item.Fields = append(item.Fields, name(f.Path))
		}
		out = append(out, item)
	}
	return out
}

func name(text string) string {
	return truncate.Bytes(sanitize.Escape(text), nameBytes)
}

// Report emits an event for what a plan for everything warns of about the rules of a Sync, unless that
// is what was reported before. It returns what is reported now; empty for nothing.
func Report(recorder record.EventRecorder, sync *v1alpha1.Sync, p plan.Plan, before string) string {
	now := unused(p, sync)
	if now != "" && now != before {
		recorder.Event(sync, corev1.EventTypeWarning, Reason, now)
	}
	return now
}

func unused(p plan.Plan, sync *v1alpha1.Sync) string {
	var out []string
	for _, n := range p.Notes {
		if n.Code == finding.IgnoreRuleUnused && n.Key == (state.Key{Target: state.TargetKubernetes, Group: v1alpha1.GroupVersion.Group, Kind: "Sync", Namespace: sync.Namespace, Name: sync.Name}) {
			out = append(out, n.Text)
		}
	}
	return strings.Join(out, "; ")
}
