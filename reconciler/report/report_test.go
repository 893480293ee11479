package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/state/owner"
)

type object = map[string]any

func item(in, group, kind, name, file string, line int, content object) state.Item {
	return state.Item{
		Key:    state.Key{Target: in, Group: group, Kind: kind, Name: name},
		Object: content, Origin: state.Origin{File: file, Line: line},
	}
}

func live(i state.Item, content object) state.Item {
	i.Origin, i.Object, i.Live.UID = state.Origin{}, content, "uid-of-"+i.Key.Name
	return i
}

// sample is a plan with every kind of change.
func sample() (plan.Plan, []state.Problem) {
	gpu := item("kubernetes", "karpenter.sh", "NodePool", "gpu", "pools/gpu.yaml", 3, object{
		"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": object{"name": "gpu"},
		"spec": object{"limits": object{"nvidia.com/gpu": int64(8)}, "weight": int64(10)},
	})
	cpu := item("kubernetes", "karpenter.sh", "NodePool", "cpu", "pools/cpu.yaml", 1, object{
		"metadata": object{"labels": object{"app.kubernetes.io/name": "cpu"}},
		"spec": object{
			"disruption": object{"consolidateAfter": "30s"}, "weight": int64(5),
			"template": object{"spec": object{"taints": []any{object{"key": "a", "effect": "NoSchedule"}, object{"key": "b", "effect": "NoExecute"}}}},
		},
	})
	class := item("kubernetes", "karpenter.k8s.aws", "EC2NodeClass", "gpu", "classes/gpu.yaml", 1, object{
		"spec": object{"userData": "#!/bin/sh\nexport HF_TOKEN=hunter2-new\n", "role": "nodes"},
	})
	config := item("kubernetes", "", "ConfigMap", "plugin", "plugin.yaml", 20, object{
		"data": object{
			"config.yaml": "version: v1\nsharing:\n  timeSlicing:\n    replicas: 4\nflags:\n  failOnInitError: true\n",
			"mirror":      "https://robot:hunter2@mirror.example.com/x",
		},
	})
	secret := item("kubernetes", "", "Secret", "git", "secrets/git.yaml", 1, object{
		"kind": "Secret", "metadata": object{"name": "git", "annotations": object{"note": "hunter2"}},
		"stringData": object{"password": "hunter2-new", "username": "robot-user"},
	})
	pull := item("kubernetes", "", "Secret", "pull", "secrets/pull.yaml", 1, object{
		"kind": "Secret", "metadata": object{"name": "pull"}, "type": "Opaque", "data": object{"key": "aHVudGVyMg=="},
	})
	queue := item("aws", "sqs", "Queue", "interruption", "cluster.yaml", 9, object{"retention": int64(300)})
	old := item("kubernetes", "karpenter.sh", "NodePool", "old", "", 0, object{"spec": object{}})
	old.Impact, old.Losses = "3 nodes, 7 pods go with it", loss.Counts{"Node": 3, "Pod": 7}
	theirs := item("kubernetes", "apps", "Deployment", "web", "web.yaml", 2, object{"spec": object{"paused": true}})

	liveTheirs := live(theirs, object{"spec": object{"paused": false}})
	liveTheirs.Owner = owner.Reference{Kind: owner.FluxKustomization, Name: "flux-system/apps"}
	same := item("kubernetes", "", "Namespace", "gpu", "ns.yaml", 1, object{"kind": "Namespace"})
	desired := state.NewSet(gpu, cpu, class, config, secret, pull, queue, theirs, same)
	observed := state.NewSet(
		live(cpu, object{
			"metadata": object{"labels": object{"app.kubernetes.io/name": "cpu", "team": "x"}},
			"spec": object{
				"disruption": object{"consolidateAfter": "60s"},
				"template":   object{"spec": object{"taints": []any{object{"key": "a", "effect": "NoExecute"}, object{"key": "b", "effect": "NoExecute"}}}},
			},
		}),
		live(class, object{"spec": object{"userData": "#!/bin/sh\nexport HF_TOKEN=hunter2-old\n", "role": "nodes-old"}}),
		live(config, object{"data": object{
			"config.yaml": "version: v1\nsharing:\n  timeSlicing:\n    replicas: 2\nflags:\n  failOnInitError: true\n",
			"mirror":      "https://robot:hunter1@mirror.example.com/x",
		}}),
		live(secret, object{
			"kind": "Secret", "metadata": object{"name": "git"},
			"stringData": object{"password": "hunter2-old", "token": "gone"},
		}),
		live(old, old.Object), liveTheirs, live(same, same.Object),
	)
	p := plan.Compute(desired, observed, plan.Guard(50, ""))
	return p, []state.Problem{
		{Origin: state.Origin{File: "pools/bad.yaml", Line: 7}, Message: `field "weigth" is unknown; did you mean "weight"?`},
		{Message: "the folder has no kustomization.yaml"},
	}
}

