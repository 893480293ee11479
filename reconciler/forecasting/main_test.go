package forecasting

import (
	"fmt"
	"os"
	"testing"

	"k8s.io/client-go/kubernetes/scheme"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// TestMain registers our kinds where Karpenter's packages have registered theirs.
func TestMain(m *testing.M) {
	if err := v1alpha1.AddToScheme(scheme.Scheme); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
