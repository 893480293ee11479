package monitoring

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestARecordingHasWhatQueriesSelectAndPricesOfTheTypesThatNodesHave(t *testing.T) {
	const price = `karpenter_cloudprovider_instance_type_offering_price_estimate{instance_type=`
	var recording Recording
	for _, scrape := range []string{
		"# HELP up Whether it is.\nup 1\nother 2\n" + price + "\"g4dn.xlarge\"} 0.5\n" + price + "\"p5.48xlarge\"} 98\n" + price + "\"instance\"} 1\n" +
			"karpenter_nodes_allocatable{instance_type=\"g4dn.xlarge\",node_name=\"a\"} 4\nkarpenter_pods_state{instance_type=\"p5.48xlarge\"} 1\n",
		"up 1e+06\n",
		"up 1e+06\n" + price + "\"g4dn.xlarge\"} 0.5\n",
	} {
		if err := recording.Add([]byte(scrape)); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := recording.Write(&out, []Query{{Expr: "sum(up)"}, {Expr: "karpenter_cloudprovider_instance_type_offering_price_estimate * 2"}}); err != nil {
		t.Fatal(err)
	}
	want := `karpenter_cloudprovider_instance_type_offering_price_estimate{instance="10.0.0.1:8080",instance_type="g4dn.xlarge"} 0.5 stale 0.5
up{instance="10.0.0.1:8080"} 1 1000000x1
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
}
