package kubernetes_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/poolwright/poolwright/provision/sandbox"
)

// server reaches the control plane that all tests of this package share; each
// test has a Sync and namespaces of its own.
var server *rest.Config

// sandboxed is the target that the control plane runs in.
var sandboxed *sandbox.Environment

func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	config := sandbox.DefaultConfig()
	config.WithoutGit, config.Progress = true, os.Stderr
	target, err := sandbox.Start(ctx, config)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = target.Stop() }()
	sandboxed, server = target, target.REST()
	if _, err := envtest.InstallCRDs(server, envtest.CRDInstallOptions{CRDs: awsapis.CRDs}); err != nil {
		fmt.Fprintln(os.Stderr, "installing Karpenter's definitions:", err)
		return 1
	}
	return m.Run()
}
