package conversion_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/declared/conversion"
)

func TestFilesStayWithWhatCannotBeConverted(t *testing.T) {
	named := func(object, name, class string) string {
		object = strings.Replace(object, "metadata: {name: p}", "metadata: {name: "+name+"}", 1)
		return strings.Replace(strings.Replace(object, "metadata: {name: c}", "metadata: {name: "+class+"}", 1), "{name: c}", "{name: "+class+"}", 1)
	}
	launch := named(template+alphaRest+"  launchTemplate: x\n", "", "stuck")
	class, pod := named(template+alphaRest, "", "free"), "apiVersion: v1\nkind: Pod\nmetadata: {name: x, annotations: {karpenter.sh/do-not-evict: \"true\"}}\n"
	for name, c := range map[string]struct {
		files         []string
		changed, held []string
	}{
		"the pool of a class, and what shares its file": {
			[]string{"class.yaml", launch, "pool.yaml", named(oldPool+oldRef, "a", "stuck") + "---\n" + named(oldPool+oldRef, "b", "free"), "free.yaml", class},
			nil, []string{"free.yaml", "pool.yaml"},
		},
		"no other pools, classes and workloads": {
			[]string{"class.yaml", launch, "pool.yaml", named(oldPool+oldRef, "b", "free"), "free.yaml", class, "pod.yaml", pod},
			[]string{"free.yaml", "pod.yaml", "pool.yaml"}, nil,
		},
		"the other pools of a class whose pool hangs on a variable": {
			[]string{"a.yaml", named(oldPool+oldRef, "a", "free") + "  consolidation: {enabled: \"${C}\"}\n", "b.yaml", named(oldPool+oldRef, "b", "free"), "free.yaml", class, "pod.yaml", pod},
			[]string{"pod.yaml"}, []string{"b.yaml", "free.yaml"},
		},
		"all files where patches may be of any": {
			[]string{"class.yaml", launch, "pool.yaml", named(oldPool+oldRef, "b", "free"), "free.yaml", class, "kustomization.yaml", "patches: [{path: patch.yaml}]\n"},
			nil, []string{"free.yaml", "pool.yaml"},
		},
		"all files where one cannot be read": {
			[]string{"bad.yaml", "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: {{ .Values.name }}}\n", "free.yaml", class},
			nil, []string{"free.yaml"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := converter(t, repo(c.files...), conversion.Options{})
			if diff := cmp.Diff([][]string{c.changed, c.held}, [][]string{slices.Sorted(maps.Keys(r.Files)), r.Skipped}); diff != "" {
				t.Errorf("files that change and that are held (-want +got):\n%s", diff)
			}
			for _, change := range r.Changes {
				if slices.Contains(c.held, change.Origin.File) && change.Grade != conversion.Manual {
					t.Errorf("told of a file that stays as it is: %s", change)
				}
			}
		})
	}
}

func TestAReviewThatAnEarlierReleaseRequiredIsStillRequired(t *testing.T) {
	for _, comment := range []string{"# poolwright convert, to decide: ", "# poolwright.dev/review-required: "} {
		r := converter(t, repo("a.yaml", comment+"NodePool/a: budgets\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: karpenter}\n"), conversion.Options{})
		if len(r.Changes) != 1 || r.Changes[0].Grade != conversion.Manual || r.Changes[0].Origin.Line != 1 {
			t.Errorf("%s: %v", comment, r.Changes)
		}
	}
}

func TestACommentThatRequiresAReviewIsOneLineWhateverAnObjectIsCalled(t *testing.T) {
	object := strings.Replace(betaPool+betaRef, "name: p", `name: "a\nkind: Secret\u2028x"`, 1) + "  disruption: {budgets: [{nodes: \"1\"}]}\n"
	for end, text := range map[string]string{"\n": object, "\r\n": strings.ReplaceAll(object, "\n", "\r\n")} {
		before := repo("a.yaml", text)
		r := converter(t, before, conversion.Options{})
		first, _, _ := strings.Cut(string(r.Files["a.yaml"]), "apiVersion")
		if want := "# poolwright.dev/review-required: NodePool/a kind: Secret x: budgets no longer"; !strings.HasPrefix(first, want) || strings.Count(first, end) != 1 {
			t.Errorf("%q", first)
		}
		unchangedBySecond(t, before, r)
	}
}
