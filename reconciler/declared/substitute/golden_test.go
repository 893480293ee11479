package substitute_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
)

func TestTheManifestsOfASetUpAreAsTheirGoldenFile(t *testing.T) {
	v := values(t, map[string]string{
		"CLUSTER_NAME": "gpu-sharing", "AMD_AMI_ID": "ami-0a1b2c3d4e5f60718", "GPU_AMI_ID": "ami-08171605f4e3d2c1b",
		"GPU_WEIGHT": "10", "CLUSTER_NUMBER": "007", "quote": `"`, "GPU_TYPES": "[g4dn.xlarge, g4dn.12xlarge]",
	}, substitute.Secret("Secret poolwright-system/variables", map[string][]byte{"HF_TOKEN": []byte("hf_golden\n"), "USER_NAME": []byte("karpenter")}))
	in, err := os.ReadFile("testdata/timeslicing/in.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects, documents := read(t, string(in))
	out, found, err := substitute.Apply(objects, v, substitute.Options{Strict: true, Documents: documents})
	if err != nil || len(found) > 0 {
		t.Fatal(found, err)
	}
	var b strings.Builder
	for _, o := range out {
		fmt.Fprintf(&b, "# from line %d\n%s", o.Origin.Line, yamlOf(t, substitute.Mask(o.Object)))
	}
	b.WriteString("# as sent\n")
	sent, err := substitute.Reveal(out[len(out)-1].Object, v)
	if err != nil {
		t.Fatal(err)
	}
	b.WriteString(yamlOf(t, sent))
	golden.Compare(t, "testdata/timeslicing/golden.yaml", b.String())
}
