package engine

import (
	"errors"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func classWith(alias string) *awsv1.EC2NodeClass {
	return &awsv1.EC2NodeClass{Spec: awsv1.EC2NodeClassSpec{AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: alias}}}}
}

func TestInvalidAliasesAreReplaced(t *testing.T) {
	for _, test := range []struct {
		name, alias string
		want        awsv1.AMISelectorTerm
		family      string
		bad         bool
	}{
		{name: "a pinned alias stays", alias: "al2023@v20250505", want: awsv1.AMISelectorTerm{Alias: "al2023@v20250505"}, family: "AL2023"},
		{name: "the latest alias stays", alias: "bottlerocket@latest", want: awsv1.AMISelectorTerm{Alias: "bottlerocket@latest"}, family: "Bottlerocket"},
		{name: "a second @, which the CRD lets through, keeps the family", alias: "al2023@v1@v2", want: awsv1.AMISelectorTerm{ID: noImage}, family: "AL2023", bad: true},
		{name: "an alias without version finds no image", alias: "al2023", want: awsv1.AMISelectorTerm{ID: noImage}, family: "AL2023", bad: true},
		{name: "an unknown family finds no image", alias: "ubuntu@latest", want: awsv1.AMISelectorTerm{ID: noImage}, family: "Custom", bad: true},
		{name: "a family in capitals is unknown", alias: "AL2023@latest", want: awsv1.AMISelectorTerm{ID: noImage}, family: "Custom", bad: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			class := classWith(test.alias)
			bad := ReplaceInvalidAliases(class)
			if diff := cmp.Diff([]awsv1.AMISelectorTerm{test.want}, class.Spec.AMISelectorTerms); diff != "" {
				t.Error(diff)
			}
			if (len(bad) > 0) != test.bad {
				t.Errorf("told of %v", bad)
			}
			// Each of these ends the process for an alias that got through.
			if got := class.AMIFamily(); got != test.family {
				t.Errorf("the family is %s", got)
			}
			class.Alias()
			class.Hash(nil)
		})
	}
}

func TestATypingErrorReplacesNoNode(t *testing.T) {
	right, wrong := classWith("al2023@v20250505"), classWith("al2023@v20250505@")
	ReplaceInvalidAliases(wrong)
	if right.Hash(nil) != wrong.Hash(nil) {
		t.Error("the drift hash changed")
	}
}

func FuzzReplaceInvalidAliasesLeavesNothingThatEndsTheProcess(f *testing.F) {
	for _, seed := range []string{"", "al2", "al2@", "@", "al2023@a@b", "windows2022@latest", "@al2@", "AL2@x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, alias string) {
		class := classWith(alias)
		ReplaceInvalidAliases(class)
		class.Alias()
		class.AMIFamily()
		if again := ReplaceInvalidAliases(class); len(again) > 0 {
			t.Errorf("%q is not settled after once: %q", alias, again)
		}
	})
}

func TestTheCacheTransformReplacesInvalidQuantitiesAndReportsThem(t *testing.T) {
	var logged strings.Builder
	logger := funcr.New(func(_, args string) { logged.WriteString(args) }, funcr.Options{})
	transform := aliasTransform(logger, nil)
	class := classWith("al2@1@2")
	class.Name = "gpu"
	if _, err := transform(class); err != nil {
		t.Fatal(err)
	}
	if class.Alias() != nil || !strings.Contains(logged.String(), `"alias"="al2@1@2"`) || !strings.Contains(logged.String(), `"gpu"`) {
		t.Errorf("class %v, log %s", class.Spec.AMISelectorTerms, logged.String())
	}
	if pod, err := transform(&corev1.Pod{}); err != nil || pod == nil {
		t.Error("another kind did not pass")
	}
	broken := errors.New("broken")
	if _, err := aliasTransform(logger, func(any) (any, error) { return nil, broken })(class); !errors.Is(err, broken) {
		t.Error("the cache's own transform was skipped")
	}
}
