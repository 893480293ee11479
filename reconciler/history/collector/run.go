package collector

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/history"
	"github.com/poolwright/poolwright/reconciler/history/recorder"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/owner"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

const (
	// How much of a run is recorded: objects of an apply, records of drift, fields of each, and bytes of a value.
	maxObjects = 20
	maxDrift   = 50
	maxFields  = 10
	maxValue   = 200
)

// RunObserver returns what observes the runs of a Sync: it is called when one begins, and what that returns with its result.
func (c *Collector) RunObserver(sync string) func() func(reconciler.Result) {
	return func() func(reconciler.Result) {
		began := c.cfg.Clock.Now()
		return func(result reconciler.Result) {
			defer c.guard()
			now := metav1.NewTime(c.cfg.Clock.Now())
			applied, drifted := applyOf(sync, result, now, now.Sub(began)), driftOf(sync, result, now)
			if applied.Created+applied.Updated+applied.Deleted+applied.Failed == 0 && len(drifted) == 0 {
				return
			}
			c.queue(func(s *recorder.State) {
				s.RecordApply(applied)
				for _, d := range drifted {
					s.RecordDrift(d)
				}
			})
		}
	}
}

// applyOf is the part of a run that a revision required.
func applyOf(sync string, result reconciler.Result, now metav1.Time, took time.Duration) history.Apply {
	out := history.Apply{Sync: sync, Revision: sanitize.Text(result.Revision), TreeID: sanitize.Text(result.TreeID), Time: now, Seconds: took.Seconds()}
	var keys []state.Key
	for _, r := range result.Outcome.Results {
		if r.Change.Drift || r.Change.ReadOnly() {
			continue
		}
		switch r.Status {
		case apply.Applied:
			keys = append(keys, r.Change.Key)
			switch r.Change.Action {
			case plan.Create:
				out.Created++
			case plan.Update:
				out.Updated++
			case plan.Delete:
				out.Deleted++
			}
		case apply.Held:
			out.Held++
		case apply.Failed, apply.Conflict:
			out.Failed++
		case apply.Skipped, apply.NotAttempted:
		}
	}
	ofKarpenter := func(k state.Key) int {
		if strings.HasPrefix(k.Group, "karpenter.") {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(keys, func(a, b state.Key) int { return cmp.Compare(ofKarpenter(a), ofKarpenter(b)) })
	for _, k := range keys[:min(len(keys), maxObjects)] {
		out.Objects = append(out.Objects, state.QualifiedName(k))
	}
	return out
}

// driftOf is the part of a run that was drift, with the values of Secrets masked as in every report.
func driftOf(sync string, result reconciler.Result, now metav1.Time) []history.Drift {
	var changes []plan.Change
	var results []apply.Result
	for _, r := range result.Outcome.Results {
		if r.Change.Drift && len(changes) < maxDrift {
			changes, results = append(changes, r.Change), append(results, r)
		}
	}
	if len(changes) == 0 {
		return nil
	}
	masked := report.New(plan.Plan{Changes: changes}, nil)
	var out []history.Drift
	for i, r := range results {
		d := history.Drift{
			Sync: sync, Object: state.QualifiedName(r.Change.Key), Time: now, Deleted: r.Change.Action == plan.Create,
			Result: resultOf(r.Status), Managers: managersOf(r.Change),
		}
		for _, f := range masked.Changes[i].Fields[:min(len(masked.Changes[i].Fields), maxFields)] {
			d.Fields = append(d.Fields, fieldOf(f))
		}
		out = append(out, d)
	}
	return out
}

func resultOf(status apply.Status) history.DriftResult {
	switch status {
	case apply.Applied:
		return history.DriftCorrected
	case apply.Held, apply.Skipped:
		return history.DriftReported
	case apply.Failed, apply.Conflict, apply.NotAttempted:
	}
	return history.DriftNotCorrected
}

// managersOf are the managers that had changed what differs.
func managersOf(c plan.Change) []owner.Manager {
	if c.Before == nil {
		return nil
	}
	var out []owner.Manager
	for _, m := range c.Before.Managers[:min(len(c.Before.Managers), maxFields)] {
		m.Name = sanitize.Text(m.Name)
		out = append(out, m)
	}
	return out
}

// fieldOf is a field's difference in short.
func fieldOf(f report.Field) history.FieldChange {
	out := history.FieldChange{Path: shortened(f.Path)}
	switch {
	case f.Masked == "added":
		out.After = sanitize.Masked
	case f.Masked == "removed":
		out.Before = sanitize.Masked
	case f.Masked != "":
		out.Before, out.After = sanitize.Masked, sanitize.Masked
	default:
		out.Before, out.After = textOf(f.Before), textOf(f.After)
	}
	return out
}

// textOf is a value as JSON, texts without quotes, and of bounded length; empty for none.
func textOf(value any) string {
	var text string
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		text = v
	case owner.Fields:
		text = v.String()
	default:
		content, err := json.Marshal(v)
		if err != nil {
			return ""
		}
		text = string(content)
	}
	return shortened(text)
}

// shortened is a text that another has written, without what a terminal would interpret, and of bounded length.
func shortened(text string) string {
	text = sanitize.Text(text)
	if len(text) > maxValue {
		text = strings.ToValidUTF8(text[:maxValue], "") + "..."
	}
	return text
}

// observePullRequests takes in which pull requests were merged, as the Syncs' status has it.
func (c *Collector) observePullRequests(ctx context.Context) error {
	var syncs v1alpha1.SyncList
	if err := c.cfg.Cached.List(ctx, &syncs, client.InNamespace(c.cfg.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("reading Syncs for the history: %w", err)
	}
	for i := range syncs.Items {
		status := syncs.Items[i].Status.PullRequests
		if status == nil {
			continue
		}
		for _, p := range status.Items {
			if p.MergedTime != nil {
				c.state.RecordPullRequest(pullRequestOf(syncs.Items[i].Name, p))
			}
		}
	}
	return nil
}

func pullRequestOf(sync string, p v1alpha1.PullRequestStatus) history.PullRequest {
	out := history.PullRequest{Sync: sync, Number: p.Number, Headline: shortened(p.Headline), Commit: p.MergeCommit, Merged: *p.MergedTime}
	if p.AppliedTime != nil {
		out.Applied = *p.AppliedTime
	}
	if p.RolledOutTime != nil {
		out.RolledOut = *p.RolledOutTime
	}
	if p.Reviewed != nil {
		out.Predicted = &history.NodeChanges{Replaced: int(p.Reviewed.NodesReplaced), Removed: int(p.Reviewed.NodesRemoved)}
	}
	return out
}
