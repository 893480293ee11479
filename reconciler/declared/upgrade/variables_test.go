package upgrade

import (
	"strings"
	"testing"
	"testing/fstest"
)

const variablePool = `# a pool
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata:
  name: ${POOL}   # per cluster
spec:
  weight: ${WEIGHT}
  disruption:
    consolidationPolicy: ${POLICY}
    expireAfter: ${EXPIRE:=168h}
  template:
    spec:
      nodeClassRef: {name: "${CLASS}"}
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: ["${KIND}"]}
`

func TestVariablesStayAsTheyAreWritten(t *testing.T) {
	done, err := Files(fstest.MapFS{"a.yaml": {Data: []byte(variablePool)}}, ".", Options{})
	if err != nil {
		t.Fatal(err)
	}
	after := string(done.Files["a.yaml"])
	for _, kept := range []string{"# a pool", "name: ${POOL}   # per cluster", "weight: ${WEIGHT}", "consolidationPolicy: ${POLICY}", "expireAfter: ${EXPIRE:=168h}", "${CLASS}", `"${KIND}"`, "apiVersion: karpenter.sh/v1\n"} {
		if !strings.Contains(after, kept) {
			t.Errorf("%q is not in what was written", kept)
		}
	}
	told := ""
	for _, c := range done.Changes {
		if c.Grade == Person {
			told += c.String() + "\n"
		}
		if c.Blocks {
			t.Errorf("this blocks: %s", c)
		}
	}
	if want := "a.yaml:9: person: NodePool/${POOL}: ${POLICY} is kept as it is written"; !strings.Contains(told, want) {
		t.Errorf("what a person is told: %s", told)
	}
	again, err := Files(fstest.MapFS{"a.yaml": {Data: []byte(after)}}, ".", Options{})
	if err != nil || len(again.Files) > 0 {
		t.Errorf("a second upgrade changes %d files, %v", len(again.Files), err)
	}
}
