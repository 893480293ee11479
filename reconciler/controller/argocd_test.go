package controller

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
)

// The Syncs that the scripts of config/argocd are tested with, in .ci/argocd: the status of each is what a run has
// written, so that a condition or a reason that changes here is compared with the scripts.
func TestTheSyncsThatArgoCDsScriptsAreTestedWithHaveTheStatusOfRealRuns(t *testing.T) {
	unreachable := func(s *stage) { s.unread = fmt.Errorf("fetching: %w", gitsource.ErrUnreachable) }
	generation := func(n int64) func(*stage) {
		return func(s *stage) { s.edit(func(sync *v1alpha1.Sync) { sync.Generation = n }) }
	}
	suspend := func(reason, until string) func(*stage) {
		return func(s *stage) {
			s.edit(func(sync *v1alpha1.Sync) {
				sync.Generation, sync.Spec.Suspend = 2, true
				if reason != "" {
					metav1.SetMetaDataAnnotation(&sync.ObjectMeta, v1alpha1.SuspendReasonAnnotation, reason)
				}
				if until != "" {
					metav1.SetMetaDataAnnotation(&sync.ObjectMeta, v1alpha1.SuspendUntilAnnotation, until)
				}
			})
		}
	}
	problem := func(s *stage) {
		s.problems = []state.Problem{{Origin: state.Origin{File: "nodepools.yaml", Line: 12}, Message: `unknown field "requirments"`}}
	}
	type rows []struct {
		Name   string         `json:"name"`
		Object *v1alpha1.Sync `json:"object"`
	}
	var all rows
	add := func(name string, sync *v1alpha1.Sync) {
		sync.APIVersion, sync.Kind, sync.ResourceVersion = v1alpha1.GroupVersion.String(), "Sync", ""
		sync.Spec.Source.Git.URL = "https://git.example.com/platform/nodes.git"
		for i := range sync.Status.Conditions { // The API machinery takes them from the clock of the machine.
			sync.Status.Conditions[i].LastTransitionTime = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		}
		all = append(all, rows{{name, sync}}...)
	}
	add("no run has begun", newStage(t, nil).sync())
	first := newStage(t, nil).sync()
	first = awaiting(first, false)
	add("the source has not responded yet", first)
	for _, test := range []struct {
		name  string
		edits []func(*stage)
	}{
		{"a revision is applied", nil},
		{"a changed spec is not applied yet", []func(*stage){generation(2)}},
		{"a changed spec cannot be applied, and is tried again", []func(*stage){generation(2), unreachable, (*stage).runLater}},
		{"the source cannot be reached", []func(*stage){unreachable, (*stage).runLater}},
		{"the repository has a problem", []func(*stage){problem, (*stage).commitPool, (*stage).runLater}},
		{"the spec was changed since a problem", []func(*stage){problem, (*stage).commitPool, (*stage).runLater, generation(2)}},
		{"a deletion waits for a confirmation", []func(*stage){(*stage).hold}},
		{"a deletion waits, and another token is quoted", []func(*stage){(*stage).hold, func(s *stage) { s.confirm("deletions-1-" + fmt.Sprintf("%040d", 7)) }, (*stage).runLater}},
		{"drift is only reported", []func(*stage){func(s *stage) {
			s.edit(func(sync *v1alpha1.Sync) { sync.Spec.Drift = v1alpha1.DriftReport })
			s.cluster.live["map"] = "edited"
			s.clock.Step(reportGap)
			s.drift(at("kubernetes", "map"))
		}}},
		{"it is suspended", []func(*stage){suspend("", ""), (*stage).runLater}},
		{"it is suspended for a reason", []func(*stage){suspend("EKS is upgraded until Friday", ""), (*stage).runLater}},
		{"it is suspended until a time", []func(*stage){suspend("EKS is upgraded", "2026-01-02T05:00:00Z"), (*stage).runLater}},
		{"it is suspended until what is no time", []func(*stage){suspend("EKS is upgraded", "2h"), (*stage).runLater}},
		{"it is suspended until what is a time but for its separator", []func(*stage){suspend("", "2026-01-02 05:00:00Z"), (*stage).runLater}},
		{"it is suspended while a deletion waits", []func(*stage){(*stage).hold, suspend("", ""), (*stage).runLater}},
	} {
		s := newStage(t, nil)
		s.commit("kubernetes/map=1", "kubernetes/old=1", "aws/queue=1")
		s.reconcile()
		for _, edit := range test.edits {
			edit(s)
		}
		add(test.name, s.sync())
	}
	add("replacing nodes waits for a confirmation", heldStage(t).sync())
	replacing := newRolling(t)
	replacing.commit("kubernetes/np-gpu=1")
	replacing.reconcile()
	replacing.read(provision.Node{Pool: "gpu", Name: "node-1", Reason: "NodePoolDrifted"})
	add("nodes of an applied revision are to be replaced", replacing.sync())
	again := newStage(t, nil)
	again.commit("kubernetes/map=1")
	again.reconcile()
	loaded := again.sync()
	loaded = awaiting(loaded, true)
	add("an applied revision is loaded again", loaded)
	foreign := newStage(t, nil)
	foreign.r.Namespace = "elsewhere"
	foreign.reconcile()
	add("it is in another namespace", foreign.sync())
	raw, err := yaml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "../../.ci/argocd/testdata/syncs.yaml", raw)
}

func (s *stage) runLater() { s.later() }

func (s *stage) commitPool() { s.commit("kubernetes/map=2", "kubernetes/old=1", "aws/queue=1") }

// hold has a deletion wait for a confirmation.
func (s *stage) hold() {
	s.aws.removals["queue"] = loss.DeletionImpact{Impact: "3 nodes are not drained any more", Losses: loss.Counts{"Node": 3}}
	s.commit("kubernetes/map=1", "kubernetes/old=1")
	s.later()
}
