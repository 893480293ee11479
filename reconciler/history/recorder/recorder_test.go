package recorder

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/history"
	"github.com/poolwright/poolwright/reconciler/state/owner"
)

// start is when the tests begin, at ten minutes to an hour.
var start = time.Date(2026, 11, 1, 9, 50, 0, 0, time.UTC)

func at(after time.Duration) metav1.Time { return metav1.NewTime(start.Add(after)) }

// same reports whether both are the same instant.
func same(a, b metav1.Time) bool { return a.Equal(&b) }

// node is a NodeClaim with two GPUs for 3.6 dollars an hour, which was launched and initialized after these times.
func node(name string, launched, initialized time.Duration) Observation {
	o := Observation{NodeClass: "gpu", Advertises: initialized >= 0, NodeClaim: history.NodeClaim{
		Name: name, UID: "uid-" + name, Node: "ip-" + name, NodePool: "gpu", InstanceType: "g5.12xlarge", CapacityType: "on-demand", GPUs: 2,
		Lifecycle: history.Lifecycle{Created: at(launched - time.Second), Launched: at(launched)}, USDPerHour: new(3.6), PriceBasis: history.PriceList,
	}}
	if initialized >= 0 {
		o.Registered, o.Initialized = at(initialized), at(initialized)
	}
	return o
}

// sampled observes a node every five seconds from one time to another.
func sampled(s *State, o Observation, from, to time.Duration) {
	for t := from; t <= to; t += 5 * time.Second {
		s.Observe(start.Add(t), []Observation{o})
	}
}

