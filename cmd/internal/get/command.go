// Package get makes the command get, which prints what a cluster's objects have of its node pools: what
// they cost, how many of their GPUs are requested, and what differs from the repository.
//
// It refuses to write anything, to read a Secret, and to connect to AWS, Git or a forge; a price that
// is not known is never zero. What the user may not read is left out, and named. Start reading at Of,
// which is a function of the objects and the time.
package get

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/connect"
	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/provision/catalog"
)

// requestTimeout bounds each request.
const requestTimeout = 30 * time.Second

// Environment is what the commands have of the command line that they are part of.
type Environment struct {
	// Config loads the configuration of the cluster that the flags name.
	Config func() (*rest.Config, error)
	// Namespace is that of the flags.
	Namespace func() string
	// Out is for results, Err for everything else.
	Out, Err io.Writer
	// Now is the time.
	Now func() time.Time
}

// flags are the input of get.
type flags struct {
	output        string
	allNamespaces bool
}

// NewCommand makes the command get, without the flags of a connection.
func NewCommand(env Environment) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "get [" + names("|") + "]",
		Short: "Print pools, nodes, Syncs, pull requests, drift and quotas of a cluster",
		Long: `Print what the cluster's objects have of node pools: what they cost, how many of their GPUs are requested, and
what differs from the repository. Without an argument it prints all in short: of nodes those that are not ready, have drifted,
are cordoned or must not be disrupted, of pull requests those that are not done.

GPUs are counted as pods request them: where a DevicePlugin shares them, shares. Prices are those of the built-in catalog, of
instances only; spot is a range, and - is a price or number that is not known.

It reads the API server only. What you have no right to read is left out, and named on standard error.`,
		Example: "  poolwright get\n  poolwright get pools\n  poolwright get nodes -o wide\n  poolwright get syncs -A -o json",
		Args: func(_ *cobra.Command, args []string) error {
			_, err := sectionOf(args)
			return err
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return strings.Split(names(" "), " "), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := sectionOf(args)
			if err != nil {
				return err
			}
			if err := f.check(s); err != nil {
				return err
			}
			return f.run(cmd.Context(), env, s)
		},
	}
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "wide, json, yaml or name (default: a table)")
	cmd.Flags().BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "read the Syncs of all namespaces")
	return cmd
}

// names are those of the sections.
func names(separator string) string {
	var out []string
	for _, s := range sections() {
		out = append(out, string(s))
	}
	return strings.Join(out, separator)
}

// sectionOf is the section that the arguments name.
func sectionOf(args []string) (sectionName, error) {
	switch {
	case len(args) == 0:
		return sectionAll, nil
	case len(args) > 1:
		return sectionAll, fmt.Errorf("get takes one argument, and got %d: %s", len(args), strings.Join(args, " "))
	}
	s := sectionName(strings.ToLower(args[0]))
	if other, found := synonyms()[s]; found {
		s = other
	}
	if !slices.Contains(sections(), s) {
		return sectionAll, fmt.Errorf("%q is not one of %s", args[0], names(", "))
	}
	return s, nil
}

// synonyms are other names of sections: singulars, and those that kubectl takes.
func synonyms() map[sectionName]sectionName {
	return map[sectionName]sectionName{
		"pool": sectionPools, "nodepool": sectionPools, "nodepools": sectionPools, "node": sectionNodes, "no": sectionNodes, "sync": sectionSyncs,
		"pull": sectionPulls, "pr": sectionPulls, "prs": sectionPulls, "pullrequest": sectionPulls, "pullrequests": sectionPulls, "quotas": sectionQuota,
	}
}

func (f *flags) check(s sectionName) error {
	switch {
	case f.output != "" && !slices.Contains(Outputs(), f.output):
		return fmt.Errorf("-o %q is not one of %s", f.output, strings.Join(Outputs(), ", "))
	case f.output == "name" && s != sectionAll && !slices.Contains(nameable(), s):
		return fmt.Errorf("-o name prints objects of the cluster, and %s are none: choose syncs, pools or nodes", s)
	}
	return nil
}

func (f *flags) run(ctx context.Context, env Environment, s sectionName) error {
	kube, err := connectTo(env)
	if err != nil {
		return err
	}
	types, err := catalog.Load()
	if err != nil {
		return err
	}
	namespace := env.Namespace()
	if f.allNamespaces {
		namespace = ""
	}
	o, err := read(ctx, kube, s, namespace)
	if err != nil {
		return err
	}
	r := Of(o, env.Now(), types)
	if err := r.write(env.Out, s, f.output, f.allNamespaces); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return reportUnread(env.Err, r, s, namespace)
}

// connectTo returns a client whose every request is bounded.
func connectTo(env Environment) (client.Client, error) {
	cfg, err := env.Config()
	if err != nil {
		return nil, err
	}
	installation.DiscardLogs()
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = requestTimeout
	return connect.DirectClient(cfg)
}

// reportUnread names what was not read, and what was read and is empty. It is an error where nothing
// of the section could be read.
func reportUnread(w io.Writer, r Report, s sectionName, namespace string) error {
	required := map[sectionName]string{
		sectionSyncs: kindSyncs, sectionPulls: kindSyncs, sectionDrift: kindSyncs, sectionPools: kindPools, sectionNodes: kindClaims, sectionQuota: kindClusters,
	}[s]
	for _, u := range r.Unread {
		if u.Kind == required && u.Reason != TooMany {
			return errors.New(u.Message)
		}
		fmt.Fprintln(w, "Warning: "+u.Message)
	}
	if len(r.Unread) == len(readers(s, namespace)) {
		return errors.New("nothing could be read")
	}
	if s != sectionAll && len(r.tableOf(s, false).Rows) == 0 {
		where := ""
		if namespace != "" && (s == sectionSyncs || s == sectionPulls || s == sectionDrift) {
			where = " in namespace " + namespace
		}
		fmt.Fprintf(w, "No %s found%s.\n", s, where)
	}
	return nil
}
