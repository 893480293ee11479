package forecast

import (
	"fmt"
	"strings"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
	"github.com/poolwright/poolwright/reconciler/report/internal/section"
)

// unscheduled are the pods that lose their place, then those that the change adds and
// that never get one.
func (v View) unscheduled(f *provision.Forecast) section.Section {
	lost, strange := f.PodScheduling.NewlyUnschedulable, newcomers(f)
	out := section.Section{Color: "-", Lines: section.First(append(v.reasons(lost), v.reasons(strange)...), v.Lines.Few())}
	switch {
	case len(strange) == 0:
		out.Title = fmt.Sprintf("Pods that no longer find a node (%d)", podsIn(lost))
	case len(lost) == 0:
		out.Title = fmt.Sprintf("New pods that find no node (%d)", podsIn(strange))
	default:
		out.Title = fmt.Sprintf("Pods that no longer find a node (%d), and new ones that find none (%d)", podsIn(lost), podsIn(strange))
	}
	return out
}

// newcomers are the pods that only the change adds and that find no node.
func newcomers(f *provision.Forecast) []provision.Placement {
	var out []provision.Placement
	for _, p := range f.PodScheduling.Unschedulable {
		if p.New {
			out = append(out, p)
		}
	}
	return out
}

// scheduled are the pods that get a node by the change.
func (v View) scheduled(f *provision.Forecast) section.Section {
	out := section.Section{Title: fmt.Sprintf("Pods that find a node now (%d)", podsIn(f.PodScheduling.NewlySchedulable)), Color: "+"}
	for _, p := range f.PodScheduling.NewlySchedulable {
		where := "on a node of no pool"
		if p.Pool != "" {
			where = "in pool " + v.Name(p.Pool)
		}
		out.Lines = append(out.Lines, v.alike(p)+" "+where)
	}
	out.Lines = section.First(out.Lines, v.Lines.Few())
	return out
}

// waiting are the pods that found no node before and find none after.
func (v View) waiting(f *provision.Forecast) section.Section {
	var old []provision.Placement
	for _, p := range f.PodScheduling.Unschedulable {
		if !p.New {
			old = append(old, p)
		}
	}
	return section.Section{
		Title: fmt.Sprintf("Pods that fit no node before and after (%d)", podsIn(old)), Color: "bold",
		Folded: section.First(plainText().reasons(old), v.Lines.Many()),
	}
}

// reasons has each reason once, after the pods of which it is true.
func (v View) reasons(list []provision.Placement) []string {
	var whys []string
	pods := map[string][]string{}
	for _, p := range list {
		if _, ok := pods[p.Reason]; !ok {
			whys = append(whys, p.Reason)
		}
		pods[p.Reason] = append(pods[p.Reason], v.alike(p))
	}
	out := make([]string, 0, len(whys))
	for _, why := range whys {
		out = append(out, markup.Names(pods[why])+": "+v.Name(why))
	}
	return out
}

// podsIn counts pods with those of their shape.
func podsIn(list []provision.Placement) int {
	n := 0
	for _, p := range list {
		n += 1 + p.Similar
	}
	return n
}

// alike names a pod, or the declared object that has it made, with what else there is
// of it and how many pods it stands for.
func (v View) alike(p provision.Placement) string {
	if p.Workload == "" {
		if p.Similar == 0 {
			return v.pod(p.Pod)
		}
		return fmt.Sprintf("%s (and %d like it)", v.pod(p.Pod), p.Similar)
	}
	details := ""
	if p.New {
		details = "new, "
	}
	pods := plural.Count(1+p.Similar, "pod")
	if p.Inactive {
		details += withoutPodsReason(p.Workload) + ": "
		if p.Similar == 0 {
			pods = "one pod"
		}
	}
	if p.Workload == "Pod" && p.Similar == 0 {
		pods = ""
	}
	out := v.kind(p.Workload) + " " + v.pod(p.Pod)
	if details = strings.TrimRight(details+pods, ", "); details != "" {
		out += " (" + details + ")"
	}
	return out
}

// withoutPodsReason is why a workload has no pods now.
func withoutPodsReason(kind string) string {
	switch kind {
	case "CronJob":
		return "not running now"
	case "Job":
		return "suspended"
	}
	return "scaled to zero"
}

// kind is the kind of a workload, bare where it is one of the common ones.
func (v View) kind(s string) string {
	switch s {
	case "Pod", "Deployment", "ReplicaSet", "StatefulSet", "ReplicationController", "Job", "CronJob":
		return s
	}
	return v.Short(s)
}
