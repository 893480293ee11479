package history

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/reconciler/history"
	"github.com/poolwright/poolwright/reconciler/state/owner"
)

func now() time.Time { return time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC) }

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now().Add(-d)) }

const commit = "e15a32fc0ffee0000000000000000000000000aa"

// night is a history with each kind of record.
func night() history.History {
	h := history.History{Time: ago(5 * time.Second)}
	h.NodeClaims = []history.NodeClaim{
		{
			Name: "gpu-old", UID: "1", Node: "ip-10-0-0-1", NodePool: "gpu", InstanceType: "g5.xlarge", CapacityType: "on-demand", Zone: "eu-west-1a", GPUs: 1,
			Lifecycle: history.Lifecycle{Created: ago(50 * time.Hour), Launched: ago(50 * time.Hour), Registered: ago(50 * time.Hour), Initialized: ago(50 * time.Hour), Deleted: ago(49 * time.Hour), Terminated: ago(49 * time.Hour)},
			Reason:    history.ReasonEmpty, USDPerHour: new(1.0), PriceBasis: history.PriceList, USD: new(1.0), GPUSeconds: history.States{Paid: 3600, Allocatable: 3600, Idle: 3600},
		},
		{
			Name: "gpu-zk7rq", UID: "2", Node: "ip-10-0-0-2", NodePool: "gpu", InstanceType: "g4dn.xlarge", CapacityType: "spot", Zone: "eu-west-1b", GPUs: 1, Pods: []string{"ml/train-3"},
			Lifecycle: history.Lifecycle{Created: ago(3 * time.Hour), Launched: ago(179 * time.Minute), Registered: ago(178 * time.Minute), Initialized: ago(177 * time.Minute), Deleted: ago(2 * time.Hour), Terminated: ago(119 * time.Minute)},
			Reason:    history.ReasonDrifted, Message: "NodePoolDrifted", Revision: "main@sha1:" + commit, USDPerHour: new(0.5), PriceBasis: history.PriceSpotAtMost, USD: new(0.5),
			GPUSeconds: history.States{Paid: 3600, Allocatable: 3480, Requested: 1740, Idle: 1740},
		},
		{
			Name: "gpu-9fq2p", UID: "3", NodePool: "gpu", InstanceType: "g4dn.xlarge", CapacityType: "on-demand", GPUs: 1,
			Lifecycle: history.Lifecycle{Created: ago(90 * time.Minute), Launched: ago(90 * time.Minute), Deleted: ago(75 * time.Minute), Terminated: ago(74 * time.Minute)}, Reason: history.ReasonRegistrationTimeout,
			GPUSeconds: history.States{Paid: 960},
		},
		{
			Name: "gpu-lost", UID: "4", NodePool: "gpu", InstanceType: "g5.xlarge", CapacityType: "on-demand", GPUs: 1, Lifecycle: history.Lifecycle{Created: ago(80 * time.Minute), Launched: ago(80 * time.Minute), Deleted: ago(70 * time.Minute), Terminated: ago(70 * time.Minute), TerminationUnobserved: true}, Reason: history.ReasonUnknown, USDPerHour: new(1.0), USD: new(0.004), GPUSeconds: history.States{Paid: 600, Unobserved: 600},
		},
		{
			Name: "gpu-hand", UID: "6", NodePool: "gpu", InstanceType: "g5.xlarge", CapacityType: "on-demand", GPUs: 1, Lifecycle: history.Lifecycle{Created: ago(60 * time.Minute), Launched: ago(60 * time.Minute), Deleted: ago(time.Minute)}, Reason: history.ReasonDeleted, USDPerHour: new(1.0), USD: new(1.0), GPUSeconds: history.States{Paid: 3600, Allocatable: 3000, Requested: 3000},
		},
		{
			Name: "general-x", UID: "5", Node: "ip-10-0-0-5", NodePool: "general", InstanceType: "m5.large", CapacityType: "on-demand", Pods: []string{"web/a", "web/b", "web/c"},
			Lifecycle: history.Lifecycle{Created: ago(30 * time.Minute), Launched: ago(30 * time.Minute), Registered: ago(29 * time.Minute), Initialized: ago(29 * time.Minute)}, USDPerHour: new(0.1), PriceBasis: history.PriceOtherRegion, USD: new(0.05),
		},
	}
	h.Applies = []history.Apply{
		{Sync: "dev", Revision: "main@sha1:" + commit, Time: ago(150 * time.Minute), Seconds: 0.25, Updated: 2, Objects: []string{"NodePool.karpenter.sh/gpu", "ConfigMap/ml/settings"}},
		{Sync: "dev", Revision: "main@sha1:0000000c0ffee0000000000000000000000000aa", Time: ago(40 * time.Minute), Seconds: 61, Created: 1, Failed: 1, Held: 2},
	}
	h.Drift = []history.Drift{
		{
			Sync: "dev", Object: "NodePool.karpenter.sh/gpu", Time: ago(100 * time.Minute), Result: history.DriftCorrected,
			Fields:   []history.FieldChange{{Path: `spec.limits["nvidia.com/gpu"]`, Before: "64", After: "4"}, {Path: "spec.weight", Before: "9"}},
			Managers: []owner.Manager{{Name: "kubectl-edit", Operation: "Update", Time: "2026-11-26T10:20:00Z"}, {Name: "helm"}},
		},
		{Sync: "dev", Object: "Secret/ml/token", Time: ago(95 * time.Minute), Result: history.DriftCorrected, Fields: []history.FieldChange{{Path: "data.token", Before: "(masked)", After: "(masked)"}}},
		{Sync: "dev", Object: "aws Rule.events/SpotInterruption", Time: ago(30 * time.Hour), Last: ago(time.Minute), Result: history.DriftReported, Fields: []history.FieldChange{{Path: "state", Before: "DISABLED", After: "ENABLED"}}},
		{Sync: "dev", Object: "ConfigMap/ml/settings", Time: ago(20 * time.Minute), Result: history.DriftNotCorrected, Deleted: true},
	}
	h.PullRequests = []history.PullRequest{
		{Sync: "dev", Number: 38, Commit: commit, Merged: ago(151 * time.Minute), Applied: ago(150 * time.Minute), RolledOut: ago(119 * time.Minute), Headline: "1 object, 1 of 1 nodes", Predicted: &history.NodeChanges{Replaced: 1}, Actual: history.NodeChanges{Replaced: 1, Seconds: new(31 * 60.0)}},
		{Sync: "dev", Number: 41, Merged: ago(41 * time.Minute)},
	}
	h.PoolHours = []history.PoolHour{
		{NodePool: "gpu", Hour: ago(50 * time.Hour), NodeSeconds: 3600, GPUSeconds: history.States{Paid: 3600, Allocatable: 3600, Idle: 3600}, USD: history.States{Paid: 1, Allocatable: 1, Idle: 1}},
		{NodePool: "general", Hour: ago(time.Hour), NodeSeconds: 1800, USD: history.States{Paid: 0.05}, Approximate: true},
		{NodePool: "gpu", Hour: ago(3 * time.Hour), NodeSeconds: 3000, GPUSeconds: history.States{Paid: 3000, Allocatable: 2800, Requested: 1400, Idle: 1400}, USD: history.States{Paid: 0.4, Idle: 0.2}},
		{NodePool: "gpu", Hour: ago(2 * time.Hour), NodeSeconds: 120, GPUSeconds: history.States{Paid: 120, Unobserved: 20}, USD: history.States{Paid: 0.004}},
		{NodePool: "new", Hour: ago(time.Hour), NodeSeconds: 60, UnpricedSeconds: 60, GPUSeconds: history.States{Paid: 60}},
	}
	return h
}

