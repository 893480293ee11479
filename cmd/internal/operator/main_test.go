package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/poolwright/poolwright/cmd/internal/child"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// TestMain runs as the child where the test binary was started as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "child" {
		err := child.Confine(os.Args[3], os.Args[4])
		if err == nil {
			err = child.Serve(context.Background(), os.Args[2], os.Stdin, os.Stdout)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "Error:", err)
			os.Exit(2)
		}
		os.Exit(0)
	}
	// As DirectClient does, so that no test depends on another one's having made a client.
	if err := errors.Join(v1alpha1.AddToScheme(scheme.Scheme), apiextensionsv1.AddToScheme(scheme.Scheme)); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}
