package crd

import (
	"io/fs"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/reconciler/state"
)

// digests are the definitions' contents by serial. When a CRD changes, add a line
// and raise Serial: an old replica must know that the new CRD is newer.
func digests() map[int]string {
	return map[int]string{
		1:  "9ec0bde82c7ee2632425fa4eb6ccaa26",
		2:  "ebb70e44090f98a01ca147a4d152194b",
		3:  "5db8b6ae6196b9f4afb7f7485f5fd10d",
		4:  "b491980879c9e5520d455e3271bee4da",
		5:  "a79ba06d8194bd898683a6cc856d7537",
		6:  "2453fd97a5e6c424949bc7547100b87f",
		7:  "4315b1ee84a76d68ef830b8cfdf75e8f",
		8:  "afa78b4da75ff2155ad926b7bd7697bc",
		9:  "708370ace0ca0fe1bd2b03492bee49ac",
		10: "6c78ef7aa5ac38a59ede89606ac70afc",
		11: "3e29ae6d9a0ea9cc0fd0200c39d497d7",
		12: "ee267e64a3b7cd05d35706627fcde8e7",
		13: "93e33a4177aadee533c317baf9856f86",
		14: "1c039bc03ea5792656cdb419a7dfe12a",
		15: "479c847b9f2a032466771541e418cc3b",
		16: "8766f18fa667df289945767591cb2a1e",
		17: "de716476b47206667f6a5b46e1a36f53",
		18: "d7be7edea4beb6af9026c35f8b533b89",
		19: "dc8222d4c27a0a861a527a9ec9d01807",
		20: "b5997c7f763fda5a55991544819740f0",
		21: "a5690e6a51a7082b08f28d5519b69cdf",
		22: "dc4409f30213a957053acaf5cccff20e",
		23: "88fdca0b74dfbc0f5424f24e0366919e",
		24: "f14d64bb9d78124404f000cab699b5eb",
		25: "275bf6c8c444312449a7bb4fd11474c4",
		26: "10c6b3001f35f618f4d7ee921cf713f3",
		27: "c7f10702dcab43191d0b56a6b4bbfb3a",
		28: "5836eca86ecc67d7d3c9975f9d60c1db",
		29: "856c48b1a78814119f13085c26325641",
		30: "2d14dbf7ff632033f512eec80627963f",
		31: "0fe47a41d6c6170a77f1730d7d961dbf",
		32: "a7a604d6e6d37b75a65d111e4f5f5e8d",
		33: "c0555872e18bb4333cf26476c7e048d0",
		34: "1c3bc7f20d1cbd442e01c919668003bf",
		35: "1f52c3f94ab34258e3d4f1843f278233",
		36: "c8d3c6d4d57291780509b949aebe6eff",
		37: "7953d27e61ad0a8bdc23a6cc043a3c03",
		38: "af7eb17cf2f060ec4c156b9471d848dc",
		39: "e91e0f88293ec54903f7374bc562d5af",
		40: "0c5e0c6ee4f9c29a85e08557f9b4a04f",
		41: "f4121aafcd4d330c79b8b6b5067ccfd9",
	}
}

func TestTheSerialGrowsWithEveryChangeOfOurCRDs(t *testing.T) {
	files, err := fs.Glob(Files, "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, name := range files {
		raw, err := Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, name, string(raw))
	}
	if diff := cmp.Diff(digests()[Serial], state.Hash(all)); diff != "" {
		t.Errorf("config/crd changed: raise Serial and note the digest (-noted +is):\n%s", diff)
	}
	if len(digests()) != Serial {
		t.Errorf("%d digests for serial %d", len(digests()), Serial)
	}
}

func TestAListOfSyncsShowsWhichAreSuspended(t *testing.T) {
	raw, err := Files.ReadFile("poolwright.dev_syncs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var sync apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(raw, &sync); err != nil {
		t.Fatal(err)
	}
	columns := sync.Spec.Versions[0].AdditionalPrinterColumns
	if !slices.Contains(columns, apiextensionsv1.CustomResourceColumnDefinition{Name: "Suspended", Type: "boolean", JSONPath: ".spec.suspend"}) {
		t.Errorf("the columns are %+v", columns)
	}
}