// records are what a Reader returns, one after another.
type records struct {
	all []history.History
	err error
}

func (r *records) Read(context.Context) (history.History, error) {
	h := r.all[0]
	if len(r.all) > 1 {
		r.all = r.all[1:]
	}
	return h, r.err
}

func environment(out *bytes.Buffer) get.Environment {
	return get.Environment{Out: out, Err: out, Now: now, Namespace: func() string { return "poolwright-system" }}
}

func TestWhatHistoryPrints(t *testing.T) {
	for name, test := range map[string]struct {
		flags   printFlags
		section historySection
		of      history.History
	}{
		"all":        {printFlags{since: defaultSince}, sectionAll, night()},
		"wide":       {printFlags{since: defaultSince, output: "wide"}, sectionAll, night()},
		"everything": {printFlags{}, sectionNodes, night()},
		"pool":       {printFlags{pool: "general"}, sectionNodes, night()},
		"costs":      {printFlags{}, sectionCosts, night()},
		"json":       {printFlags{since: defaultSince, output: "json"}, sectionAll, night()},
		"yaml":       {printFlags{since: defaultSince, output: "yaml"}, sectionPullRequests, night()},
		"nothing":    {printFlags{since: defaultSince}, sectionAll, history.History{}},
		"no-drift":   {printFlags{since: defaultSince}, sectionDrift, history.History{Time: ago(0)}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := test.flags.history(t.Context(), environment(&out), &records{all: []history.History{test.of}}, test.section); err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, "testdata/history-"+name+".golden", out.String())
		})
	}
}

