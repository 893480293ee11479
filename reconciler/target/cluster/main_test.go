package cluster_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// server is the API server that all tests of this package share; each test
// has a Sync and namespaces of its own.
var server *rest.Config

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	env := &envtest.Environment{BinaryAssetsDirectory: os.Getenv("KUBEBUILDER_ASSETS"), CRDs: awsapis.CRDs}
	var err error
	if server, err = env.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "starting an API server:", err)
		return 1
	}
	defer func() { _ = env.Stop() }()
	return m.Run()
}
