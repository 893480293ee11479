package history

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/poolwright/poolwright/cmd/internal/document"
	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler/history"
)

// Event is one thing that happened, as of the history.
type Event struct {
	Time metav1.Time `json:"time"`
	// Type is Normal or Warning, as of a Kubernetes event.
	Type string `json:"type"`
	// Reason is what happened, in CamelCase.
	Reason EventReason `json:"reason"`
	// Object is what it is about, as Kind/name.
	Object string `json:"object"`
	// Sync is the name of the Sync of an apply, of drift and of a pull request; empty for all else. It is in no document.
	Sync string `json:"-"`
	// NodePool is the name of the NodePool of a NodeClaim; empty for all else.
	NodePool string `json:"nodePool,omitempty"`
	// Node is the name of the Node of a NodeClaim; empty for all else, and before it registers.
	Node string `json:"node,omitempty"`
	// PullRequest is the number of a pull request; 0 for all else.
	PullRequest int64 `json:"pullRequest,omitempty"`
	// Message has the cause, and what else is recorded.
	Message string `json:"message"`
}

// EventReason is what happened, in CamelCase.
type EventReason string

// The reasons: the conditions of a NodeClaim, then what is recorded of Syncs, which are those of their Kubernetes events.
const (
	EventLaunched    EventReason = "Launched"
	EventInitialized EventReason = "Initialized"
	EventDisrupted   EventReason = "Disrupted"
	EventTerminated  EventReason = "Terminated"
	// EventReconciliationSucceeded is a revision that changed something, and is applied.
	EventReconciliationSucceeded EventReason = "ReconciliationSucceeded"
	EventApplyFailed             EventReason = "ApplyFailed"
	EventDriftCorrected          EventReason = "DriftCorrected"
	// EventDriftReported is drift that is only reported, EventDriftNotCorrected what could not be corrected.
	EventDriftReported     EventReason = "DriftReported"
	EventDriftNotCorrected EventReason = "DriftNotCorrected"
	EventMerged            EventReason = "Merged"
	EventRolledOut         EventReason = "RolledOut"
)

// Events are the events that the command prints.
type Events struct {
	// Events are in the order of time, the oldest first.
	Events []Event `json:"events"`
}

// EventsOf are the events of a History, the oldest first.
func EventsOf(h history.History) []Event {
	var out []Event
	for _, n := range h.NodeClaims {
		out = append(out, nodeEvents(n)...)
	}
	for _, a := range h.Applies {
		out = append(out, applyEvent(a))
	}
	for _, d := range h.Drift {
		out = append(out, driftEvent(d))
	}
	for _, p := range h.PullRequests {
		out = append(out, pullEvents(p)...)
	}
	slices.SortStableFunc(out, func(a, b Event) int { return a.Time.Compare(b.Time.Time) })
	return out
}

func nodeEvents(n history.NodeClaim) []Event {
	var out []Event
	add := func(at metav1.Time, kind string, reason EventReason, message string) {
		if !at.IsZero() {
			out = append(out, Event{Time: at, Type: kind, Reason: reason, Object: "NodeClaim/" + n.Name, NodePool: n.NodePool, Node: n.Node, Message: message})
		}
	}
	launched := strings.Join(slices.DeleteFunc([]string{n.InstanceType, n.CapacityType, n.Zone}, func(s string) bool { return s == "" }), ", ")
	if len(n.Pods) > 0 {
		launched += "; first pods: " + strings.Join(n.Pods, ", ")
	}
	add(n.Launched, "Normal", EventLaunched, launched)
	if !n.Initialized.IsZero() {
		add(n.Initialized, "Normal", EventInitialized, fmt.Sprintf("%s after the launch; node %s", duration.HumanDuration(n.Initialized.Sub(n.Launched.Time)), n.Node))
	}
	kind := "Normal"
	if slices.Contains([]history.Reason{history.ReasonGPUsNotAllocatable, history.ReasonRegistrationTimeout, "Unhealthy", history.ReasonUnknown}, n.Reason) || n.Reason == "SpotInterrupted" {
		kind = "Warning"
	}
	cause := string(n.Reason)
	if n.Message != "" {
		cause += ": " + n.Message
	}
	if n.Revision != "" {
		cause += " by revision " + short(n.Revision)
	}
	if n.Reason == history.ReasonDeleted {
		cause += ", by a person or another controller"
	}
	if n.Reason != history.ReasonUnknown {
		add(n.Deleted, kind, EventDisrupted, cause)
	}
	if !n.Terminated.IsZero() {
		ended := duration.HumanDuration(n.Terminated.Sub(n.Launched.Time)) + " after the launch"
		cost := "; cost "
		if n.TerminationUnobserved {
			ended, cost = "termination not observed; last observed "+ended, "; cost at least "
		}
		if n.USD != nil {
			ended += cost + amount(*n.USD, n.PriceBasis.Approximate())
		}
		if observed := n.GPUSeconds.Paid - n.GPUSeconds.Unobserved; n.GPUs > 0 && observed > 0 {
			ended += fmt.Sprintf("; GPUs were requested for %s of that time", percent(n.GPUSeconds.Requested, observed))
		}
		add(n.Terminated, kind, EventTerminated, ended)
	}
	return out
}