func TestWhatEventsPrint(t *testing.T) {
	for name, test := range map[string]struct {
		flags printFlags
		of    history.History
	}{
		"all":     {printFlags{since: defaultSince}, night()},
		"json":    {printFlags{since: time.Hour, output: "json"}, night()},
		"nothing": {printFlags{since: time.Second}, night()},
		"empty":   {printFlags{since: time.Second, output: "json"}, history.History{}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := test.flags.events(t.Context(), environment(&out), &records{all: []history.History{test.of}}, nil); err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, "testdata/events-"+name+".golden", out.String())
		})
	}
}

// Where nothing was recorded for longer than it takes while nodes run, they may be gone.
func TestUntilWhenNodesAreRecordedIsReported(t *testing.T) {
	running := []history.NodeClaim{{Name: "gpu-a", UID: "1", NodePool: "gpu", Lifecycle: history.Lifecycle{Created: ago(time.Hour), Launched: ago(time.Hour)}}}
	ended := []history.NodeClaim{running[0]}
	ended[0].Terminated = ago(30 * time.Minute)
	for name, c := range map[string]struct {
		of   history.History
		want bool
	}{
		"just now":                       {history.History{Time: ago(4 * time.Minute), NodeClaims: running}, false},
		"long ago":                       {history.History{Time: ago(20 * time.Minute), NodeClaims: running}, true},
		"long ago, and no node ran then": {history.History{Time: ago(20 * time.Minute), NodeClaims: ended}, false},
		"never":                          {history.History{}, false},
	} {
		var of history.History
		for command, run := range map[string]func(env get.Environment) error{
			"history": func(env get.Environment) error {
				f := printFlags{pool: "other"}
				return f.history(t.Context(), env, &records{all: []history.History{of}}, sectionAll)
			},
			"events": func(env get.Environment) error {
				f := printFlags{output: "json"}
				return f.events(t.Context(), env, &records{all: []history.History{of}}, nil)
			},
		} {
			var out, reported bytes.Buffer
			env := environment(&out)
			env.Err = &reported
			of = c.of
			of.NodeClaims = slices.Clone(of.NodeClaims)
			if err := run(env); err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(reported.String(), instant(c.of.Time)) && !c.of.Time.IsZero(); got != c.want {
				t.Errorf("%s, %s: %q", command, name, reported.String())
			}
		}
	}
}

func TestEventsAreSelectedByTheObjectThatTheyAreAbout(t *testing.T) {
	for of, want := range map[string]int{
		"pool/gpu": 12, "nodepool/general": 2, "gpu-zk7rq": 4, "nodeclaim/gpu-zk7rq": 4, "node/ip-10-0-0-5": 2, "node/general-x": 2,
		"sync/dev": 5, "Secret/ml/token": 1, "secret/token": 1, "dev": 5, "other": 0, "sync/gpu": 0,
	} {
		n := 0
		for _, e := range EventsOf(Since(night(), ago(defaultSince).Time, "")) {
			if e.matches(of) {
				n++
			}
		}
		if n != want {
			t.Errorf("%s: %d events, want %d", of, n, want)
		}
	}
}

func TestWatchingPrintsEachEventOnce(t *testing.T) {
	var out bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	later := night()
	later.Applies = append(later.Applies, history.Apply{Sync: "dev", Revision: "main@sha1:" + commit, Time: ago(0), Created: 1})
	from := &records{all: []history.History{{}, night(), night(), later}}
	reads := 0
	after := func(d time.Duration) <-chan time.Time {
		if reads++; reads == 5 {
			cancel()
			return nil
		}
		elapsed := make(chan time.Time)
		close(elapsed)
		return elapsed
	}
	if err := (&printFlags{since: time.Hour, of: "sync/dev", watch: true}).events(ctx, environment(&out), from, after); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/events-watch.golden", out.String())
}

