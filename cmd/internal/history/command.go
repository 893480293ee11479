// Package history makes the commands history and events, which print what the controller has recorded of a cluster: nodes with
// the causes at both ends, applies, drift, pull requests, and what GPUs cost.
//
// It refuses to write anything, and reads nothing but the ConfigMaps of the history. Start reading at NewCommand, which prints
// records, and at EventsOf, which makes events of them.
package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/poolwright/poolwright/cmd/internal/document"
	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/reconciler/history"
	"github.com/poolwright/poolwright/reconciler/history/store"
)

// Outputs are the values of -o of the command history, and EventOutputs those of events.
func Outputs() []string { return []string{"wide", "json", "yaml"} }

// EventOutputs are the values of -o of the command events.
func EventOutputs() []string { return document.Formats() }

// defaultSince is how far back is printed.
const defaultSince = 24 * time.Hour

// historySection names a part of the history that can be requested alone.
type historySection string

// The sections, in the order in which they are printed; the empty one is all of them.
const (
	sectionAll          historySection = ""
	sectionRevisions    historySection = "revisions"
	sectionDrift        historySection = "drift"
	sectionPullRequests historySection = "pullrequests"
	sectionNodes        historySection = "nodes"
	sectionCosts        historySection = "costs"
)

func sections() []historySection {
	return []historySection{sectionRevisions, sectionDrift, sectionPullRequests, sectionNodes, sectionCosts}
}

// synonyms are other names of sections: singulars, and those of the command get.
func synonyms() map[string]historySection {
	return map[string]historySection{
		"revision": sectionRevisions, "applies": sectionRevisions, "pull": sectionPullRequests, "pulls": sectionPullRequests, "pr": sectionPullRequests, "prs": sectionPullRequests, "pullrequest": sectionPullRequests,
		"node": sectionNodes, "no": sectionNodes, "nodeclaim": sectionNodes, "nodeclaims": sectionNodes, "cost": sectionCosts, "pools": sectionCosts,
	}
}

func sectionNames(separator string) string {
	var out []string
	for _, s := range sections() {
		out = append(out, string(s))
	}
	return strings.Join(out, separator)
}

// sectionOf is the section that the arguments name.
func sectionOf(args []string) (historySection, error) {
	switch {
	case len(args) == 0:
		return sectionAll, nil
	case len(args) > 1:
		return "", fmt.Errorf("history takes one of %s, and got %d arguments", sectionNames(", "), len(args))
	}
	name := strings.ToLower(args[0])
	if s, found := synonyms()[name]; found {
		return s, nil
	}
	if !slices.Contains(sections(), historySection(name)) {
		return "", fmt.Errorf("%q is not one of %s", args[0], sectionNames(", "))
	}
	return historySection(name), nil
}

// printFlags are the input of both commands.
type printFlags struct {
	output string
	since  time.Duration
	pool   string
	of     string
	watch  bool
}

func (f *printFlags) add(cmd *cobra.Command, outputs []string) {
	cmd.Flags().StringVarP(&f.output, "output", "o", "", strings.Join(outputs[:len(outputs)-1], ", ")+" or "+outputs[len(outputs)-1]+" (default: a table)")
	cmd.Flags().DurationVar(&f.since, "since", defaultSince, "print what is newer than this; 0 for all that is recorded")
}

func (f *printFlags) check(outputs []string) error {
	if err := document.CheckFormat(f.output, outputs); f.output != "" && err != nil {
		return err
	}
	if f.since < 0 {
		return fmt.Errorf("--since %s is negative", f.since)
	}
	return nil
}

// NewCommand makes the command history, without the flags of a connection.
func NewCommand(env get.Environment) *cobra.Command {
	var f printFlags
	cmd := &cobra.Command{
		Use:   "history [" + sectionNames("|") + "]",
		Short: "Print past nodes with causes and costs, and past applies, drift and pull requests",
		Long: `Print what the controller has recorded of the last day, or of --since: which revisions were applied, what differed from the
repository and which field manager had changed it, what was predicted and what happened for pull requests, why nodes were launched
and terminated, and what they cost. Without an argument it prints every section that has a record.

GPU hours are of devices. Those that are paid for are requested, idle, not allocatable yet, or not observed. Prices are of
instances only: ~ marks those of another region, and those of spot instances of which only the maximum is known; - a price that
is not known.

It reads the ConfigMaps poolwright-history* of the namespace only. For single events in order: poolwright events.`,
		Example:           "  poolwright history\n  poolwright history nodes --pool gpu\n  poolwright history revisions --since 168h\n  poolwright history costs --since 0 -o json",
		Args:              func(_ *cobra.Command, args []string) error { _, err := sectionOf(args); return err },
		ValidArgsFunction: completeSections,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := sectionOf(args)
			if err != nil {
				return err
			}
			if err := f.check(Outputs()); err != nil {
				return err
			}
			from, err := reader(env)
			if err != nil {
				return err
			}
			return f.history(cmd.Context(), env, from, s)
		},
	}
	f.add(cmd, Outputs())
	cmd.Flags().StringVar(&f.pool, "pool", "", "print nodes and costs of this NodePool only")
	return cmd
}