func applyEvent(a history.Apply) Event {
	var counts []string
	for _, c := range []struct {
		n    int
		what string
	}{{a.Created, "created"}, {a.Updated, "updated"}, {a.Deleted, "deleted"}, {a.Failed, "failed"}, {a.Held, "held"}} {
		if c.n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	e := Event{Time: a.Time, Type: "Normal", Reason: EventReconciliationSucceeded, Object: "Sync/" + a.Sync, Sync: a.Sync, Message: fmt.Sprintf("%s in %s", strings.Join(counts, ", "), seconds(a.Seconds))}
	if a.Revision != "" { // It has none where the Sync is deleted.
		e.Message = short(a.Revision) + ": " + e.Message
	}
	if a.Failed > 0 {
		e.Type, e.Reason = "Warning", EventApplyFailed
	}
	if len(a.Objects) > 0 {
		e.Message += "; " + a.Objects[0]
		if more := len(a.Objects) - 1; more > 0 {
			e.Message += " and " + plural.Count(more, "more object")
		}
	}
	return e
}

func driftEvent(d history.Drift) Event {
	e := Event{Time: d.Time, Type: "Normal", Reason: EventDriftCorrected, Object: d.Object, Sync: d.Sync, Message: difference(d)}
	if len(d.Managers) > 0 {
		e.Message += "; by " + d.Managers[0].Name
		if at := d.Managers[0].Time; at != "" {
			e.Message += " at " + at
		}
	}
	switch d.Result {
	case history.DriftCorrected:
		e.Message += "; corrected"
	case history.DriftReported:
		e.Message += "; not to be corrected"
		e.Type, e.Reason = "Warning", EventDriftReported
	case history.DriftNotCorrected:
		e.Message += "; could not be corrected"
		e.Type, e.Reason = "Warning", EventDriftNotCorrected
	}
	return e
}

func pullEvents(p history.PullRequest) []Event {
	name := fmt.Sprintf("Sync/%s", p.Sync)
	merged := fmt.Sprintf("pull request #%d", p.Number)
	if p.Predicted != nil {
		merged += "; predicted: " + NodesText(*p.Predicted)
	}
	out := []Event{{Time: p.Merged, Type: "Normal", Reason: EventMerged, Object: name, Sync: p.Sync, PullRequest: p.Number, Message: merged}}
	if !p.RolledOut.IsZero() {
		message := fmt.Sprintf("pull request #%d: %s", p.Number, NodesText(p.Actual))
		out = append(out, Event{Time: p.RolledOut, Type: "Normal", Reason: EventRolledOut, Object: name, Sync: p.Sync, PullRequest: p.Number, Message: message})
	}
	return out
}

// NodesText is how many nodes are replaced and removed, and how long that took where it is known.
func NodesText(n history.NodeChanges) string {
	var parts []string
	if n.Replaced > 0 {
		parts = append(parts, plural.Count(n.Replaced, "node")+" replaced")
	}
	if n.Removed > 0 {
		parts = append(parts, plural.Count(n.Removed, "node")+" removed")
	}
	if len(parts) == 0 {
		return "no node replaced"
	}
	text := strings.Join(parts, ", ")
	if n.Seconds != nil {
		text += " in " + seconds(*n.Seconds)
	}
	return text
}

// matches reports whether an event is about an object that a person names, as KIND/NAME or NAME.
func (e Event) matches(of string) bool {
	kind, name, both := strings.Cut(of, "/")
	if !both {
		kind, name = "", of
	}
	switch strings.ToLower(kind) {
	case "pool", "nodepool", "nodepools":
		return e.NodePool == name || strings.HasSuffix(e.Object, "NodePool.karpenter.sh/"+name)
	case "":
		return e.NodePool == name || e.Node == name || strings.HasSuffix(e.Object, "/"+name)
	case "node", "nodes", "no":
		return e.Node == name || e.Object == "NodeClaim/"+name
	}
	return strings.EqualFold(e.Object, of) || strings.HasPrefix(strings.ToLower(e.Object), strings.ToLower(kind)) && strings.HasSuffix(e.Object, "/"+name)
}

// eventIdentity distinguishes an event from all others. The message is not in it, except of an apply, of which nothing changes: of a node
// more is recorded later, such as its first pods and its price.
type eventIdentity struct {
	seconds      int64
	reason       EventReason
	object, sync string
	pullRequest  int64
	message      string
}

func (e Event) identity() eventIdentity {
	out := eventIdentity{seconds: e.Time.Unix(), reason: e.Reason, object: e.Object, sync: e.Sync, pullRequest: e.PullRequest}
	if e.Reason == EventReconciliationSucceeded || e.Reason == EventApplyFailed {
		out.message = e.Message
	}
	return out
}

// watchInterval is how often the history is read again for --watch.
const watchInterval = 5 * time.Second

// NewEventsCommand makes the command events, without the flags of a connection.
func NewEventsCommand(env get.Environment) *cobra.Command {
	var f printFlags
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Print what happened to nodes, Syncs, drifted objects and pull requests, in order",
		Long: `Print what the controller has recorded of the last day, or of --since, the oldest first: launches, disruptions and terminations of
nodes with their causes, applied revisions, drift with the field manager that made it, and merged pull requests.

Unlike Kubernetes' events, which are deleted after an hour, these are kept for weeks, and have the causes. It reads the ConfigMaps
poolwright-history* of the namespace only.`,
		Example: "  poolwright events\n  poolwright events --for pool/gpu --since 12h\n  poolwright events --for nodeclaim/gpu-x7k2p\n  poolwright events --for sync/dev -w",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(EventOutputs()); err != nil {
				return err
			}
			if f.watch && f.output != "" {
				return fmt.Errorf("--watch prints a table: leave -o %s out", f.output)
			}
			from, err := reader(env)
			if err != nil {
				return err
			}
			return f.events(cmd.Context(), env, from, time.After)
		},
	}
	f.add(cmd, EventOutputs())
	cmd.Flags().StringVar(&f.of, "for", "", "print events about this object only: KIND/NAME or NAME; a pool, a nodeclaim, a node, a sync or a drifted object")
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "after the events, print those that come")
	return cmd
}