// More is recorded of a node, a pull request and drift after the event: it is printed once all the same.
func TestWatchingPrintsAnEventOfWhichMoreIsRecordedLaterOnce(t *testing.T) {
	before := night()
	before.NodeClaims, before.PullRequests, before.Drift = slices.Clone(before.NodeClaims), slices.Clone(before.PullRequests), slices.Clone(before.Drift)
	last := len(before.NodeClaims) - 1
	before.NodeClaims[last].Pods, before.NodeClaims[last].Node = nil, ""
	before.PullRequests[0].Actual = history.NodeChanges{}
	before.Drift[0].Managers = nil
	var out bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	reads := 0
	after := func(time.Duration) <-chan time.Time {
		if reads++; reads == 2 {
			cancel()
			return nil
		}
		elapsed := make(chan time.Time)
		close(elapsed)
		return elapsed
	}
	if err := (&printFlags{since: defaultSince, watch: true}).events(ctx, environment(&out), &records{all: []history.History{before, night()}}, after); err != nil {
		t.Fatal(err)
	}
	events := slices.DeleteFunc(EventsOf(night()), func(e Event) bool { return e.Time.Time.Before(ago(defaultSince).Time) })
	if lines := strings.Count(out.String(), "\n") - 1; lines != len(events) {
		t.Errorf("%d events are printed, of %d:\n%s", lines, len(events), out.String())
	}
	identities := map[eventIdentity]bool{}
	for _, e := range events {
		if identities[e.identity()] {
			t.Errorf("two events have the identity %+v", e.identity())
		}
		identities[e.identity()] = true
	}
}

func TestTwoEventsHaveTwoIdentities(t *testing.T) {
	at := ago(0)
	for name, pair := range map[string][2]history.History{
		"drift of one object of two Syncs": {{Drift: []history.Drift{{Sync: "a", Object: "ConfigMap/x", Time: at}}}, {Drift: []history.Drift{{Sync: "b", Object: "ConfigMap/x", Time: at}}}},
		"a number that continues the name": {{PullRequests: []history.PullRequest{{Sync: "dev", Number: 12, Merged: at}}}, {PullRequests: []history.PullRequest{{Sync: "dev1", Number: 2, Merged: at}}}},
	} {
		if a, b := EventsOf(pair[0])[0].identity(), EventsOf(pair[1])[0].identity(); a == b {
			t.Errorf("%s: both have %+v", name, a)
		}
	}
}

func TestWhatCannotBeReadIsAnError(t *testing.T) {
	failure := errors.New("the API server is away")
	from := &records{all: []history.History{{}}, err: failure}
	var out bytes.Buffer
	f := &printFlags{}
	if err := f.history(t.Context(), environment(&out), from, sectionAll); !errors.Is(err, failure) {
		t.Errorf("history: %v", err)
	}
	if err := f.events(t.Context(), environment(&out), from, nil); !errors.Is(err, failure) || out.Len() > 0 {
		t.Errorf("events: %v, printed %s", err, out.String())
	}
}

func TestWhatArgumentsSelect(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want historySection
		err  string
	}{
		"nothing is all":        {},
		"a section":             {args: []string{"costs"}, want: sectionCosts},
		"another name of it":    {args: []string{"NodeClaims"}, want: sectionNodes},
		"a former name":         {args: []string{"pulls"}, want: sectionPullRequests},
		"what is no section":    {args: []string{"pods"}, err: `"pods" is not one of revisions, drift, pullrequests, nodes, costs`},
		"more than one section": {args: []string{"nodes", "a"}, err: "history takes one of revisions, drift, pullrequests, nodes, costs, and got 2 arguments"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := sectionOf(test.args)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if diff := cmp.Diff(test.want, got); diff != "" || text != test.err {
				t.Errorf("selected (-want +got):\n%s, %s", diff, text)
			}
		})
	}
	for name, f := range map[string]printFlags{"output": {output: "name"}, "since": {since: -1}} {
		if err := f.check(Outputs()); err == nil || !strings.Contains(err.Error(), "-") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
