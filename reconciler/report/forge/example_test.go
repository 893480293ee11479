package forge_test

import (
	"fmt"

	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// The head of a pull request can be fetched by this reference from every forge.
func ExamplePullRequest_Ref() {
	fmt.Println(forge.PullRequest{Number: 12}.Ref())
	// Output: refs/pull/12/head
}
