// Command controlplane is the Kubernetes control plane of the sandbox in one
// file: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and
// kubectl, unchanged, from their Go modules. One binary shares its code pages
// and links once instead of five times.
//
// The component is the name that it is called by, as in busybox, or the first
// argument. Any other name is an error. It is a module of its own because
// these releases pin dependencies that do not belong in the product.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	_ "time/tzdata" // CronJobs name time zones; a small host may have no zone files

	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // exec and token plugins in a user's kubeconfig
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	os.Exit(run(os.Stderr))
}

// run runs the component that os.Args names and returns the exit code. The components read
// os.Args themselves, so it is put into the shape that their own main functions would
// get.
func run(stderr io.Writer) int {
	name := filepath.Base(os.Args[0])
	component, known := components()[name]
	if !known && len(os.Args) > 1 {
		name = os.Args[1]
		if component, known = components()[name]; known {
			os.Args = os.Args[1:]
		}
	}
	if !known {
		fmt.Fprintf(stderr, "controlplane: %q is no component of the control plane: call it as, or with first argument, one of %s\n",
			name, strings.Join(names(), ", "))
		return 2
	}
	return component()
}

func names() []string {
	return []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"}
}

func components() map[string]func() int {
	return map[string]func() int{
		"etcd":                    runEtcd,
		"kube-apiserver":          runAPIServer,
		"kube-controller-manager": func() int { return cli.Run(manager.NewControllerManagerCommand()) },
		"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
		"kubectl":                 runKubectl,
	}
}

// runEtcd returns only when etcd was stopped in order: it exits by itself on
// an error.
func runEtcd() int {
	etcdmain.Main(os.Args)
	return 0
}

// runKubectl leaves the printing of errors to kubectl's own rules (wording,
// exit codes of `diff` and of plugins); CheckErr exits.
func runKubectl() int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
	return 0
}
