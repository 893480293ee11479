// Package get makes the command get, which prints what a cluster's objects have of its node pools: what
// they cost, how many of their GPUs are requested, and what differs from the repository.
//
// It refuses to write anything, to read a Secret, and to connect to AWS, Git or a forge; prices are those that the controller has recorded,
// or the catalog's, and one that is not known is never zero. What the user may not read is left out, and named. Start reading at
// NewReport, which is a function of the objects and the time.
package get

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/connect"
	"github.com/poolwright/poolwright/cmd/internal/document"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/reconciler/history"
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
	watch         bool
}

// NewCommand makes the command get, without the flags of a connection.
func NewCommand(env Environment) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "get [" + names("|") + " [NAME...]]",
		Short: "Print pools, nodes, Syncs, pull requests, drift and quotas of a cluster",
		Long: `Print the state of node pools: cost, GPUs that are allocatable, requested and idle, and drift from the repository.
Without an argument it prints every section in short: nodes that are not ready, drifted, cordoned or annotated
do-not-disrupt, and pull requests that are not done.

GPUs are counted in the resources that pods request: shares, where a DevicePlugin shares them. Prices are of instances
only: of a node that the history has, the recorded one, and else from the built-in catalog. ~ marks those of another region and
the maximum of a spot price, a range the bounds of a spot price, and - a value that is not known.

It reads the API server only. Objects that you may not list are left out, and their kinds are
listed on standard error.`,
		Example: "  poolwright get\n  poolwright get pools gpu\n  poolwright get nodes -o wide\n  poolwright get nodes -w\n  poolwright get syncs -A -o json",
		Args: func(_ *cobra.Command, args []string) error {
			_, err := selectionOf(args)
			return err
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return f.complete(cmd.Context(), env, args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := selectionOf(args)
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
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "after the table, print each row that changes")
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

// rowSelection is what is to be printed.
type rowSelection struct {
	section sectionName
	// names are those of the rows; empty for all.
	names []string
}

// selectionOf is what the arguments select.
func selectionOf(args []string) (rowSelection, error) {
	if len(args) == 0 {
		return rowSelection{}, nil
	}
	s := sectionName(strings.ToLower(args[0]))
	if other, found := synonyms()[s]; found {
		s = other
	}
	switch {
	case !slices.Contains(sections(), s):
		return rowSelection{}, fmt.Errorf("%q is not one of %s", args[0], names(", "))
	case len(args) > 1 && !slices.Contains(nameable(), s):
		return rowSelection{}, fmt.Errorf("get %s takes no names, and got: %s", s, strings.Join(args[1:], " "))
	}
	return rowSelection{s, args[1:]}, nil
}

// synonyms are other names of sections: singulars, and those that kubectl takes.
func synonyms() map[sectionName]sectionName {
	return map[sectionName]sectionName{
		"pool": sectionPools, "nodepool": sectionPools, "nodepools": sectionPools, "node": sectionNodes, "no": sectionNodes, "sync": sectionSyncs,
		"pull": sectionPulls, "pulls": sectionPulls, "pr": sectionPulls, "prs": sectionPulls, "pullrequest": sectionPulls, "quotas": sectionQuota,
	}
}

func (f *flags) check(s rowSelection) error {
	if err := document.CheckFormat(f.output, Outputs()); f.output != "" && err != nil {
		return err
	}
	switch {
	case f.output == "name" && s.section != sectionAll && !slices.Contains(nameable(), s.section):
		return fmt.Errorf("-o name prints objects of the cluster, and %s are none: choose syncs, pools or nodes", s.section)
	case f.watch && s.section == sectionAll:
		return fmt.Errorf("--watch needs one of %s", names(", "))
	case f.watch && f.output != "" && f.output != "wide":
		return fmt.Errorf("--watch prints tables: leave -o %s out, or use -o wide", f.output)
	}
	return nil
}

// reportSource reads reports of a cluster.
type reportSource struct {
	kube  client.Reader
	types *catalog.Catalog
	now   func() time.Time
	// namespace is that of the Syncs, empty for all, and historyNamespace that of the history.
	namespace, historyNamespace string
	rowSelection
}

// source connects to the cluster.
func (f *flags) source(env Environment, s rowSelection) (reportSource, error) {
	out := reportSource{now: env.Now, historyNamespace: env.Namespace(), rowSelection: s}
	if !f.allNamespaces {
		out.namespace = env.Namespace()
	}
	var err error
	if out.types, err = catalog.Load(); err != nil {
		return out, err
	}
	out.kube, err = Connect(env)
	return out, err
}

// report reads the cluster, and leaves out what is not selected. Missing are the names that
// nothing has.
func (s reportSource) report(ctx context.Context) (r Report, missing []string, err error) {
	var recorded history.History
	var unread []IncompleteKind
	var group sync.WaitGroup
	if s.section.priced() {
		group.Go(func() { recorded, unread = readHistory(ctx, s.kube, s.historyNamespace) })
	}
	o, err := read(ctx, s.kube, s.section, s.namespace)
	group.Wait()
	if err != nil {
		return Report{}, nil, err
	}
	if s.section == sectionSyncs || s.section == sectionAll {
		var unknown []IncompleteKind
		o.Selectors, unknown = selectors(ctx, s.kube, o.Syncs)
		o.IncompleteKinds = append(o.IncompleteKinds, unknown...)
	}
	o.IncompleteKinds = append(o.IncompleteKinds, unread...)
	r = NewReport(o, s.now(), s.types).Priced(recorded)
	return r, r.choose(s.rowSelection), nil
}

func (f *flags) run(ctx context.Context, env Environment, s rowSelection) error {
	from, err := f.source(env, s)
	if err != nil {
		return err
	}
	if f.watch {
		return f.follow(ctx, env, from, time.After)
	}
	r, missing, err := from.report(ctx)
	if err != nil {
		return err
	}
	if err := r.write(env.Out, s.section, f.output, f.allNamespaces); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if err := reportUnread(env.Err, r, from); err != nil || len(missing) == 0 {
		return err
	}
	return fmt.Errorf("not found in %s: %s", s.section, strings.Join(missing, ", "))
}

// completionTimeout is how long a shell waits for names.
const completionTimeout = 3 * time.Second

// complete returns the names of sections, and behind one those of its rows; none where they cannot be read.
func (f *flags) complete(ctx context.Context, env Environment, args []string) []string {
	s, err := selectionOf(args)
	switch {
	case err != nil:
		return nil
	case len(args) == 0:
		return strings.Split(names(" "), " ")
	case !slices.Contains(nameable(), s.section):
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	from, err := f.source(env, rowSelection{section: s.section})
	if err != nil {
		return nil
	}
	r, _, err := from.report(ctx)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(r.rowNames(s.section), func(name string) bool { return slices.Contains(s.names, name) })
}

// Connect returns a client whose every request is bounded.
func Connect(env Environment) (client.Client, error) {
	cfg, err := env.Config()
	if err != nil {
		return nil, err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = requestTimeout
	return connect.DirectClient(cfg)
}

// reportUnread names what was not read, and what was read and is empty. It is an error where nothing
// of the section could be read.
func reportUnread(w io.Writer, r Report, from reportSource) error {
	s, namespace := from.section, from.namespace
	required := map[sectionName]string{
		sectionSyncs: kindSyncs, sectionPulls: kindSyncs, sectionDrift: kindSyncs, sectionPools: kindPools, sectionNodes: kindClaims, sectionQuota: kindClusters,
	}[s]
	for _, u := range r.IncompleteKinds {
		if u.Kind == required && u.Reason != tooMany {
			return errors.New(u.Message)
		}
		fmt.Fprintln(w, "Warning: "+u.Message)
	}
	unread := true
	for _, k := range readers(s, namespace) {
		unread = unread && !r.read(k.kind)
	}
	if unread {
		return errors.New("nothing could be read")
	}
	if s != sectionAll && len(from.names) == 0 && len(r.tableOf(s, false).Rows) == 0 {
		where := ""
		if namespace != "" && (s == sectionSyncs || s == sectionPulls || s == sectionDrift) {
			where = " in namespace " + namespace
		}
		fmt.Fprintf(w, "No %s found%s.\n", s, where)
	}
	return nil
}
