package provision_test

import (
	"encoding/json"
	"fmt"

	"github.com/poolwright/poolwright/provision"
)

// A forecast in JSON has what it leaves open as data.
func ExampleUnknown() {
	out, err := json.Marshal([]provision.Unknown{
		{Text: "EC2NodeClass gpu: spec.amiSelectorTerms changes.", Drift: true},
		{Text: "Region eu-west-1: the catalog has no prices of it."},
	})
	fmt.Println(string(out), err)
	// Output: [{"text":"EC2NodeClass gpu: spec.amiSelectorTerms changes.","drift":true},{"text":"Region eu-west-1: the catalog has no prices of it."}] <nil>
}
