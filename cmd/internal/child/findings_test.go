package child

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/checked"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

func TestAFolderOfManyProblemsListsSomeAndCountsAll(t *testing.T) {
	const problems = 3 * maxFindings
	var text strings.Builder
	text.WriteString("apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\nspec:\n  template: {spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: x}}}\n")
	for i := range problems {
		fmt.Fprintf(&text, "  unknown%d: 1\n", i)
	}
	for i := range problems { // An odd name each, which is a problem, and a Secret each, which is advice.
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: ConfigMap\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: a%d}\nstringData: {a: b}\n", i)
	}
	got, err := (&Runner{}).Load(t.Context(), fstest.MapFS{"a.yaml": {Data: []byte(text.String())}}, ".", substitute.Values{})
	if err != nil {
		t.Fatal(err)
	}
	rest := func(listed, counted int) string { return fmt.Sprintf("%d listed, %d counted", listed, counted) }
	notes := 0
	for _, n := range got.Notes {
		notes += max(n.Omitted, 1)
	}
	want := rest(maxFindings+1, problems)
	for name, is := range map[string]string{
		"problems": rest(len(got.Problems), counted(got.Problems)),
		"refused":  rest(len(got.Refused), counted(got.Refused)),
		"notes":    rest(len(got.Notes), notes),
	} {
		if is != want {
			t.Errorf("%s: %s, want %s", name, is, want)
		}
	}
	last := got.Refused[maxFindings]
	if want := (state.Origin{File: "a.yaml", Line: 6 + maxFindings}); last.Origin != want || last.Omitted != problems-maxFindings {
		t.Errorf("the last is %+v", last)
	}
	if d := cmp.Diff(got.Refused, limited(got).Refused); d != "" {
		t.Errorf("limited once more: %s", d)
	}
}

func TestTheParentLimitsWhatAHostileChildReturns(t *testing.T) {
	long := strings.Repeat("ä", 1<<19)
	var hostile checked.Folder
	for i := range 5 * maxFindings {
		p := state.Problem{Origin: state.Origin{File: "a.yaml", Line: i}, Message: "x", Omitted: math.MaxInt - i%2*math.MaxInt - i%2}
		if i < 2 {
			p.Message, p.Origin.File, p.Object.Name = long, long, long
			p.Field, p.UnknownField, p.Detail, p.DuplicateKey, p.RuleFields = long, long, long, long, long
			p.Code, p.Facts = finding.Code(long), finding.FactsOf(finding.NewFact("long", long))
		}
		hostile.Problems, hostile.Refused = append(hostile.Problems, p), append(hostile.Refused, p)
		hostile.Notes = append(hostile.Notes, plan.Note{Origin: p.Origin, Code: p.Code, Facts: p.Facts, Text: p.Message, Omitted: p.Omitted})
	}
	hostile.Clusters = checked.ObjectProblems{}
	for i := range 5 {
		hostile.Clusters[state.Key{Name: fmt.Sprint(i)}] = hostile.Problems
	}
	raw, err := encoded([]any{hostile})
	if err != nil {
		t.Fatal(err)
	}
	got, err := (&Runner{}).Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	lists := [][]state.Problem{got.Problems, got.Refused}
	in := 0
	for _, of := range got.Clusters {
		if lists = append(lists, of); len(of) == 0 {
			t.Error("a Cluster that is refused is refused no more")
		}
		in += len(of)
	}
	if in > maxFindings+len(got.Clusters)+1 || len(got.Clusters) != 5 {
		t.Errorf("%d problems of %d Clusters", in, len(got.Clusters))
	}
	for _, n := range got.Notes {
		lists = append(lists, []state.Problem{{Origin: n.Origin, Code: n.Code, Facts: n.Facts, Message: n.Text, Omitted: n.Omitted}})
	}
	for _, list := range lists {
		if len(list) > maxFindings+1 || counted(list) < len(list) {
			t.Errorf("%d problems, which stand for %d", len(list), counted(list))
		}
		for _, p := range list {
			if len(p.Message) > maxFindingBytes || max(len(p.Origin.File), len(p.Object.Name), len(p.Field), len(p.UnknownField), len(p.Detail), len(p.DuplicateKey), len(p.RuleFields)) > maxFindingBytes || p.Omitted < 0 || p.Omitted > math.MaxInt32 {
				t.Errorf("a text of %d bytes in a file's name of %d, for %d", len(p.Message), len(p.Origin.File), p.Omitted)
			}
			if p.Code != "" && p.Code != finding.FindingsOmitted || len(p.Facts) > 2*maxFindingBytes {
				t.Errorf("a code of %d bytes, and facts of %d", len(p.Code), len(p.Facts))
			}
		}
	}
	if len(got.Notes) > maxFindings+1 {
		t.Errorf("%d notes", len(got.Notes))
	}
	failed := (&errorObject{Class: state.Stalled, Reason: "X", Text: long + long}).err()
	if len(failed.Error()) > maxFailureBytes {
		t.Errorf("a reason of %d bytes", len(failed.Error()))
	}
}

func counted(list []state.Problem) (n int) {
	for _, p := range list {
		n += p.Count()
	}
	return n
}

