package report

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/internal/hostiletext"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/state/owner"
)

var hostile = hostiletext.All()

// planted puts one string in every place that content can reach.
func planted(s string) Report {
	key := func(name string) state.Key {
		return state.Key{Target: "kubernetes", Group: s, Kind: "Thing", Namespace: s, Name: name + s}
	}
	content := object{s: s, "list": []any{s, object{"name": s, "v": s}}, "text": "a\nb\n" + s}
	created := state.Item{Key: key("new"), Object: content, Origin: state.Origin{File: s, Line: 1}}
	updated := state.Item{Key: key("edited"), Object: content, Origin: state.Origin{File: s}}
	before := updated
	before.Object = object{s: "x" + s, "list": []any{object{"name": s, "v": "old"}}, "text": s}
	before.Owner = owner.Reference{Kind: owner.Flux, Name: s}
	deleted := state.Item{Key: key("old"), Object: content, DeletionImpact: loss.DeletionImpact{Impact: s + "!"}}
	compared := state.Item{Key: key("compared"), Object: content, Origin: state.Origin{File: s}, CorrectionPolicy: state.CorrectionPolicy{ReadOnly: s + "!"}}
	lost := state.Item{Key: key("lost"), Object: content, Origin: state.Origin{File: s, Line: 4}}
	found := state.Item{Key: lost.Key, Observation: state.Observation{Unknown: s + "?", Notes: []finding.Finding{{Facts: finding.FactsOf(finding.NewFact("fact", s)), Text: s}}, Warnings: []finding.Finding{{Text: s}}}}
	p := plan.Compute(state.NewSet(created, updated, compared, lost), state.NewSet(before, deleted, found), plan.Guard(50, ""))
	p.Ignored = []plan.IgnoredFields{{Live: before, Declared: updated}}
	o := apply.Outcome{NotReady: []apply.NotReady{{Key: key("new"), Reason: s}}}
	for _, c := range p.Changes {
		o.Results = append(o.Results, apply.Result{Change: c, Status: apply.Failed, Err: errors.New(s)})
	}
	return NewOutcome(p, []state.Problem{{Origin: state.Origin{File: s, Line: 2}, Message: s}, {Message: s}}, o)
}

func TestHostileContentStaysContent(t *testing.T) {
	for name, s := range hostile {
		t.Run(name, func(t *testing.T) {
			r := planted(s)
			for form, got := range all(t, r) {
				if form != "ansi" {
					checkPrintable(t, form, got)
				}
			}
			for _, limit := range []int{minLimit, 5000, defaultLimit} {
				got := render(t, func(b *bytes.Buffer) error { return r.Markdown(b, Options{Limit: limit}) })
				checkMarkdown(t, got, limit)
			}
		})
	}
}

// checkPrintable fails when a terminal could act on the text.
func checkPrintable(t *testing.T, form, got string) {
	t.Helper()
	if !utf8.ValidString(got) {
		t.Errorf("%s is not valid UTF-8", form)
	}
	for i, r := range got {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Fatalf("%s holds %U at %d: …%q", form, r, i, got[max(0, i-40):i])
		}
	}
}

// prosaic is what prose may hold beside code: nothing that is markup or refers to anything.
const prosaic = `( \(?(\(code\)|[A-Za-z]+([-'][A-Za-z]+)*|[0-9]{1,5})[,;:.)]*)+`

// outside is what may stand outside of fences, code spans taken out.
var outside = []*regexp.Regexp{
	regexp.MustCompile(`^$`),
	regexp.MustCompile(`^### Plan: [a-z0-9, ();-]+$`),
	regexp.MustCompile(`^### (✅|⛔|⚠️) [A-Za-z0-9 ·,()+−→–/$\\.:]+$`),
	regexp.MustCompile(`^Outcome: [a-z0-9, -]+$`),
	regexp.MustCompile(`^(Cluster \(code\) · )?\(code\) ← (\(code\)|the working copy)( · merge base \(code\))? · (live state of [0-9: -]+ UTC|offline: neither a cluster nor AWS was read)$`),
	regexp.MustCompile(`^(Nothing changes|These differences from the base)[A-Za-z ,.]+\.$`),
	regexp.MustCompile(`^\*\*(Problems|Unknown|Held|Not ready|Warnings|Ignored) \([0-9]+\)\*\*$`),
	regexp.MustCompile(`^\*\*(Guards|To confirm all that waits|Changes: [a-z0-9 ,()-]+)\*\*$`),
	regexp.MustCompile(`^- \(code\)(( holds it| warns)?: \(code\))?$`),
	regexp.MustCompile(`^- ([0-9]+ objects: )?\(code\): (\(code\)(, | and [0-9]+ more)?)+$`),
	regexp.MustCompile(`^- \(code\):` + prosaic + `$`),
	regexp.MustCompile(`^- … [0-9]+ more lines?$`),
	regexp.MustCompile(`^- once this is merged, status\.confirmationToken of the Sync has the confirmation token$`),
	regexp.MustCompile(`^- … and [0-9]+ more \(plan -o json has all\)$`),
	regexp.MustCompile(`^\| \| Object \| Declared in \| \|$`),
	regexp.MustCompile(`^\|:-:\|---\|---\|---\|$`),
	regexp.MustCompile(`^<details><summary>(Field by field|Notes \([0-9]+\)|([0-9]+ of )?[0-9]+ (more )?changes?|Already drifted before this change \([a-z0-9 ,-]+\))</summary>$`),
	regexp.MustCompile(`^</details>$`),
	regexp.MustCompile(`^Nodes replaced anyway, as they drifted before \([0-9]+\):$`),
	regexp.MustCompile(`^_[a-z0-9, ;]+: this text has reached its limit\.( \(code\) shows all\.)?_$`),
}

