package child

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/cmd/internal/crds"
	"github.com/poolwright/poolwright/gitsource/dir"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/checked"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/declared/lint/gpulint"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/aws"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
)

const secretInGit = `apiVersion: v1
kind: Secret
metadata: {name: hf, namespace: default}
stringData:
  token: hunter2
`

// clusterYAML is a Cluster with more in its spec.
func clusterYAML(more string) string {
	return "apiVersion: poolwright.dev/v1alpha1\nkind: Cluster\nmetadata: {name: cluster}\nspec:\n  name: demo\n  region: eu-west-1\n  account: \"123456789012\"\n" + more
}

func TestProblemsAreDistinguishedByWhoRefusesThem(t *testing.T) {
	const poolHead = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: general}\nspec:\n"
	tests := []struct {
		name, yaml string
		want       findings
	}{
		{"a secret in Git is advice", secretInGit, findings{
			notes: []string{"a.yaml:4 Secret/default/hf Warning: stringData: this secret is in Git for everyone who may read the repository; keep it in a secret store, and rotate it"},
		}},
		{"an annotation that nobody reads is advice", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  annotations:\n    poolwright.dev/prnue: disabled\n", findings{
			notes: []string{"a.yaml:6 ConfigMap/a Warning: metadata.annotations[poolwright.dev/prnue]: nobody reads this annotation"},
		}},
		{"a file that cannot be read holds the loop", "apiVersion: v1\nkind: ConfigMap\nmetadata: [\n", findings{problems: []string{"a.yaml"}}},
		{"an object declared twice holds the loop", secretInGit + "---\n" + secretInGit, findings{
			problems: []string{"a.yaml"}, notes: []string{"a.yaml:4 Secret/default/hf Warning: stringData"},
		}},
		{"a pool that does not fit its schema is refused by the API server", poolHead + "  weight: heavy\n  template: {spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: x}}}\n", findings{
			refused: []string{"a.yaml:5 NodePool.karpenter.sh/general: spec.weight"},
		}},
		{"data that is no text is refused by the API server", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: 1\n", findings{
			refused: []string{"a.yaml:5 ConfigMap/a: data[k]: this must be text; quote it"},
		}},
		{"a Cluster that does not fit its schema is the target's to report", clusterYAML("  version: latest\n"), findings{
			targets: []string{"a.yaml:1 Cluster.poolwright.dev/cluster: spec.version"},
		}},
		{"a Cluster that AWS cannot have is the target's to report", clusterYAML("  nodeRole: {name: a}\n  controllerRole: {name: a}\n"), findings{
			targets: []string{"a.yaml:1 Cluster cluster: spec.controllerRole.name is"},
		}},
		{"two plugins are the target's to report", plugin("a") + "---\n" + plugin("b"), findings{
			targets: []string{"a.yaml:6 DevicePlugin.poolwright.dev/b is a second DevicePlugin", "a.yaml:1 DevicePlugin.poolwright.dev/a: spec.configs is empty"},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree := fstest.MapFS{"a.yaml": &fstest.MapFile{Data: []byte(tt.yaml)}}
			got, err := (&Runner{}).Load(t.Context(), tree, ".", substitute.Values{})
			if err != nil {
				t.Fatal(err)
			}
			is := findingsOf(t, got)
			for _, part := range []struct {
				name      string
				want, got []string
			}{{"problems", tt.want.problems, is.problems}, {"refused", tt.want.refused, is.refused}, {"notes", tt.want.notes, is.notes}, {"targets", tt.want.targets, is.targets}} {
				if len(part.want) != len(part.got) || !slices.EqualFunc(part.want, part.got, func(want, got string) bool { return strings.HasPrefix(got, want) }) {
					t.Errorf("%s: got %q, want %q", part.name, part.got, part.want)
				}
			}
			if strings.Contains(fmt.Sprint(is), "hunter") {
				t.Error("a secret is told")
			}
		})
	}
}

func plugin(name string) string {
	return "apiVersion: poolwright.dev/v1alpha1\nkind: DevicePlugin\nmetadata: {name: " + name + "}\nspec: {}\n"
}

// warned is the text of a note, marked where it is a warning.
func warned(n plan.Note) string {
	if n.Severity == finding.Warning {
		return "Warning: " + n.Text
	}
	return n.Text
}

// findings is what is said of a folder, by whom.
type findings struct{ problems, refused, notes, targets []string }

func findingsOf(t *testing.T, l checked.Folder) findings {
	t.Helper()
	var out findings
	for _, n := range l.Notes {
		out.notes = append(out.notes, n.Origin.String()+" "+n.Key.String()+" "+warned(n))
	}
	out.problems, out.refused, out.targets = lines(l.Problems), lines(l.Refused), lines(targetProblems(t, l.Set))
	return out
}

func lines(problems []state.Problem) []string {
	var out []string
	for _, p := range problems {
		out = append(out, p.Origin.String()+" "+p.Message)
	}
	return out
}

// targets are the problems that the loop finds by asking what its targets want, in the
// way in which it is reported of Clusters' schemas.
func targetProblems(t *testing.T, set state.Set) []state.Problem {
	t.Helper()
	crds, err := crds.Known()
	if err != nil {
		t.Fatal(err)
	}
	refused := lint.Refused(declared.Declared{Set: set}, crds)
	var out []state.Problem
	for _, w := range []targets.Target{
		aws.Offline(func(i state.Item) []state.Problem { return refused[i.Key] }), kubernetes.Offline("dev", nil),
	} {
		var found *targets.ProblemsError
		if _, err := w.Desired(context.Background(), set); errors.As(err, &found) {
			out = append(out, found.Problems...)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestNoFindingOfLintIsLostOrReportedTwice holds what a child tells, and what the
// targets will, against all that there is to tell.
func TestNoFindingOfLintIsLostOrReportedTwice(t *testing.T) {
	root, _, err := dir.Locate(repository)
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := dir.New(root, dir.Limits{}).Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	crds, err := crds.Known()
	if err != nil {
		t.Fatal(err)
	}
	types, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	met := 0
	for _, folder := range folders(t) {
		d, err := declared.Load(snapshot.FS, folder, declared.Options{})
		if err != nil {
			continue // Nothing is reported of such a folder but that.
		}
		l, err := load(snapshot.FS, folder, substitute.Values{})
		if err != nil {
			t.Fatal(err)
		}
		all := lint.Check(d, crds)
		for _, f := range gpulint.Check(d, types) {
			all = append(all, f.Problem())
		}
		all = append(all, aws.Check(d.Set)...)
		reported := append(append(slices.Clone(l.Problems), l.Refused...), targetProblems(t, d.Set)...)
		for _, n := range l.Notes {
			reported = append(reported, state.Problem{Origin: n.Origin, Message: n.Key.String() + ": " + n.Text})
		}
		met += len(all)
		times := map[string]int{}
		for _, p := range reported {
			times[p.Origin.File+" "+p.Message]++
		}
		for _, p := range all {
			text := p.Origin.File + " " + p.Message
			if n := times[text]; n == 0 {
				t.Errorf("%s: lost: %s", folder, text)
			}
			times[text] = 1
		}
		for text, n := range times {
			if n != 1 {
				t.Errorf("%s: told %d times: %s", folder, n, text)
			}
		}
		if diff := cmp.Diff(lint.Sorted(d.Problems), l.Problems); diff != "" {
			t.Errorf("%s: other problems than the loop's: %s", folder, diff)
		}
	}
	if met < 50 {
		t.Errorf("only %d findings were met", met)
	}
}
