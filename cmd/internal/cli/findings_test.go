package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/internal/golden"
)

// folderWithFindings has a problem, and a warning, in a folder that is the current one.
func folderWithFindings(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for file, text := range map[string]string{
		"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: 1}\n",
		"b.yaml": "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\nspec:\n  limits:\n    gpu: 30\n  disruption: {consolidateAfter: 5m, budgets: [{nodes: 100%}]}\n  template:\n    spec:\n      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}\n      requirements:\n        - {key: node.kubernetes.io/instance-type, operator: In, values: [g5.xlarge]}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

func TestFindingsInEachFormat(t *testing.T) {
	for _, format := range lintFormats {
		t.Run(format, func(t *testing.T) {
			file, err := filepath.Abs("testdata/lint-" + format + ".golden")
			if err != nil {
				t.Fatal(err)
			}
			folderWithFindings(t)
			r := execute(t, "lint", "-o", format)
			if r.code != exitDifferent || !strings.Contains(r.err, "1 problem, 1 warning in .") {
				t.Errorf("exit %d, stderr %q", r.code, r.err)
			}
			golden.Compare(t, file, strings.ReplaceAll(r.out, `"`+readVersion().Version+`"`, `"VERSION"`))
		})
	}
}
