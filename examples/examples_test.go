// Package examples_test renders every example and holds it against a golden
// plan: what a fresh cluster would get from it.
package examples_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/gitsource/dir"
	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/declared/substitute/fluxexpr"
	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/state"
)

func TestEveryClusterOfEveryExamplePlansAsItsGolden(t *testing.T) {
	folders, err := filepath.Glob("*/clusters/*")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Glob("*/README.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(examples) == 0 || len(folders) < len(examples) {
		t.Fatalf("%d examples have %d clusters: each needs a folder clusters/<name>", len(examples), len(folders))
	}
	for _, folder := range folders {
		t.Run(folder, func(t *testing.T) { compare(t, folder) })
	}
}

func compare(t *testing.T, folder string) {
	repository := filepath.Dir(filepath.Dir(folder))
	path, err := filepath.Rel(repository, folder)
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := dir.New(repository, dir.Limits{}).Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d, err := declared.Load(snapshot.FS, filepath.ToSlash(path), declared.Options{Values: variables(t, repository)})
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range d.Problems {
		t.Errorf("the example has a problem: %s", problem)
	}
	desired, problems := deviceplugin.Expand(d.Set)
	for _, problem := range problems {
		t.Errorf("the example has a problem: %s", problem)
	}
	for _, item := range desired.Items() {
		if text := fmt.Sprint(item.Object); strings.Contains(text, "${") {
			t.Errorf("%s has a variable without a value: %s", item.Key, text)
		}
	}
	var got bytes.Buffer
	fresh := plan.Compute(desired, state.Set{})
	if err := report.New(fresh, d.Problems).Text(&got, report.Options{Lines: -1}); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, filepath.Join("testdata", repository, filepath.Base(folder)+".txt"), got.Bytes())
}

// images are the values of SSM parameters that are taken for AWS's newest.
func images() map[string]string {
	const al2023 = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/"
	return map[string]string{
		al2023 + "standard/recommended/image_id": "ami-0a1b2c3d4e5f60001",
		al2023 + "nvidia/recommended/image_id":   "ami-0a1b2c3d4e5f60002",
	}
}

// variables are those of the Sync beside the clusters, where there is one.
func variables(t *testing.T, repository string) substitute.Values {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "sync.yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return substitute.Values{}
	}
	var sync v1alpha1.Sync
	if err := errors.Join(err, yaml.UnmarshalStrict(text, &sync)); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, from := range sync.Spec.SubstituteFrom {
		image, known := images()[from.Name]
		if !known || from.Kind != v1alpha1.SubstituteSSMParameter {
			t.Fatalf("nobody here knows %s %s; give it a value in images", from.Kind, from.Name)
		}
		values[from.Variable] = image
	}
	out, err := substitute.NewValues(fluxexpr.Parse, nil, substitute.Public("SSM", values), substitute.Public("spec.substitute", sync.Spec.Substitute))
	if err != nil {
		t.Fatal(err)
	}
	return out
}
