package collector

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// server reaches the API server that all tests of this package share.
var server client.Client

func TestMain(m *testing.M) {
	flag.Parse()
	if err := v1alpha1.AddToScheme(scheme.Scheme); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	log.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	config := sandbox.DefaultConfig()
	config.WithoutGit, config.Progress = true, os.Stderr
	environment, err := sandbox.Start(ctx, config)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = environment.Stop() }()
	if _, err := envtest.InstallCRDs(environment.REST(), envtest.CRDInstallOptions{CRDs: awsapis.CRDs}); err != nil {
		fmt.Fprintln(os.Stderr, "installing Karpenter's definitions:", err)
		return 1
	}
	if server, err = client.New(environment.REST(), client.Options{Scheme: scheme.Scheme}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
