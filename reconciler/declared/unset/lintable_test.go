package unset

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// counting counts how many bytes of a tree are read.
type counting struct {
	fstest.MapFS
	read *int
}

func (c counting) ReadFile(name string) ([]byte, error) {
	b, err := c.MapFS.ReadFile(name)
	*c.read += len(b)
	return b, err
}

// TestLittleOfAProposalIsReadInTheController is about the one place where the controller
// reads files of a proposal itself, to leave out findings about fields that hold a
// variable without a value.
func TestLittleOfAProposalIsReadInTheController(t *testing.T) {
	const written = "apiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata: {name: a}\nspec:\n  role: ${AMI}\n"
	for name, c := range map[string]struct {
		files int
		size  int
		left  int
		most  int
	}{
		"a small file is read, once":          {1, len(written), 0, len(written)},
		"a large one is not":                  {1, 1 << 20, 3, 0},
		"of many, as many as the bytes allow": {64, 200 << 10, 3 * 54, 3 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			files, found := fstest.MapFS{}, []state.Problem{}
			for i := range c.files {
				file := strings.Repeat("a", i+1) + ".yaml"
				files[file] = &fstest.MapFile{Data: []byte(written + strings.Repeat("#", c.size-len(written)))}
				for range 3 {
					found = append(found, state.Problem{Origin: state.Origin{File: file, Line: 1}, Field: "spec.role", Message: "AWSNodeTemplate/a: spec.role: must be converted"})
				}
			}
			left := Variables{Parameters: variables.Unknown{"AMI": "x"}}.LintableIn(state.Set{}, counting{files, &n}, found)
			if len(left) != c.left || n > c.most {
				t.Errorf("%d findings are left, not %d; %d bytes were read, not at most %d", len(left), c.left, n, c.most)
			}
		})
	}
}

// What a finding is about is data: its message may have any form.
func TestAFindingIsAboutItsObjectAndField(t *testing.T) {
	item := state.Item{
		Key:    state.Key{Target: "kubernetes", Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "role"},
		Origin: state.Origin{File: "a.yaml", Line: 1},
		Object: map[string]any{"spec": map[string]any{"role": "${AMI}", "family": "AL2023"}},
	}
	for name, c := range map[string]struct {
		found state.Problem
		left  int
	}{
		"of a field that holds the variable":        {state.Problem{Origin: item.Origin, Object: item.Key, Field: "spec.role", Detail: "is too short"}, 0},
		"of another field":                          {state.Problem{Origin: item.Origin, Object: item.Key, Field: "spec.family", Detail: "is too short"}, 1},
		"of the object, whose rule reads the field": {state.Problem{Origin: item.Origin, Object: item.Key, Rule: true, RuleFields: "role"}, 0},
		"of the object, whose rule reads another":   {state.Problem{Origin: item.Origin, Object: item.Key, Rule: true, RuleFields: "family", Detail: "role must be short"}, 1},
		"of the object, whose rule reads no value":  {state.Problem{Origin: item.Origin, Object: item.Key, Rule: true, Detail: "role must be short"}, 1},
		"of the field, whose rule reads its value":  {state.Problem{Origin: item.Origin, Object: item.Key, Field: "spec.role", Rule: true, RuleFields: "self"}, 0},
		"of the object, without a rule":             {state.Problem{Origin: item.Origin, Object: item.Key, Detail: "role must be short"}, 1},
		"of no object":                              {state.Problem{Origin: item.Origin, Detail: "role must be short"}, 1},
		"of the object as another file declares it": {state.Problem{Origin: state.Origin{File: "b.yaml", Line: 1}, Object: item.Key, Field: "spec.role", Detail: "is too short"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			unread := Variables{Parameters: variables.Unknown{"AMI": "x"}}
			if left := unread.LintableIn(state.NewSet(item), fstest.MapFS{}, []state.Problem{c.found}); len(left) != c.left {
				t.Errorf("%d findings are left, want %d", len(left), c.left)
			}
		})
	}
}