// events prints events, and with --watch what comes until the context ends.
func (f *printFlags) events(ctx context.Context, env get.Environment, from history.Reader, after func(time.Duration) <-chan time.Time) error {
	printed := map[eventIdentity]bool{}
	for first := true; ; first = false {
		h, err := from.Read(ctx)
		if err != nil {
			return err
		}
		if first {
			reportAge(env, h)
		}
		oldest := f.from(env.Now())
		events := slices.DeleteFunc(EventsOf(Since(h, oldest, "")), func(e Event) bool {
			return e.Time.Time.Before(oldest) || f.of != "" && !e.matches(f.of) || printed[e.identity()]
		})
		if f.output != "" {
			if h.Time.IsZero() {
				reportEmpty(env, h, "events")
			}
			return document.Value(env.Out, f.output, document.Events, Events{Events: append([]Event{}, events...)})
		}
		if first && len(events) == 0 {
			reportEmpty(env, h, "events")
		}
		if err := printEvents(env, events, printed); err != nil || !f.watch {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-after(watchInterval):
		}
	}
}

// printEvents prints events as a table, with headers where it is the first, and adds them to those that are printed.
func printEvents(env get.Environment, events []Event, printed map[eventIdentity]bool) error {
	if len(events) == 0 {
		return nil
	}
	if err := print(env.Out, eventsTable(events), printers.PrintOptions{NoHeaders: len(printed) > 0}); err != nil {
		return err
	}
	for _, e := range events {
		printed[e.identity()] = true
	}
	return nil
}

func eventsTable(events []Event) *metav1.Table {
	t := table("Time", "Type", "Reason", "Object", "Message")
	for _, e := range events {
		addRow(t, instant(e.Time), e.Type, string(e.Reason), e.Object, e.Message)
	}
	return t
}
