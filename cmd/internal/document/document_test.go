package document

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestADocumentHasItsVersionAndKindFirst(t *testing.T) {
	for name, test := range map[string]struct {
		format string
		value  any
		want   string
	}{
		"JSON":                    {"json", struct{ B, A string }{"<b>", "a"}, "{\n  \"apiVersion\": \"report.poolwright.dev/v1alpha1\",\n  \"kind\": \"Findings\",\n  \"B\": \"<b>\",\n  \"A\": \"a\"\n}\n"},
		"an object without field": {"json", struct{}{}, "{\n  \"apiVersion\": \"report.poolwright.dev/v1alpha1\",\n  \"kind\": \"Findings\"\n}\n"},
		"YAML":                    {"yaml", struct{ A string }{"a\nb"}, "A: |-\n  a\n  b\napiVersion: report.poolwright.dev/v1alpha1\nkind: Findings\n"},
		"YAML with an escape that a terminal acts on": {"yaml", struct{ A string }{"a\u202eb"}, "A: a\ufffdb\napiVersion: report.poolwright.dev/v1alpha1\nkind: Findings\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if err := Value(&out, test.format, Findings, test.value); err != nil {
				t.Fatal(err)
			}
			if out.String() != test.want {
				t.Errorf("got %q, want %q", out.String(), test.want)
			}
		})
	}
}

func TestWhatIsNoObjectIsNoDocument(t *testing.T) {
	if err := Value(io.Discard, "json", Plan, []string{"a"}); err == nil {
		t.Error("a list was written")
	}
	failed := errors.New("no room")
	if err := Write(io.Discard, "json", Plan, func(io.Writer) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
}

func TestNamesAreThoseThatKubectlTakes(t *testing.T) {
	objects := []ObjectName{{APIVersion: "karpenter.sh/v1", Kind: "NodePool", Name: "gpu"}, {APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "a"}}
	var out strings.Builder
	if err := WriteNames(&out, objects); err != nil || out.String() != "nodepool.karpenter.sh/gpu\nconfigmap/a\n" {
		t.Errorf("got %q, %v", out.String(), err)
	}
	if err := WriteNames(&out, []ObjectName{{Name: "a"}}); err == nil {
		t.Error("an object without a kind has a name")
	}
}