// done is an outcome of the sample with every status.
func done(p plan.Plan) apply.Outcome {
	o := apply.Outcome{NotReady: []apply.NotReady{{Key: p.Changes[0].Key, Reason: "waiting for its role"}}}
	for i, c := range p.Changes {
		r := apply.Result{Change: c, Status: apply.Applied}
		switch {
		case c.Skipped():
			r.Status = apply.Skipped
		case c.Held():
			r.Status = apply.Held
		case i == 1:
			r.Status, r.Err = apply.Failed, errors.New(`Secret "git" is invalid: data[password]: Invalid value: "hunter2-new"`)
		case i == 2:
			r.Status, r.Err = apply.Conflict, errors.New("spec.paused is owned by kustomize-controller")
		case i == 3:
			r.Status, r.Err = apply.NotAttempted, errors.New("not started: the run was stopped")
		}
		o.Results = append(o.Results, r)
	}
	return o
}

func render(t *testing.T, f func(*bytes.Buffer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := f(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// all are the report's forms.
func all(t *testing.T, r Report) map[string]string {
	t.Helper()
	return map[string]string{
		"txt":  render(t, func(b *bytes.Buffer) error { return r.Text(b, Options{}) }),
		"ansi": render(t, func(b *bytes.Buffer) error { return r.Text(b, Options{Color: true, Lines: -1}) }),
		"md":   render(t, func(b *bytes.Buffer) error { return r.Markdown(b, Options{}) }),
		"json": render(t, func(b *bytes.Buffer) error { return r.JSON(b) }),
	}
}

func TestReportsReadAsTheGoldenFiles(t *testing.T) {
	p, problems := sample()
	planned, ran := New(p, problems), NewOutcome(p, problems, done(p))
	planned.Sync, ran.Sync = "poolwright-system/dev", "poolwright-system/dev"
	for form, got := range all(t, planned) {
		golden.Compare(t, "testdata/plan."+form, got)
	}
	for form, got := range all(t, ran) {
		golden.Compare(t, "testdata/outcome."+form, got)
	}
	empty := plan.Compute(state.NewSet(item("kubernetes", "", "Namespace", "a", "a.yaml", 1, object{"kind": "Namespace"})),
		state.NewSet(item("kubernetes", "", "Namespace", "a", "", 0, object{"kind": "Namespace"})))
	for form, got := range all(t, New(empty, nil)) {
		golden.Compare(t, "testdata/empty."+form, got)
	}
}

// The name of a file is quoted where it could be taken for a command of ours, as lint and the Sync's
// status quote it.
func TestANameOfAFileThatImitatesACommandReadsAsTheGoldenFiles(t *testing.T) {
	content := object{"spec": object{"weight": int64(5)}}
	p := plan.Compute(state.NewSet(
		item("kubernetes", "karpenter.sh", "NodePool", "a", "base/z, run: kubectl delete ns y.yaml", 1, content),
		item("kubernetes", "karpenter.sh", "NodePool", "b", "base/b.yaml", 1, content),
	), state.NewSet())
	problems := []state.Problem{{Origin: state.Origin{File: "base/x, run: kubectl delete ns y.yaml", Line: 4}, Message: "NodePool.karpenter.sh/c: spec.weight must be a number"}}
	for form, got := range all(t, New(p, problems)) {
		golden.Compare(t, "testdata/filenames."+form, got)
	}
}

func TestReportsAreTheSameBytesEveryTime(t *testing.T) {
	p, problems := sample()
	want := all(t, NewOutcome(p, problems, done(p)))
	for range 20 {
		p, problems := sample()
		if d := cmp.Diff(want, all(t, NewOutcome(p, problems, done(p)))); d != "" {
			t.Fatalf("differs (-first +now):\n%s", d)
		}
	}
}

func TestJSONCanBeReadBack(t *testing.T) {
	p, problems := sample()
	r := NewOutcome(p, problems, done(p))
	var back Report
	if err := json.Unmarshal([]byte(all(t, r)["json"]), &back); err != nil {
		t.Fatal(err)
	}
	if back.Summary.Create != 3 || len(back.Changes) != len(r.Changes) || back.Changes[0].Name != r.Changes[0].Name {
		t.Errorf("read back %+v", back.Summary)
	}
}

// What nothing releases is skipped in each count and status, and what a run did not begin in none.
func TestSkippedHasOneMeaning(t *testing.T) {
	key := func(name string) state.Key { return state.Key{Target: "kubernetes", Kind: "ConfigMap", Name: name} }
	readOnly := &state.Item{Key: key("read-only"), CorrectionPolicy: state.CorrectionPolicy{ReadOnly: "run: x"}}
	p := plan.Plan{Changes: []plan.Change{
		{Key: key("read-only"), Action: plan.Update, Before: readOnly, After: readOnly, Hold: hold.Reasons{{Rule: hold.ReadOnly}}},
		{Key: key("reported"), Action: plan.Delete, Before: &state.Item{}, Drift: true, Hold: hold.Reasons{{Rule: hold.DriftReported}}},
		{Key: key("held"), Action: plan.Delete, Before: &state.Item{}, Hold: hold.Reasons{{Rule: hold.DriftReported}, {Rule: hold.QuotaExceeded, Facts: hold.Facts{Quota: &hold.Quota{}}}}},
		{Key: key("late"), Action: plan.Delete, Before: &state.Item{}},
	}}
	o := apply.Outcome{}
	for _, c := range p.Changes {
		status := apply.NotAttempted
		switch {
		case c.Skipped():
			status = apply.Skipped
		case c.Held():
			status = apply.Held
		}
		o.Results = append(o.Results, apply.Result{Change: c, Status: status})
	}
	r := NewOutcome(p, nil, o)
	got := map[string]string{}
	for _, c := range r.Changes {
		got[c.Name] = c.Status
		if c.Skipped != (c.Status == "skipped") {
			t.Errorf("%s has the status %s, and skipped is %v", c.Name, c.Status, c.Skipped)
		}
	}
	if d := cmp.Diff(map[string]string{"read-only": "skipped", "reported": "skipped", "held": "held", "late": "notAttempted"}, got); d != "" {
		t.Errorf("statuses (-want +got):\n%s", d)
	}
	if s := r.Summary; s.Skipped != 2 || s.ReadOnly != 1 || s.Held != 1 || s.Delete != 3 || s.Update != 0 {
		t.Errorf("summary %+v", s)
	}
	if d := cmp.Diff(&OutcomeCounts{Held: 1, Skipped: 2, ReadOnly: 1, NotAttempted: 1}, r.Summary.Outcome); d != "" {
		t.Errorf("outcome (-want +got):\n%s", d)
	}
}

func TestJSONListsAreNeverNull(t *testing.T) {
	if got := all(t, New(plan.Plan{}, nil))["json"]; strings.Contains(got, "null") {
		t.Error(got)
	}
}

func TestTextShowsAsManyLinesOfAnObjectAsRequested(t *testing.T) {
	big := object{}
	for c := 'a'; c <= 'z'; c++ {
		big[string(c)] = int64(1)
	}
	p := plan.Compute(state.NewSet(item("kubernetes", "", "ConfigMap", "big", "a.yaml", 1, big)), state.Set{})
	tests := []struct {
		name      string
		lines     int
		want, not string
	}{
		{name: "few", lines: 3, want: "… 23 more lines", not: "d: 1"},
		{name: "all", lines: -1, want: "z: 1", not: "more line"},
		{name: "the default is enough for most", lines: 0, want: "z: 1", not: "more line"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := render(t, func(b *bytes.Buffer) error { return New(p, nil).Text(b, Options{Lines: tt.lines}) })
			if !strings.Contains(got, tt.want) || strings.Contains(got, tt.not) {
				t.Error(got)
			}
		})
	}
}

// BenchmarkReport is a first plan of 2,000 objects in all forms.
func BenchmarkReport(b *testing.B) {
	var desired []state.Item
	for n := range 2000 {
		content := object{"kind": "ConfigMap"}
		for k := range 20 {
			content[string(rune('a'+k))] = object{"value": strings.Repeat("some text of it ", 5), "n": int64(k)}
		}
		desired = append(desired, item("kubernetes", "", "ConfigMap", string(rune('a'+n%26))+strings.Repeat("x", n/26), "a.yaml", n, content))
	}
	p := plan.Compute(state.NewSet(desired...), state.Set{})
	for b.Loop() {
		r := New(p, nil)
		var out bytes.Buffer
		for _, err := range []error{r.Text(&out, Options{}), r.Markdown(&out, Options{}), r.JSON(&out)} {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func TestAWarningOfTheAPIServerShowsNoSecret(t *testing.T) {
	const token = "s3cr3t-value-77"
	pod := func(dryRunError string, ownership *owner.Fields) state.Item {
		o := map[string]any{"kind": "Pod", "metadata": map[string]any{"name": "llm"}, "spec": map[string]any{"containers": []any{map[string]any{
			"name": "c", "env": []any{map[string]any{"name": "API_TOKEN", "value": token}},
		}}}}
		return state.Item{Key: state.Key{Target: "kubernetes", Kind: "Pod", Namespace: "default", Name: "llm"}, Object: o, Observation: state.Observation{DryRunError: dryRunError, Ownership: ownership}}
	}
	p := plan.Compute(state.NewSet(pod("", nil)), state.NewSet(pod("it says "+token, &owner.Fields{Unclaimed: []string{token}})))
	r := New(p, nil)
	var text, markdown, raw bytes.Buffer
	for _, err := range []error{r.Text(&text, Options{}), r.Markdown(&markdown, Options{}), r.JSON(&raw)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, out := range []string{text.String(), markdown.String(), raw.String()} {
		if strings.Contains(out, token) || !strings.Contains(out, "refused: it says (masked)") || !strings.Contains(out, "not yet owned by Poolwright: (masked)") {
			t.Errorf("leaks, or hides the remark:\n%s", out)
		}
	}
}
