// Package recorder makes the records of a history: a State takes in what was observed of nodes at a time, and what Syncs did, and
// is bytes that are written.
//
// It is pure: it reads no clock and connects to nothing. It is bounded: what a State keeps in memory does not grow with the number of
// nodes that there were, since Archive takes out what does not change any more. Start reading at State.
package recorder

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/history"
)

// State is the part of the history that the leader keeps in memory: the NodeClaims whose instances run, and the latest of all
// else. It grows with the nodes that there are, and not with those that there were: Archive takes out what does not change
// any more. It may be used by one goroutine at a time.
type State struct {
	// now is the time of the last observation.
	now time.Time
	// omittedBefore is until when NodeClaims were accounted for that are not in what was read, since they were too many; zero
	// where there were none.
	omittedBefore time.Time
	open          map[string]*openNodeClaim
	closed        []history.NodeClaim
	hours         map[hourKey]*history.PoolHour
	// changes are the last changes of objects by which nodes drift.
	changes []changedObject
	applies []history.Apply
	drift   []history.Drift
	pulls   []history.PullRequest
	// changed is true where something was recorded since the last Encoded that a write should not wait for.
	changed bool
	// addFunc is called with what is added to a pool's sums; may be nil.
	addFunc AddFunc
}

// AddFunc is called with what is added to the sums of a NodePool: seconds of GPUs, and US dollars.
type AddFunc func(nodePool, capacityType string, gpuSeconds, usd history.States)

// hourKey is a pool and the Unix time of an hour.
type hourKey struct {
	pool string
	hour int64
}

// changedObject is the last revision that changed an object.
type changedObject struct {
	Object   string      `json:"object"`
	Revision string      `json:"revision"`
	Time     metav1.Time `json:"time"`
}

// maxChanges is how many changed objects are kept, which is more than there are of NodePools and classes.
const maxChanges = 256

// NewState returns a State without any record. It calls add, unless that is nil, with all that is added to sums from then on.
func NewState(add AddFunc) *State {
	return &State{open: map[string]*openNodeClaim{}, hours: map[hourKey]*history.PoolHour{}, addFunc: add}
}

// Open lists the UIDs of the NodeClaims that are not known to be terminated, sorted.
func (s *State) Open() []string { return slices.Sorted(maps.Keys(s.open)) }

// Changed reports whether something was recorded since the last Encoded that a write should not wait for: all but sums.
func (s *State) Changed() bool { return s.changed }

// Absorb takes over what another State has and this one has not, where both began with the same one and another process has
// written this one meanwhile: nodes whose termination only the other recorded, and what it recorded of Syncs. What the other
// observed of GPUs is not observed here.
func (s *State) Absorb(other *State) {
	for i := range other.closed {
		s.absorb(other.closed[i])
	}
	for _, a := range other.applies {
		if !slices.ContainsFunc(s.applies, func(was history.Apply) bool { return was.Sync == a.Sync && was.Time.Equal(&a.Time) }) {
			s.RecordApply(a)
		}
	}
	for _, d := range other.drift {
		if !slices.ContainsFunc(s.drift, func(was history.Drift) bool {
			return was.Sync == d.Sync && was.Object == d.Object && was.Time.Equal(&d.Time)
		}) {
			s.RecordDrift(d)
		}
	}
	for _, p := range other.pulls {
		s.RecordPullRequest(p)
	}
	s.changed = true
}

// absorb takes over the end of a NodeClaim. An old one that is not open may be in an archive already.
func (s *State) absorb(n history.NodeClaim) {
	if s.open[n.UID] == nil && n.Terminated.Time.Before(s.now.Add(-recordAge)) || slices.ContainsFunc(s.closed, func(c history.NodeClaim) bool { return c.UID == n.UID }) {
		return
	}
	s.observe(later(s.now, n.Terminated.Time), &Observation{NodeClaim: n})
	for i := range s.closed {
		if s.closed[i].UID == n.UID {
			s.closed[i].TerminationUnobserved = n.TerminationUnobserved
		}
	}
}

// RecordApply records a run of a Sync. One that changed nothing and failed in nothing is not recorded.
func (s *State) RecordApply(a history.Apply) {
	if a.Created+a.Updated+a.Deleted+a.Failed == 0 {
		return
	}
	for _, object := range a.Objects {
		s.changes = slices.DeleteFunc(s.changes, func(c changedObject) bool { return c.Object == object })
		s.changes = append(s.changes, changedObject{Object: object, Revision: a.Revision, Time: a.Time})
	}
	s.changes = s.changes[max(0, len(s.changes)-maxChanges):]
	// A run that fails is tried again, and fails as before until somebody acts.
	last := len(s.applies) - 1
	for last >= 0 && s.applies[last].Sync != a.Sync {
		last--
	}
	if last >= 0 && a.Created+a.Updated+a.Deleted == 0 {
		if was := s.applies[last]; was.Revision == a.Revision && was.TreeID == a.TreeID && was.Failed == a.Failed && was.Created+was.Updated+was.Deleted == 0 {
			return
		}
	}
	s.applies, s.changed = latest(append(s.applies, a), maxRecords), true
}

// RecordDrift records drift. What is found again without a change in between is one record.
func (s *State) RecordDrift(d history.Drift) {
	if d.Result != history.DriftCorrected {
		for i := range s.drift {
			if was := &s.drift[i]; was.Result == d.Result && was.Sync == d.Sync && was.Object == d.Object && slices.Equal(was.Fields, d.Fields) && was.Deleted == d.Deleted {
				was.Last = d.Time
				return
			}
		}
	}
	s.drift, s.changed = latest(append(s.drift, d), maxRecords), true
}

// latest are as many of the last records as may be kept.
func latest[T any](records []T, n int) []T { return records[max(0, len(records)-n):] }

// RecordPullRequest records what is known of a pull request, in place of what was.
func (s *State) RecordPullRequest(p history.PullRequest) {
	at := slices.IndexFunc(s.pulls, func(was history.PullRequest) bool { return was.Sync == p.Sync && was.Number == p.Number })
	switch {
	case at < 0:
		s.pulls, s.changed = latest(append(s.pulls, p), maxRecords), true
	case !samePullRequest(s.pulls[at], p):
		s.pulls[at], s.changed = p, true
	}
}

// samePullRequest reports whether both have the same times: of a pull request that was merged nothing else changes.
func samePullRequest(p, other history.PullRequest) bool {
	return p.Merged.Equal(&other.Merged) && p.Applied.Equal(&other.Applied) && p.RolledOut.Equal(&other.RolledOut) && p.Commit == other.Commit
}
