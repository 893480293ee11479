package provision_test

import (
	"encoding/json"
	"fmt"

	"github.com/poolwright/poolwright/provision"
)

// A forecast in JSON has what it leaves open as data.
func ExampleUnknown() {
	out, err := json.Marshal([]provision.Unknown{
		{Code: "AMISelectionUnknown", Object: "EC2NodeClass/gpu", Text: "EC2NodeClass gpu: spec.amiSelectorTerms changes.", MoreReplaced: true},
		{Code: "RegionWithoutPrices", Text: "Region eu-west-1: the catalog has no prices of it."},
	})
	fmt.Println(string(out), err)
	// Output: [{"code":"AMISelectionUnknown","object":"EC2NodeClass/gpu","text":"EC2NodeClass gpu: spec.amiSelectorTerms changes.","moreReplaced":true},{"code":"RegionWithoutPrices","text":"Region eu-west-1: the catalog has no prices of it."}] <nil>
}