// checkMarkdown reads the text as a forge does and fails where content stands
// outside of code.
func checkMarkdown(t *testing.T, got string, limit int) {
	t.Helper()
	if len(got) > limit {
		t.Errorf("%d bytes, limit %d", len(got), limit)
	}
	if strings.Contains(got, "<!--") {
		t.Errorf("a comment in %q", got)
	}
	open := 0
	for n, l := range strings.Split(got, "\n") {
		ticks := len(l) - len(strings.TrimLeft(l, "`"))
		switch {
		case open > 0:
			trimmed := strings.TrimLeft(l, " ")
			run := len(trimmed) - len(strings.TrimLeft(trimmed, "`"))
			if len(l)-len(trimmed) <= 3 && run >= open && strings.TrimSpace(trimmed[run:]) == "" {
				open = 0
			}
		case ticks >= 3:
			if info := l[ticks:]; info != "text" && info != "diff" {
				t.Fatalf("line %d opens a fence with %q", n+1, info)
			}
			open = ticks
		case strings.HasPrefix(l, "| `"):
			checkRow(t, l)
		default:
			bare, allowed := codeless(t, l), false
			for _, re := range outside {
				allowed = allowed || re.MatchString(bare)
			}
			if !allowed || strings.Contains(bare, "@") {
				t.Fatalf("line %d stands outside of code: %q", n+1, l)
			}
		}
	}
	if open > 0 {
		t.Errorf("a fence stays open in %q", got)
	}
}

func checkRow(t *testing.T, row string) {
	t.Helper()
	cells := strings.Split(row, "|")
	if len(cells) != 6 {
		t.Fatalf("%d bars in row %q", len(cells)-1, row)
	}
	for _, c := range cells[1:4] {
		c = strings.TrimSpace(c)
		ticks := len(c) - len(strings.TrimLeft(c, "`"))
		if c == "" {
			continue
		}
		inner := strings.TrimPrefix(c, strings.Repeat("`", ticks))
		if ticks == 0 || !strings.HasSuffix(inner, strings.Repeat("`", ticks)) {
			t.Fatalf("cell %q is no code", c)
		}
		inner = inner[:len(inner)-ticks]
		if strings.Contains(inner, strings.Repeat("`", ticks)) || strings.HasSuffix(inner, "`") {
			t.Fatalf("cell %q can be left", c)
		}
	}
}

func TestMarkdownReportsHowMuchItLeavesOut(t *testing.T) {
	var desired []state.Item
	var problems []state.Problem
	for n := range 2000 {
		desired = append(desired, item("kubernetes", "", "ConfigMap", fmt.Sprintf("c%04d", n), "a.yaml", n, object{"k": int64(n)}))
		problems = append(problems, state.Problem{Message: fmt.Sprintf("problem %d", n)})
	}
	r := New(plan.Compute(state.NewSet(desired...), state.Set{}), problems)
	got := render(t, func(b *bytes.Buffer) error { return r.Markdown(b, Options{}) })
	checkMarkdown(t, got, defaultLimit)
	if len(got) < defaultLimit*9/10 {
		t.Errorf("only %d of %d bytes used", len(got), defaultLimit)
	}
	rows, details, lines := strings.Count(got, "| `+`"), strings.Count(got, "\n@@ + "), strings.Count(got, "\n- `problem ")
	for _, want := range []string{
		fmt.Sprintf("_%d changes of 2000 not shown in full, %d of them not listed either", 2000-details, 2000-rows),
		fmt.Sprintf("… %d more lines", 2000-lines),
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q", want)
		}
	}
}

func FuzzContentNeverLeavesItsCode(f *testing.F) {
	for _, s := range hostile {
		if len(s) < 10_000 {
			f.Add(s, 2000)
		}
	}
	f.Fuzz(func(t *testing.T, s string, limit int) {
		r := planted(s)
		for form, got := range all(t, r) {
			if form != "ansi" {
				checkPrintable(t, form, got)
			}
			if form == "json" && !json.Valid([]byte(got)) {
				t.Error("JSON is not valid")
			}
		}
		got := render(t, func(b *bytes.Buffer) error { return r.Markdown(b, Options{Limit: limit}) })
		if limit <= 0 {
			limit = defaultLimit
		}
		checkMarkdown(t, got, max(limit, minLimit))
	})
}