// A child that is not trusted may name Clusters of which it reports no problem, also after
// the last that there is room for.
func TestClustersWithoutProblemsNeedNoRoom(t *testing.T) {
	clusters := checked.ObjectProblems{{Name: "b"}: nil}
	for i := range maxFindings + 1 {
		clusters[state.Key{Name: fmt.Sprintf("a%05d", i)}] = []state.Problem{{Message: "x"}}
	}
	raw, err := encoded([]any{checked.Folder{Clusters: clusters}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := (&Runner{}).Decode(raw); err != nil || len(got.Clusters) != maxFindings+2 {
		t.Errorf("%d Clusters, %v", len(got.Clusters), err)
	}
}

func TestAFolderIsDecodedFromNothingButAListOfItAndItems(t *testing.T) {
	const folder = `{"problems":[{"Message":"p"}]}`
	const item = `{"key":{"Kind":"ConfigMap","Name":"a"},"version":"v1","object":{"n":1,"f":1.0}}`
	for name, c := range map[string]struct {
		text            string
		problems, items int
		fails           bool
	}{
		"nothing":               {"", 0, 0, false},
		"a folder and items":    {"[" + folder + ",[" + item + "]]", 1, 1, false},
		"a folder alone":        {"[" + folder + "]", 1, 0, false},
		"no folder":             {"[null,[" + item + "]]", 0, 1, false},
		"no items":              {"[" + folder + ",null]", 1, 0, false},
		"more than that":        {"[" + folder + ",[" + item + "],[{}],1]", 1, 1, false},
		"equal keys":            {"[" + folder + ",[" + item + "," + item + "]]", 1, 1, false},
		"an empty list":         {"[]", 0, 0, false},
		"a folder without list": {folder, 0, 0, true},
		"items in its place":    {"[[" + item + "]]", 0, 0, true},
		"an item in a map":      {"[" + folder + "," + item + "]", 0, 0, true},
		"a number":              {"[1]", 0, 0, true},
		"an incomplete text":    {"[" + folder + ",[", 0, 0, true},
		"two texts":             {"[" + folder + "][]", 0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := (&Runner{}).Decode([]byte(c.text))
			if (err != nil) != c.fails || len(got.Problems) != c.problems || got.Set.Len() != c.items {
				t.Fatalf("%d problems, %d items, %v", len(got.Problems), got.Set.Len(), err)
			}
			for _, i := range got.Set.Items() {
				if d := cmp.Diff(map[string]any{"n": int64(1), "f": 1.0}, i.Object); d != "" {
					t.Error(d)
				}
			}
		})
	}
}

func TestAFolderIsDecodedAsItWasEncoded(t *testing.T) {
	want := checked.Folder{Refused: []state.Problem{{Message: "r"}}, Notes: []plan.Note{{Text: "n"}}}
	want.Problems = []state.Problem{{Origin: state.Origin{File: "a.yaml", Line: 1}, Message: "p"}}
	object := map[string]any{"int": int64(3), "large": int64(math.MaxInt64), "whole": 3.0, "half": 1.5, "huge": 1e300, "text": "<&>\u2028", "null": nil, "list": []any{2.0, map[string]any{}, []any{}}}
	want.Set = state.NewSet(
		state.Item{Key: state.Key{Target: "kubernetes", Kind: "ConfigMap", Name: "b"}, Version: "v1", Object: object, Origin: state.Origin{File: "b.yaml", Line: 2}},
		state.Item{Key: state.Key{Target: "kubernetes", Kind: "ConfigMap", Name: "a"}, Version: "v1", Object: map[string]any{}},
	)
	raw, err := encodeFolder(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := (&Runner{}).Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want.Set.Items(), got.Set.Items()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreFields(declared.Declared{}, "Set"), cmpopts.IgnoreUnexported(declared.Declared{})); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(any(3.0), object["whole"]); d != "" {
		t.Errorf("encoding changed the object: %s", d)
	}
}

func TestAHostileChildSetsNothingOfAnItemButWhatADeclarationFills(t *testing.T) {
	want := state.Item{Key: state.Key{Target: "kubernetes", Kind: "ConfigMap", Name: "a"}, Version: "v1", Object: map[string]any{"kind": "ConfigMap"}, Origin: state.Origin{File: "a.yaml", Line: 1}}
	hostile := want
	hostile.Live.UID, hostile.Applied, hostile.Owner.Name, hostile.Wave = "u", "x", "o", 7
	hostile.Adopt, hostile.Hidden, hostile.Impact = true, true, "none"
	raw, err := encoded([]any{checked.Folder{}, []state.Item{hostile}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := (&Runner{}).Decode(raw)
	if d := cmp.Diff([]state.Item{want}, got.Set.Items()); err != nil || d != "" {
		t.Errorf("(-want +got):\n%s, %v", d, err)
	}
}

func TestAChildsReasonAndWaitAreOfTheFormOfOurs(t *testing.T) {
	for name, c := range map[string]struct {
		in     errorObject
		class  state.FailureClass
		reason string
		after  time.Duration
	}{
		"a reason of ours":                  {errorObject{Class: state.Stalled, Reason: "RenderFailed"}, state.Stalled, "RenderFailed", 0},
		"a reason with other characters":    {errorObject{Class: state.Stalled, Reason: "Render\nFailed"}, state.Retry, "Failed", 0},
		"a reason that is too long":         {errorObject{Class: state.Wait, Reason: "A" + strings.Repeat("a", 64)}, state.Retry, "Failed", 0},
		"no reason":                         {errorObject{Class: state.Stalled}, state.Retry, "Failed", 0},
		"a wait of ours":                    {errorObject{Class: state.Wait, Reason: "X", After: time.Minute}, state.Wait, "X", time.Minute},
		"a wait of years":                   {errorObject{Class: state.Wait, Reason: "X", After: 1 << 62}, state.Wait, "X", time.Hour},
		"a wait that ended before it began": {errorObject{Class: state.Wait, Reason: "X", After: -time.Hour}, state.Wait, "X", 0},
	} {
		if class, reason, after := state.Classify(c.in.err()); class != c.class || reason != c.reason || after != c.after {
			t.Errorf("%s: %s %s %s", name, class, reason, after)
		}
	}
}