// merge is the History of a State alone, and of its archives before it.
func merge(t *testing.T, s *State, archives ...[]byte) history.History {
	t.Helper()
	content, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	h, err := Merge(append(archives, content)...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

var near = cmpopts.EquateApprox(0, 1e-6)

func TestPaidGPUsAreEitherStartingRequestedIdleOrNotObserved(t *testing.T) {
	for name, test := range map[string]struct {
		observe func(*State)
		want    history.States
	}{
		"what is not initialized is paid for and nothing else": {
			func(s *State) { sampled(s, node("a", 0, -1), 0, time.Minute) },
			history.States{Paid: 120},
		},
		"a node without pods is idle": {
			func(s *State) { sampled(s, node("a", 0, 0), 0, time.Minute) },
			history.States{Paid: 120, Allocatable: 120, Idle: 120},
		},
		"a pod with a tenth of the shares leaves nine tenths idle": {
			func(s *State) {
				o := node("a", 0, 0)
				o.Requested = 0.1
				sampled(s, o, 0, 100*time.Second)
			},
			history.States{Paid: 200, Allocatable: 200, Requested: 20, Idle: 180},
		},
		"a node that advertises no GPUs any more is paid for": {
			func(s *State) {
				o := node("a", 0, 0)
				o.Advertises = false
				sampled(s, o, 0, time.Minute)
			},
			history.States{Paid: 120},
		},
		"a node that is being deleted has what its pods request, and nothing idle": {
			func(s *State) {
				o := node("a", 0, 0)
				o.Requested, o.Deleted = 0.5, at(0)
				sampled(s, o, 0, time.Minute)
			},
			history.States{Paid: 120, Allocatable: 60, Requested: 60},
		},
		"the start of a node is known without an observation": {
			func(s *State) { s.Observe(start.Add(time.Minute), []Observation{node("a", 0, 40*time.Second)}) },
			history.States{Paid: 120, Unobserved: 40},
		},
		"what lies between two observations that are far apart was not observed": {
			func(s *State) {
				sampled(s, node("a", 0, 0), 0, 10*time.Second)
				sampled(s, node("a", 0, 0), 130*time.Second, 140*time.Second)
			},
			history.States{Paid: 280, Allocatable: 40, Idle: 40, Unobserved: 240},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewState(nil)
			test.observe(s)
			h := merge(t, s)
			if d := cmp.Diff(test.want, h.NodeClaims[0].GPUSeconds, near); d != "" {
				t.Errorf("GPU seconds (-want +got):\n%s", d)
			}
			var sum, usd history.States
			for _, hour := range h.PoolHours {
				sum, usd = sum.Plus(hour.GPUSeconds), usd.Plus(hour.USD)
			}
			if d := cmp.Diff(test.want, sum, near); d != "" {
				t.Errorf("of all hours (-want +got):\n%s", d)
			}
			if d := cmp.Diff(test.want.Times(3.6/2/3600), usd, near); d != "" {
				t.Errorf("dollars (-want +got):\n%s", d)
			}
		})
	}
}

func TestHoursEndWhereTheyEnd(t *testing.T) {
	s := NewState(nil)
	o := node("a", 0, 0)
	sampled(s, o, 0, 20*time.Minute)
	o.Deleted, o.Terminated, o.Reason = at(20*time.Minute), at(20*time.Minute), history.ReasonEmpty
	s.Observe(start.Add(20*time.Minute+3*time.Second), []Observation{o})
	h := merge(t, s)
	want := []history.PoolHour{
		{NodePool: "gpu", Hour: at(-50 * time.Minute), NodeSeconds: 600, GPUSeconds: history.States{Paid: 1200, Allocatable: 1200, Idle: 1200}, USD: history.States{Paid: 0.6, Allocatable: 0.6, Idle: 0.6}},
		{NodePool: "gpu", Hour: at(10 * time.Minute), NodeSeconds: 600, GPUSeconds: history.States{Paid: 1200, Allocatable: 1200, Idle: 1200}, USD: history.States{Paid: 0.6, Allocatable: 0.6, Idle: 0.6}},
	}
	if d := cmp.Diff(want, h.PoolHours, near); d != "" {
		t.Errorf("hours (-want +got):\n%s", d)
	}
	got := h.NodeClaims[0]
	if !same(got.Terminated, at(20*time.Minute)) || got.Reason != history.ReasonEmpty || math.Abs(*got.USD-1.2) > 1e-9 || got.TerminationUnobserved {
		t.Errorf("the node is %+v, and cost %v", got, *got.USD)
	}
}

func TestAnInstanceIsPaidForAMinuteAtLeast(t *testing.T) {
	for ran, want := range map[time.Duration]float64{20 * time.Second: 0.06, 59 * time.Second: 0.06, time.Minute: 0.06, 2 * time.Minute: 0.12} {
		var added float64
		s := NewState(func(_, _ string, _, usd history.States) { added += usd.Paid })
		o := node("a", 0, -1)
		o.Deleted, o.Terminated, o.Reason = at(ran), at(ran), history.ReasonEmpty
		for range 2 {
			s.Observe(start.Add(ran), []Observation{o})
		}
		h := merge(t, s)
		if got := *h.NodeClaims[0].USD; math.Abs(got-want) > 1e-9 || math.Abs(h.PoolHours[0].USD.Paid-want) > 1e-9 || math.Abs(added-want) > 1e-9 {
			t.Errorf("for %s %f dollars are paid, in the hour %f, added %f, want %f", ran, got, h.PoolHours[0].USD.Paid, added, want)
		}
		if got := h.NodeClaims[0].GPUSeconds.Paid; got != 2*ran.Seconds() {
			t.Errorf("%f GPU seconds are paid for %s", got, ran)
		}
	}
}

func TestWhatAPriceIsNotKnownOfIsNotFree(t *testing.T) {
	s := NewState(nil)
	o := node("a", 0, 0)
	o.USDPerHour, o.PriceBasis = nil, ""
	sampled(s, o, 0, time.Minute)
	h := merge(t, s)
	if got := h.PoolHours[0]; got.UnpricedSeconds != 60 || got.USD != (history.States{}) || h.NodeClaims[0].USD != nil {
		t.Errorf("the hour is %+v, the node costs %v", got, h.NodeClaims[0].USD)
	}
}

func TestANodeIsRecordedOnceWithItsCauses(t *testing.T) {
	for name, test := range map[string]struct {
		observe func(*State)
		want    []history.NodeClaim
	}{
		"what was never launched is not recorded": {
			func(s *State) {
				o := node("a", 0, -1)
				o.Launched = metav1.Time{}
				s.Observe(start, []Observation{o})
			}, nil,
		},
		"the first three pods stay": {
			func(s *State) {
				o := node("a", 0, 0)
				for _, pods := range [][]string{{"ml/a"}, {"ml/a", "ml/b"}, {"ml/c", "ml/d"}, {"ml/e"}} {
					o.Pods = pods
					s.Observe(start, []Observation{o})
				}
			}, []history.NodeClaim{{Name: "a", Pods: []string{"ml/a", "ml/b", "ml/c"}}},
		},
		"a reason of Karpenter's takes the place of none": {
			func(s *State) {
				o := node("a", 0, 0)
				o.Deleted, o.Reason = at(time.Minute), history.ReasonDeleted
				s.Observe(start.Add(time.Minute), []Observation{o})
				o.Reason = "Underutilized"
				s.Observe(start.Add(time.Minute), []Observation{o})
				o.Reason = history.ReasonDeleted
				s.Observe(start.Add(time.Minute), []Observation{o})
			}, []history.NodeClaim{{Name: "a", Reason: "Underutilized"}},
		},
		"a node that stays in the cache after its termination is no second one": {
			func(s *State) {
				o := node("a", 0, 0)
				o.Deleted, o.Terminated, o.Reason = at(time.Minute), at(time.Minute), history.ReasonEmpty
				for range 3 {
					s.Observe(start.Add(2*time.Minute), []Observation{o})
				}
			}, []history.NodeClaim{{Name: "a", Reason: history.ReasonEmpty, Lifecycle: history.Lifecycle{Terminated: at(time.Minute)}}},
		},
		"one that is gone was there when it was observed last": {
			func(s *State) {
				sampled(s, node("a", 0, 0), 0, time.Minute)
				s.Gone("uid-a")
				s.Gone("uid-a")
				s.Gone("uid-of-another")
			}, []history.NodeClaim{{Name: "a", Reason: history.ReasonUnknown, Lifecycle: history.Lifecycle{Terminated: at(time.Minute), TerminationUnobserved: true}}},
		},
		"one that was missing and is there was never gone": {
			func(s *State) {
				sampled(s, node("a", 0, 0), 0, time.Minute)
				s.Gone("uid-a")
				sampled(s, node("a", 0, 0), 2*time.Minute, 3*time.Minute)
			}, []history.NodeClaim{{Name: "a", Reason: history.ReasonUnknown}},
		},
		"one that is gone after its termination was recorded ended then": {
			func(s *State) {
				o := node("a", 0, 0)
				sampled(s, o, 0, time.Minute)
				o.Deleted, o.Reason = at(50*time.Second), history.ReasonEmpty
				s.Terminating(start.Add(70*time.Second), o)
				s.Terminating(start.Add(75*time.Second), o)
				s.Gone("uid-a")
			}, []history.NodeClaim{{Name: "a", Reason: history.ReasonEmpty, Lifecycle: history.Lifecycle{Terminated: at(75 * time.Second)}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewState(nil)
			test.observe(s)
			var got []history.NodeClaim
			for _, n := range merge(t, s).NodeClaims {
				got = append(got, history.NodeClaim{Name: n.Name, Pods: n.Pods, Reason: n.Reason, Lifecycle: history.Lifecycle{Terminated: n.Terminated, TerminationUnobserved: n.TerminationUnobserved}})
			}
			if d := cmp.Diff(test.want, got); d != "" {
				t.Errorf("nodes (-want +got):\n%s", d)
			}
		})
	}
}

func TestADriftedNodeHasTheRevisionThatChangedItsPoolOrClass(t *testing.T) {
	applied := func(s *State, after time.Duration, revision string, objects ...string) {
		s.RecordApply(history.Apply{Sync: "dev", Revision: revision, Time: at(after), Updated: len(objects), Objects: objects})
	}
	for name, test := range map[string]struct {
		reason history.Reason
		drift  string
		want   string
	}{
		"the pool":                              {history.ReasonDrifted, "NodePoolDrifted", "main@sha1:pool"},
		"the class":                             {history.ReasonDrifted, "NodeClassDrifted", "main@sha1:class"},
		"either, where Karpenter names neither": {history.ReasonDrifted, "RequirementsDrifted", "main@sha1:class"},
		"a pool that was deleted":               {history.ReasonNodePoolDeleted, "", "main@sha1:pool"},
		"nothing where it did not drift":        {history.ReasonEmpty, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewState(nil)
			applied(s, -time.Hour, "main@sha1:before", "NodePool.karpenter.sh/gpu", "EC2NodeClass.karpenter.k8s.aws/gpu")
			sampled(s, node("a", 0, 0), 0, time.Minute)
			applied(s, time.Minute, "main@sha1:other", "NodePool.karpenter.sh/other")
			applied(s, 2*time.Minute, "main@sha1:pool", "NodePool.karpenter.sh/gpu")
			applied(s, 3*time.Minute, "main@sha1:class", "EC2NodeClass.karpenter.k8s.aws/gpu")
			o := node("a", 0, 0)
			o.Deleted, o.Reason, o.DriftReason = at(5*time.Minute), test.reason, test.drift
			if test.drift != "" {
				o.Drifted = at(4 * time.Minute)
			}
			s.Observe(start.Add(5*time.Minute), []Observation{o})
			applied(s, 9*time.Minute, "main@sha1:later", "NodePool.karpenter.sh/gpu", "EC2NodeClass.karpenter.k8s.aws/gpu")
			s.Observe(start.Add(9*time.Minute), []Observation{o})
			if got := merge(t, s).NodeClaims[0].Revision; got != test.want {
				t.Errorf("the revision is %q, want %q", got, test.want)
			}
		})
	}
}

func TestWhatHappenedOfAPullRequestIsCountedByItsCommit(t *testing.T) {
	s := NewState(nil)
	s.RecordApply(history.Apply{Sync: "dev", Revision: "main@sha1:abc", Time: at(time.Minute), Updated: 1, Objects: []string{"NodePool.karpenter.sh/gpu"}})
	s.RecordPullRequest(history.PullRequest{Sync: "dev", Number: 4, Commit: "abc", Merged: at(0), Predicted: &history.NodeChanges{Replaced: 2}})
	for _, name := range []string{"a", "b"} {
		o := node(name, 0, 0)
		o.Drifted, o.DriftReason, o.Deleted, o.Reason, o.Terminated = at(2*time.Minute), "NodePoolDrifted", at(3*time.Minute), history.ReasonDrifted, at(4*time.Minute)
		s.Observe(start.Add(5*time.Minute), []Observation{o})
	}
	interrupted := node("d", 0, 0)
	interrupted.Drifted, interrupted.DriftReason, interrupted.Deleted, interrupted.Reason, interrupted.Terminated = at(2*time.Minute), "NodePoolDrifted", at(3*time.Minute), "SpotInterrupted", at(4*time.Minute)
	s.Observe(start.Add(5*time.Minute), []Observation{node("c", 0, 0), interrupted})
	s.RecordPullRequest(history.PullRequest{Sync: "dev", Number: 4, Commit: "abc", Merged: at(0), Applied: at(time.Minute), RolledOut: at(4 * time.Minute), Predicted: &history.NodeChanges{Replaced: 2}})
	want := []history.PullRequest{{
		Sync: "dev", Number: 4, Commit: "abc", Merged: at(0), Applied: at(time.Minute), RolledOut: at(4 * time.Minute),
		Predicted: &history.NodeChanges{Replaced: 2}, Actual: history.NodeChanges{Replaced: 2, Seconds: new(180.0)},
	}}
	if d := cmp.Diff(want, merge(t, s).PullRequests); d != "" {
		t.Errorf("pull requests (-want +got):\n%s", d)
	}
}

func TestRunsAndDriftThatRepeatAreOneRecord(t *testing.T) {
	s := NewState(nil)
	for i := range 3 {
		now := at(time.Duration(i) * time.Minute)
		s.RecordApply(history.Apply{Sync: "dev", Revision: "main@sha1:a", Time: now})
		s.RecordApply(history.Apply{Sync: "dev", Revision: "main@sha1:b", Time: now, Failed: 1})
		s.RecordDrift(history.Drift{Sync: "dev", Object: "ConfigMap/a", Time: now, Result: history.DriftReported})
		s.RecordDrift(history.Drift{Sync: "dev", Object: "ConfigMap/b", Time: now, Result: history.DriftCorrected})
	}
	h := merge(t, s)
	if len(h.Applies) != 1 || len(h.Drift) != 4 || !same(h.Drift[0].Last, at(2*time.Minute)) {
		t.Errorf("%d applies, drift %+v", len(h.Applies), h.Drift)
	}
}

// A source of Flux may have other files under the same revision: that they fail as well is another record.
func TestRunsOfOtherFilesOfARevisionAreOtherRecords(t *testing.T) {
	s := NewState(nil)
	for i, tree := range []string{"1", "1", "2", "2"} {
		s.RecordApply(history.Apply{Sync: "dev", Revision: "main@sha1:a", TreeID: tree, Time: at(time.Duration(i) * time.Minute), Failed: 1})
	}
	// Both in one second.
	for _, tree := range []string{"3", "4"} {
		s.RecordApply(history.Apply{Sync: "dev", Revision: "main@sha1:a", TreeID: tree, Time: at(time.Hour), Created: 1})
	}
	var trees []string
	for _, a := range merge(t, s).Applies {
		trees = append(trees, a.TreeID)
	}
	if d := cmp.Diff([]string{"1", "2", "3", "4"}, trees); d != "" {
		t.Errorf("applies (-want +got):\n%s", d)
	}
	s.Archived(&Archive{Records: []byte("written"), records: history.History{Applies: []history.Apply{{Sync: "dev", Revision: "main@sha1:a", TreeID: "3", Time: at(time.Hour)}}}})
	if len(s.applies) != 3 || s.applies[2].TreeID != "4" {
		t.Errorf("what is archived takes out %+v", s.applies)
	}
}

func TestAStateIsTheSameAfterItWasWrittenAndRead(t *testing.T) {
	s := NewState(nil)
	sampled(s, node("a", 0, 0), 0, time.Minute)
	o := node("b", 0, 0)
	o.Deleted, o.Terminated, o.Reason = at(time.Minute), at(time.Minute), history.ReasonEmpty
	s.Observe(start.Add(time.Minute), []Observation{o})
	s.RecordApply(history.Apply{Sync: "dev", Revision: "main@sha1:a", Time: at(0), Created: 1, Objects: []string{"NodePool.karpenter.sh/gpu"}})
	s.RecordDrift(history.Drift{Sync: "dev", Object: "ConfigMap/a", Time: at(0), Fields: []history.FieldChange{{Path: "data.a", Before: "1", After: "2"}}, Managers: []owner.Manager{{Name: "kubectl-edit", Operation: "Update", Time: "2026-11-01T09:50:00Z"}}})
	content, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Decode(content, nil)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := again.Encode(); err != nil || string(second) != string(content) {
		t.Errorf("it is written otherwise, %v", err)
	}
	if !s.Changed() || again.Changed() {
		t.Error("what was read is not what is yet to be written")
	}
	// What comes after it was read is not observed, and paid for all the same.
	again.Observe(start.Add(2*time.Minute), []Observation{node("a", 0, 0)})
	if d := cmp.Diff(history.States{Paid: 240, Allocatable: 120, Idle: 120, Unobserved: 120}, merge(t, again).NodeClaims[0].GPUSeconds, near); d != "" {
		t.Errorf("GPU seconds (-want +got):\n%s", d)
	}
	if _, err := Decode([]byte("no gzip"), nil); err == nil {
		t.Error("what is no history is read")
	}
	if empty, err := Decode(nil, nil); err != nil || len(empty.Open()) != 0 {
		t.Errorf("without content there is %v, %v", empty.Open(), err)
	}
}

// lives has many nodes come and go, two at a time, and archives what is to be. Present is what stays in the cache.
func lives(t *testing.T, s *State, n int) (records, hours [][]byte) {
	t.Helper()
	now := start
	for i := range n {
		o := node(fmt.Sprintf("gpu-%05d", i), 0, 0)
		o.Created, o.Launched, o.Registered, o.Initialized = metav1.NewTime(now), metav1.NewTime(now.Add(2*time.Second)), metav1.NewTime(now.Add(40*time.Second)), metav1.NewTime(now.Add(60*time.Second))
		o.NodePool, o.Pods = fmt.Sprintf("gpu-%d", i%7), []string{fmt.Sprintf("ml/train-%d", i)}
		s.Observe(now.Add(5*time.Minute), []Observation{o})
		o.Deleted, o.Terminated, o.Reason = metav1.NewTime(now.Add(20*time.Minute)), metav1.NewTime(now.Add(21*time.Minute)), history.ReasonEmpty
		now = now.Add(22 * time.Minute)
		s.Observe(now, []Observation{o})
		a, err := s.Archive(func(uid string) bool { return uid == o.UID })
		if err != nil {
			t.Fatal(err)
		}
		if a == nil {
			continue
		}
		if a.Records != nil {
			records = append(records, a.Records)
		}
		if a.Hours != nil {
			hours = append(hours, a.Hours)
		}
		s.Archived(a)
	}
	return records, hours
}

func TestTenThousandNodesTakeBoundedMemoryAndBytes(t *testing.T) {
	const n, maxMemory, maxBytes = 10_000, 4 << 20, 8 * (512 << 10)
	var before, after runtime.MemStats
	s := NewState(nil)
	runtime.GC()
	runtime.ReadMemStats(&before)
	records, hours := lives(t, s, n)
	size := 0
	for _, content := range append(append([][]byte{}, records...), hours...) {
		size += len(content)
	}
	h := merge(t, s, append(records, hours...)...)
	if len(h.NodeClaims) != n {
		t.Errorf("%d nodes of %d are recorded", len(h.NodeClaims), n)
	}
	paid := 0.0
	for _, hour := range h.PoolHours {
		paid += hour.GPUSeconds.Paid
	}
	if want := float64(n) * 2 * (21*60 - 2); math.Abs(paid-want) > 1e-3 {
		t.Errorf("%f GPU seconds are paid for, want %f", paid, want)
	}
	clear(records)
	clear(hours)
	runtime.GC()
	runtime.ReadMemStats(&after)
	content, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	size += len(content)
	grown := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("the state has %d bytes, all %d, memory grew by %d", len(content), size, grown)
	if size > maxBytes || len(content) > 512<<10 || grown > maxMemory {
		t.Errorf("the state has %d bytes, all %d, memory grew by %d", len(content), size, grown)
	}
	runtime.KeepAlive(s)
}

func TestWhatIsInAnArchiveAndStillInTheStateIsThereOnce(t *testing.T) {
	s := NewState(nil)
	var archived *Archive
	for i := range 2 * archiveAt {
		o := node(fmt.Sprint("n", i), 0, 0)
		o.Deleted, o.Terminated, o.Reason = at(time.Minute), at(time.Minute), history.ReasonEmpty
		s.Observe(start.Add(time.Minute), []Observation{o})
		s.RecordApply(history.Apply{Sync: "dev", Revision: fmt.Sprint("main@sha1:", i), Time: at(0), Created: 1})
		s.RecordDrift(history.Drift{Sync: "dev", Object: fmt.Sprint("ConfigMap/", i), Time: at(0), Result: history.DriftCorrected})
	}
	s.hour("gpu", start)
	for i := range archiveAt {
		s.hour(fmt.Sprint("pool-", i), start).NodeSeconds = 1
	}
	s.Observe(start.Add(6*time.Hour), nil)
	archived, err := s.Archive(func(uid string) bool { return uid == "uid-n1" })
	if err != nil || archived == nil || archived.Records == nil || archived.Hours == nil {
		t.Fatalf("archived is %+v, %v", archived, err)
	}
	inBoth := merge(t, s, archived.Records, archived.Hours)
	s.Archived(archived)
	once := merge(t, s, archived.Records, archived.Hours)
	if d := cmp.Diff(inBoth, once); d != "" {
		t.Errorf("what is in both is other than what is in one (-both +one):\n%s", d)
	}
	if len(once.NodeClaims) != 2*archiveAt || len(once.Applies) != 2*archiveAt || len(once.Drift) != 2*archiveAt {
		t.Errorf("%d nodes, %d applies, %d drift", len(once.NodeClaims), len(once.Applies), len(once.Drift))
	}
	if len(s.closed) != 1 || s.closed[0].UID != "uid-n1" {
		t.Errorf("what is present is not kept: %d are", len(s.closed))
	}
	if again, err := s.Archive(func(string) bool { return false }); again != nil || err != nil {
		t.Errorf("little is archived: %+v, %v", again, err)
	}
}

func TestAbsorbTakesOverWhatOnlyTheOtherRecorded(t *testing.T) {
	s := NewState(nil)
	sampled(s, node("a", 0, 0), 0, time.Minute)
	content, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	written, err := Decode(content, nil)
	if err != nil {
		t.Fatal(err)
	}
	o := node("a", 0, 0)
	o.Deleted, o.Terminated, o.Reason = at(2*time.Minute), at(2*time.Minute), history.ReasonEmpty
	s.Observe(start.Add(2*time.Minute), []Observation{o})
	s.RecordApply(history.Apply{Sync: "dev", Revision: "main@sha1:a", Time: at(0), Created: 1})
	s.RecordDrift(history.Drift{Sync: "dev", Object: "ConfigMap/a", Time: at(0), Result: history.DriftCorrected})
	for range 2 {
		written.Absorb(s)
	}
	h := merge(t, written)
	if len(h.NodeClaims) != 1 || len(h.Applies) != 1 || len(h.Drift) != 1 || !same(h.NodeClaims[0].Terminated, at(2*time.Minute)) || h.NodeClaims[0].GPUSeconds.Paid != 240 {
		t.Errorf("absorbed: %+v", h)
	}
}

func TestAddedHasAllThatIsAddedToTheSums(t *testing.T) {
	var seconds, usd history.States
	s := NewState(func(pool, capacityType string, gpus, dollars history.States) {
		if pool != "gpu" || capacityType != "on-demand" {
			t.Errorf("added to %s, %s", pool, capacityType)
		}
		seconds, usd = seconds.Plus(gpus), usd.Plus(dollars)
	})
	sampled(s, node("a", 0, 30*time.Second), 0, 15*time.Minute)
	h := merge(t, s)
	if d := cmp.Diff(h.NodeClaims[0].GPUSeconds, seconds, near); d != "" {
		t.Errorf("GPU seconds (-want +got):\n%s", d)
	}
	if math.Abs(usd.Paid-*h.NodeClaims[0].USD) > 1e-9 {
		t.Errorf("%f dollars, want %f", usd.Paid, *h.NodeClaims[0].USD)
	}
}

func FuzzMerge(f *testing.F) {
	s := NewState(nil)
	sampled(s, node("a", 0, 0), 0, time.Minute)
	content, err := s.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Add([]byte(strings.Repeat("\x1f\x8b", 10)))
	f.Fuzz(func(t *testing.T, content []byte) {
		if _, err := Merge(content); err != nil {
			return
		}
		if _, err := Decode(content, nil); err != nil {
			t.Errorf("what is merged is not read: %v", err)
		}
	})
}