func completeSections(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return strings.Split(sectionNames(" "), " "), cobra.ShellCompDirectiveNoFileComp
}

// from is the time from which on is printed; zero for all.
func (f *printFlags) from(now time.Time) time.Time {
	if f.since == 0 {
		return time.Time{}
	}
	return now.Add(-f.since)
}

// reader connects to the cluster.
func reader(env get.Environment) (history.Reader, error) {
	kube, err := get.Connect(env)
	if err != nil {
		return nil, err
	}
	return &store.Store{Kube: kube, Namespace: env.Namespace()}, nil
}

// history prints a section, or all of them.
func (f *printFlags) history(ctx context.Context, env get.Environment, from history.Reader, s historySection) error {
	h, err := from.Read(ctx)
	if err != nil {
		return err
	}
	reportAge(env, h)
	return write(env, section(Since(h, f.from(env.Now()), f.pool), s), s, f.output)
}

// Since is what of a History ended after a time, or has not ended, and of the nodes and costs that of a pool; an empty pool is all. The
// History that it is given stays as it is.
func Since(h history.History, from time.Time, pool string) history.History {
	old := func(t metav1.Time) bool { return t.Time.Before(from) }
	other := func(name string) bool { return pool != "" && name != pool }
	h.NodeClaims = filter(h.NodeClaims, func(n history.NodeClaim) bool {
		return (n.Terminated.IsZero() || !old(n.Terminated)) && !other(n.NodePool)
	})
	h.PoolHours = filter(h.PoolHours, func(p history.PoolHour) bool {
		return !old(metav1.NewTime(p.Hour.Add(time.Hour))) && !other(p.NodePool)
	})
	h.Applies = filter(h.Applies, func(a history.Apply) bool { return !old(a.Time) })
	h.Drift = filter(h.Drift, func(d history.Drift) bool { return !old(d.Time) || !old(d.Last) })
	h.PullRequests = filter(h.PullRequests, func(p history.PullRequest) bool { return !old(p.Merged) || !old(p.RolledOut) })
	return h
}

// filter are the records for which a condition holds, in a list of their own.
func filter[T any](of []T, holds func(T) bool) []T {
	var out []T
	for _, one := range of {
		if holds(one) {
			out = append(out, one)
		}
	}
	return out
}

// section is one section of a History, or all of them.
func section(h history.History, name historySection) history.History {
	out := history.History{Time: h.Time}
	switch name {
	case sectionRevisions:
		out.Applies = h.Applies
	case sectionDrift:
		out.Drift = h.Drift
	case sectionPullRequests:
		out.PullRequests = h.PullRequests
	case sectionNodes:
		out.NodeClaims = h.NodeClaims
	case sectionCosts:
		out.PoolHours = h.PoolHours
	case sectionAll:
		return h
	}
	return out
}

// write prints a History in a format of -o.
func write(env get.Environment, h history.History, s historySection, output string) error {
	if slices.Contains(document.Formats(), output) {
		if h.Time.IsZero() {
			reportEmpty(env, h, "records")
		}
		return document.Value(env.Out, output, document.History, h)
	}
	printed := 0
	for _, name := range sections() {
		t := tableOf(h, name, env.Now())
		if s != sectionAll && s != name || len(t.Rows) == 0 {
			continue
		}
		if printed > 0 {
			fmt.Fprintln(env.Out)
		}
		printed++
		if err := print(env.Out, t, printers.PrintOptions{Wide: output == "wide"}); err != nil {
			return err
		}
	}
	if printed == 0 {
		reportEmpty(env, h, cmp.Or(string(s), "records"))
	}
	return nil
}

// maxAge is more than the time between two records while nodes run, which is four minutes.
const maxAge = 15 * time.Minute

// reportAge reports until when a History was recorded, where nodes ran that nothing was recorded of since.
func reportAge(env get.Environment, h history.History) {
	runs := func(n history.NodeClaim) bool { return n.Terminated.IsZero() }
	if env.Now().Sub(h.Time.Time) > maxAge && slices.ContainsFunc(h.NodeClaims, runs) {
		fmt.Fprintf(env.Err, "Recorded until %s: nodes that ran then are printed as running. Nothing is recorded while the controller is down, has the flag --history=false, or cannot write its ConfigMaps because of a quota or RBAC: its log has why.\n", instant(h.Time))
	}
}

// reportEmpty reports that there is nothing to print, and why.
func reportEmpty(env get.Environment, h history.History, of string) {
	if h.Time.IsZero() {
		fmt.Fprintf(env.Err, "No history is recorded in namespace %s: nothing happened yet, or the controller has the flag --history=false, or cannot write its ConfigMaps because of a quota or RBAC: its log has why.\n", env.Namespace())
		return
	}
	fmt.Fprintf(env.Err, "No %s found; --since 0 prints all that is recorded.\n", of)
}
