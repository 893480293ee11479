package examples_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// promoted is the example of the page: a change as a component of its own.
var promoted = regexp.MustCompile("(?s)```yaml\n# (changes/[^\n]+)\n(.*?)```")

// Each pull request of a promotion changes one cluster, and the last one none: it
// moves into the base what all have already.
func TestAChangeOfPikselIsPromotedOneClusterAtATime(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("piksel", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	example := promoted.FindStringSubmatch(string(page))
	if example == nil {
		t.Fatal("the page has no example of a change")
	}
	all := files(t, "piksel")
	for name := range all {
		if strings.HasPrefix(name, "changes/") {
			t.Errorf("%s is on its way: the clusters are not the same", name)
		}
	}
	all[example[1]] = &fstest.MapFile{Data: []byte(example[2])}

	environments := []string{"dev", "staging", "production"}
	folded := maps.Clone(all)
	for _, environment := range environments {
		kustomization := "clusters/" + environment + "/kustomization.yaml"
		after := maps.Clone(all)
		after[kustomization] = &fstest.MapFile{Data: append(slices.Clone(all[kustomization].Data), "  - ../../"+filepath.Dir(example[1])+"\n"...)}
		if got := changed(t, environments, all, after); !slices.Equal(got, []string{environment}) {
			t.Errorf("the pull request for %s changes %q", environment, got)
		}
		all = after
	}

	base := string(all["base/nodeclass.yaml"].Data)
	old, next := regexp.MustCompile(`al2023@v\d+`).FindString(base), regexp.MustCompile(`al2023@v\d+`).FindString(example[2])
	folded["base/nodeclass.yaml"] = &fstest.MapFile{Data: []byte(strings.Replace(base, old, next, 1))}
	delete(folded, example[1])
	if old == next || old == "" || next == "" {
		t.Errorf("the change is from %q to %q", old, next)
	}
	if got := changed(t, environments, all, folded); len(got) > 0 {
		t.Errorf("what moves the change into the base changes %q", got)
	}
}

// changed are the environments whose clusters get something else.
func changed(t *testing.T, environments []string, before, after fs.FS) (out []string) {
	t.Helper()
	for _, environment := range environments {
		if !cmp.Equal(objects(t, before, "clusters/"+environment), objects(t, after, "clusters/"+environment)) {
			out = append(out, environment)
		}
	}
	return out
}

// Nothing but names and ids of a cluster is different between environments.
func TestTheEnvironmentsOfPikselDifferInNamesOnly(t *testing.T) {
	all := files(t, "piksel")
	same := func(environment string) map[string]map[string]any {
		text := all["clusters/"+environment+"/cluster.yaml"]
		ids := regexp.MustCompile(`"\d{12}"|(subnet|sg)-0\w+`)
		plain := strings.ReplaceAll(ids.ReplaceAllString(string(text.Data), "subnet-0"), environment, "dev")
		one := maps.Clone(all)
		one["clusters/"+environment+"/cluster.yaml"] = &fstest.MapFile{Data: []byte(plain)}
		return objects(t, one, "clusters/"+environment)
	}
	for _, environment := range []string{"staging", "production"} {
		if diff := cmp.Diff(same("dev"), same(environment)); diff != "" {
			t.Errorf("clusters/%s (-dev +%s):\n%s", environment, environment, diff)
		}
	}
}