// guarding is a report of changes that hold the secrets wherever rule 4 knows
// them, together with an error that quotes them.
func guarding(before, after string) Report {
	encode := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	content := func(s string) map[string]object {
		return map[string]object{
			"Secret": {
				"data": object{"a": encode(s), "raw": s}, "stringData": object{"b": s, "deep": object{"c": []any{s}}},
				"metadata": object{"annotations": object{"note": s}},
			},
			"EC2NodeClass": {"spec": object{"userData": s}, "metadata": object{"annotations": object{"kubectl.kubernetes.io/last-applied-configuration": s}}},
			"Bundle":       {"items": []any{object{"kind": "Secret", "name": "inner", "data": object{"k": encode(s)}}}},
			"Pod": {"spec": object{"containers": []any{object{"name": "c", "env": []any{
				object{"name": "HF_TOKEN", "value": s}, object{"name": "PLAIN", "value": "shown"},
			}}}}},
			"Custom": {"spec": object{"bearerToken": s}},
		}
	}
	var desired, observed []state.Item
	old := content(before)
	for kind, c := range content(after) {
		desired = append(desired, item("kubernetes", "", kind, "new", "a.yaml", 1, c), item("kubernetes", "", kind, "edited", "a.yaml", 1, c))
		observed = append(observed, item("kubernetes", "", kind, "edited", "", 0, old[kind]), item("kubernetes", "", kind, "old", "", 0, old[kind]))
	}
	p := plan.Compute(state.NewSet(desired...), state.NewSet(observed...))
	for kind, c := range content(after) {
		p.Ignored = append(p.Ignored, plan.IgnoredFields{Live: item("kubernetes", "", kind, "kept", "", 0, old[kind]), Declared: item("kubernetes", "", kind, "kept", "a.yaml", 1, c)})
	}
	slices.SortFunc(p.Ignored, func(a, b plan.IgnoredFields) int { return a.Key().Compare(b.Key()) })
	o := apply.Outcome{}
	for i, c := range p.Changes {
		quote := fmt.Errorf("refused: Invalid value: %q", after)
		if i%2 == 1 {
			quote = fmt.Errorf("refused: got %s", before)
		}
		o.Results = append(o.Results, apply.Result{Change: c, Status: apply.Failed, Err: quote})
	}
	problems := []state.Problem{{Message: fmt.Sprintf("stringData.b: %q is not what was meant", after)}}
	return NewOutcome(p, problems, o)
}

// Whatever the secrets are, the reader sees the same bytes: neither value nor
// length nor any other trace of them.
func FuzzSecretsLeaveNoTrace(f *testing.F) {
	f.Add("hunter2-old", "hunter2-new")
	f.Add("-----BEGIN PRIVATE KEY-----\nabc\n", "with \"quotes\" and \\ and \n newlines")
	f.Add("xyz0", strings.Repeat("very-long-", 1000))
	f.Add("YWJjZGVmZ2g=", "aHVudGVyMg==")
	control := [2]string{"control-one-4711", "control-two-0815"}
	f.Fuzz(func(t *testing.T, before, after string) {
		clean := func(s string) bool {
			return len(strings.TrimSpace(s)) >= 6 && utf8.ValidString(s) && s == strings.TrimSpace(s)
		}
		if !clean(before) || !clean(after) || before == after || strings.Contains(before, after) || strings.Contains(after, before) {
			t.Skip("not two different secrets that are long enough to be told from other text")
		}
		want := all(t, guarding(control[0], control[1]))
		for form, text := range want {
			if strings.Contains(text, before) || strings.Contains(text, after) {
				t.Skipf("%s holds such text anyway", form)
			}
		}
		got := all(t, guarding(before, after))
		for form, text := range got {
			if strings.Contains(text, before) || strings.Contains(text, after) {
				t.Errorf("%s holds a secret:\n%s", form, text)
			}
		}
		if strings.ContainsAny(before+after, `" `) {
			// Such a secret may reach into the quotes and words around the
			// other one, and take more of the error with it.
			return
		}
		for form := range want {
			if want[form] != got[form] {
				t.Errorf("%s depends on the secret:\n%s", form, cmp.Diff(want[form], got[form]))
			}
		}
	})
}

func TestMaskedPlansStillShowWhatIsNoSecret(t *testing.T) {
	got := all(t, guarding("hunter2-old", "hunter2-new"))["txt"]
	for _, want := range []string{
		"~ spec.userData: (masked, changed)", "~ stringData.b: (masked, changed)", "~ metadata.annotations.note: (masked, changed)",
		`env[name=HF_TOKEN].value: (masked, changed)`, "value: shown", "userData: (masked)", "refused: Invalid value: \"(masked)\"",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
}
