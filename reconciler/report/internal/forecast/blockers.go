package forecast

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/blocker"
	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
)

// Waits is what keeps a node, as one short phrase; empty where nothing does.
func (v View) Waits(n provision.Node) string {
	var out []string
	for _, b := range n.Blockers {
		why := v.blocker(b)
		switch {
		case b.Kind == blocker.PDB:
			names := each(b.PodDisruptionBudgets, v.Name)
			why = "PodDisruptionBudget " + markup.Names(names)
		case b.Kind == blocker.DoNotDisrupt && b.Pod != (provision.Pod{}):
			why = "do-not-disrupt of " + v.pod(b.Pod)
		case b.Kind == blocker.Unschedulable && b.Pod != (provision.Pod{}):
			why = "a place for " + v.pod(b.Pod)
		case b.Kind == blocker.Node:
			why = "its do-not-disrupt"
		case b.Kind == blocker.Limit:
			why = "capacity within the pool's limits"
		case b.Kind == blocker.Reservation:
			why = "an available instance of its capacity reservation"
		case b.Kind == blocker.Starting:
			why = "its own start"
		}
		if len(out) == 0 || out[len(out)-1] != why {
			out = append(out, why)
		}
	}
	if len(out) > fewNames {
		out = append(out[:fewNames:fewNames], "more")
	}
	return strings.Join(out, ", ")
}

// fewNames is how many names of pods or fields are shown where they are many.
const fewNames = 3

// blockers is what keeps a node, each reason once for all pods that it concerns.
func (v View) blockers(n provision.Node, which func(provision.Blocker) bool) []string {
	var reasons []string
	pods := map[string][]string{}
	for _, b := range n.Blockers {
		if !which(b) {
			continue
		}
		r := v.blocker(b)
		if !slices.Contains(reasons, r) {
			reasons = append(reasons, r)
		}
		if b.Pod != (provision.Pod{}) {
			pods[r] = append(pods[r], v.pod(b.Pod))
		}
	}
	for i, r := range reasons {
		if concerned := pods[r]; len(concerned) > 0 {
			reasons[i] += ": " + markup.Names(concerned)
		}
	}
	if len(reasons) > fewNames {
		reasons = append(reasons[:fewNames:fewNames], fmt.Sprintf("%d reasons more", len(reasons)-fewNames))
	}
	return reasons
}

func (v View) blocker(b provision.Blocker) string {
	var out string
	switch b.Kind {
	case blocker.DoNotDisrupt:
		out = "annotated do-not-disrupt"
	case blocker.Unschedulable:
		out = "would find no other node"
	case blocker.Node:
		out = "the node is annotated do-not-disrupt"
	case blocker.Starting:
		out = "the node is starting"
	case blocker.Limit:
		out = "the pool's limit leaves no capacity for a replacement"
	case blocker.Reservation:
		out = "its capacity reservation has no instance available for a replacement, and the feature gate TerminateFirstDrift is off"
	case blocker.PDB:
		names := make([]string, 0, len(b.PodDisruptionBudgets))
		for _, s := range b.PodDisruptionBudgets {
			names = append(names, v.Name(s))
		}
		out = "PodDisruptionBudget " + markup.Names(names) + " allows no eviction"
	default:
		out = v.Name(string(b.Kind))
	}
	if b.ForcedAfterSeconds > 0 {
		out += ", pod deleted after terminationGracePeriod (" + formatDuration(time.Duration(b.ForcedAfterSeconds)*time.Second) + ")"
	}
	return out
}

// formatDuration writes a time without the units that are zero.
func formatDuration(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}
