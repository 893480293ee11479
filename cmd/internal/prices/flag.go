package prices

import (
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Flag is the flag that names where a command reads prices and offerings.
type Flag struct{ value string }

// AddTo adds it to the flags of a command, with what the command reads without it.
func (f *Flag) AddTo(flags *pflag.FlagSet, byDefault string) {
	flags.StringVar(&f.value, "prices", "", `where prices and offerings are read: "aws" for the account, "cluster" for the ConfigMap `+
		`poolwright-price-list of a controller, or a file with that ConfigMap (default: `+byDefault+")")
}

// Source is the one that the flag names; nil for the shipped catalog. The cluster is connected to only where the
// flag requires it. It is an error where the value is none of the names, nor that of a file.
func (f *Flag) Source(cluster func() (client.WithWatch, error), namespace string, progress io.Writer) (*Source, error) {
	out := &Source{Namespace: namespace, Progress: progress, Required: true}
	switch f.value {
	case "":
		return nil, nil
	case "aws":
		out.Account = true
	case "cluster":
		live, err := cluster()
		if err != nil {
			return nil, err
		}
		out.Cluster = live
	default:
		if found, err := os.Stat(f.value); err != nil || found.IsDir() {
			return nil, fmt.Errorf(`--prices %q is neither "aws" nor "cluster", nor a file that can be read`, f.value)
		}
		out.File = f.value
	}
	return out, nil
}

// SourceFor is Source for a command that connects to no cluster by itself: where the flag is not given, and the user named a
// cluster by a flag of kubectl, it reads that cluster's ConfigMap, and what this lacks is the shipped catalog's.
func (f *Flag) SourceFor(flags *pflag.FlagSet, cluster func() (client.WithWatch, error), namespace string, progress io.Writer) (*Source, error) {
	if f.value != "" || !slices.ContainsFunc([]string{"kubeconfig", "context", "cluster", "server"}, flags.Changed) {
		return f.Source(cluster, namespace, progress)
	}
	live, err := cluster()
	if err != nil {
		return nil, err
	}
	return &Source{Cluster: live, Namespace: namespace, Progress: progress}, nil
}

// Offline reports whether the flag requires no request.
func (f *Flag) Offline() bool { return f.value != "aws" && f.value != "cluster" }
