package ignored

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

func ignoredOf(name string, live, declared map[string]any) plan.IgnoredFields {
	item := state.Item{Key: state.Key{Target: "kubernetes", Group: "apps", Kind: "Deployment", Namespace: "a", Name: name}, Origin: state.Origin{File: "web.yaml", Line: 3}}
	out := plan.IgnoredFields{Live: item, Declared: item}
	out.Live.Object, out.Declared.Object = live, declared
	return out
}

func TestAStatusNamesFieldsWithoutValues(t *testing.T) {
	p := plan.Plan{Ignored: []plan.IgnoredFields{ignoredOf("web", map[string]any{"spec": map[string]any{"a": "live", "b": "same"}}, map[string]any{"spec": map[string]any{"a": "declared", "b": "same", "c": "new"}})}}
	want := []v1alpha1.IgnoredFields{{Object: "Deployment.apps/a/web", Fields: []string{"spec.a", "spec.c"}, Source: "web.yaml:3"}}
	if d := cmp.Diff(want, Status(p)); d != "" {
		t.Error(d)
	}
	if got := Status(plan.Plan{}); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}

func TestAStatusIsBounded(t *testing.T) {
	wide := map[string]any{}
	for i := range 50 {
		wide[fmt.Sprintf("%02d%s", i, strings.Repeat("x", 1000))] = "1"
	}
	var p plan.Plan
	for i := range 50 {
		p.Ignored = append(p.Ignored, ignoredOf(fmt.Sprint(i), map[string]any{}, wide))
	}
	got := Status(p)
	if len(got) != objects || len(got[0].Fields) != fields || len(got[0].Fields[0]) > nameBytes {
		t.Errorf("%d objects of %d fields, of %d bytes", len(got), len(got[0].Fields), len(got[0].Fields[0]))
	}
}

func TestAWarningAboutTheSyncIsReportedOnce(t *testing.T) {
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: "poolwright-system", Name: "dev"}}
	key := state.Key{Target: "kubernetes", Group: "poolwright.dev", Kind: "Sync", Namespace: "poolwright-system", Name: "dev"}
	other := key
	other.Name = "other"
	p := plan.Plan{Notes: []plan.Note{{Key: key, Code: finding.IgnoreRuleUnused, Severity: finding.Warning, Text: "a"}, {Key: key, Text: "b"}, {Key: other, Code: finding.IgnoreRuleUnused, Severity: finding.Warning, Text: "c"}, {Key: key, Code: finding.IgnoreRuleUnused, Severity: finding.Warning, Text: "d"}, {Key: key, Code: finding.DryRunRefused, Severity: finding.Warning, Text: "e"}}}
	recorder := record.NewFakeRecorder(10)
	emitted := func(p plan.Plan, before string) (now string, events []string) {
		now = Report(recorder, sync, p, before)
		for len(recorder.Events) > 0 {
			events = append(events, <-recorder.Events)
		}
		return now, events
	}
	now, events := emitted(p, "")
	if d := cmp.Diff([]string{"Warning IgnoreRuleUnused a; d"}, events); d != "" {
		t.Error(d)
	}
	if again, events := emitted(p, now); len(events) > 0 || again != now {
		t.Errorf("it is reported again: %v", events)
	}
	if none, events := emitted(plan.Plan{}, now); len(events) > 0 || none != "" {
		t.Errorf("%q of nothing: %v", none, events)
	}
}
