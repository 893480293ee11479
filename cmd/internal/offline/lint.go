// Package offline reads and lints a folder of a working copy for a command, without a cluster.
//
// It renders in its own process: a person started it on a folder of theirs. The controller must
// not import it. Start reading at Lint.
package offline

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/cmd/internal/crds"
	"github.com/poolwright/poolwright/cmd/internal/prices"
	"github.com/poolwright/poolwright/gitsource/dir"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/pricelist/published"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/declared/lint/gpulint"
	"github.com/poolwright/poolwright/reconciler/declared/lint/offeringlint"
	"github.com/poolwright/poolwright/reconciler/declared/unset"
	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/targets/aws"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// LintResult is what Lint finds in a folder.
type LintResult struct {
	// Problems are what cannot work, and secrets in Git.
	Problems []state.Problem
	// Warnings are what works, and otherwise, or at a higher price, than may be meant.
	Warnings []state.Problem
	// Objects is how many the folder declares.
	Objects int
}

// All are problems and warnings in the order of file and line. The message of a
// warning begins with "warning".
func (l LintResult) All() []state.Problem {
	all := slices.Clone(l.Problems)
	for _, p := range l.Warnings {
		all = append(all, state.Problem{Origin: p.Origin, Code: p.Code, Facts: p.Facts, Message: "warning: " + p.Message})
	}
	return lint.Sorted(all)
}

// Lint checks a folder of a working copy without a cluster, against the schemas
// of our own kinds and of the embedded Karpenter's, what the Cluster requires of AWS as
// far as no request is needed, and what the objects declare of GPUs against each other.
// Of Karpenter's old APIs it warns: they are followed as what they mean.
//
// With variables it checks what they make of the objects, as a Sync would; without any
// it does not check the fields that hold one, and warns of each variable. So it does of
// those that are SSM parameters, which it does not read.
func Lint(ctx context.Context, folder string, in variables.Input) (LintResult, error) {
	return LintWithPrices(ctx, folder, in, nil)
}

// LintWithPrices is Lint, which also checks instance types and capacity reservations against what a source, where it
// is not nil, has of AWS.
func LintWithPrices(ctx context.Context, folder string, in variables.Input, source *prices.Source) (LintResult, error) {
	values, left, err := variables.Offline(ctx, in)
	if err != nil {
		return LintResult{}, fmt.Errorf("checking %s: %w", folder, err)
	}
	open := unset.Variables{NoneSet: in.Empty(), Parameters: left}
	d, err := loadWith(ctx, folder, declared.Options{Values: values, UnresolvedVariables: open.Exist()})
	if err != nil {
		return LintResult{}, fmt.Errorf("checking %s: %w", folder, err)
	}
	known, err := crds.Known()
	if err != nil {
		return LintResult{}, err
	}
	gpus, err := gpuFindings(d)
	if err != nil {
		return LintResult{}, err
	}
	old, err := lint.Conversions(d, folder)
	if err != nil {
		return LintResult{}, err
	}
	nodes, err := systemNodes(d)
	if err != nil {
		return LintResult{}, err
	}
	offered, err := offeringWarnings(ctx, d, source)
	if err != nil {
		return LintResult{}, err
	}
	out := LintResult{Objects: d.Set.Len(), Warnings: slices.Concat(old, nodes, offered)}
	found := lint.Check(d, known)
	found = append(found, expansionProblems(d, found)...)
	found = append(found, aws.Check(d.Set)...)
	for _, f := range gpus {
		if f.Severity == finding.Warning {
			out.Warnings = append(out.Warnings, f.Problem())
		} else {
			found = append(found, f.Problem())
		}
	}
	if open.Exist() {
		found, out.Warnings = open.Lintable(d, found), append(open.Lintable(d, out.Warnings), open.Warnings(d)...)
	}
	out.Problems, out.Warnings = lint.Sorted(found), lint.Sorted(out.Warnings)
	return out, nil
}

// gpuFindings are what is wrong about GPUs, and what may be otherwise than meant.
func gpuFindings(d declared.Declared) ([]lint.Diagnostic, error) {
	types, err := catalog.Load()
	if err != nil {
		return nil, err
	}
	return gpulint.Check(d, types), nil
}

// offeringWarnings are about what AWS offers, as far as the source has it.
func offeringWarnings(ctx context.Context, d declared.Declared, source *prices.Source) ([]state.Problem, error) {
	if source == nil {
		return nil, nil
	}
	cluster := declaredCluster(d)
	types, err := catalog.Load()
	if err != nil {
		return nil, err
	}
	known := source.Published(ctx, cluster)
	if err := source.Err(); err != nil {
		return nil, err
	}
	for class, terms := range offeringlint.Terms(d) {
		if _, read := known.CapacityReservations[class]; read || !source.Account || cluster.Region == "" {
			continue
		}
		found, err := source.CapacityReservations(ctx, cluster, terms)
		if err != nil {
			source.WithoutReservations(err)
			continue
		}
		if known.CapacityReservations == nil {
			known.CapacityReservations = map[string][]published.Reservation{}
		}
		for _, r := range found {
			known.CapacityReservations[class] = append(known.CapacityReservations[class], published.Reservation{CapacityReservation: r.CapacityReservation})
		}
	}
	return offeringlint.Check(d, types, known), nil
}

// declaredCluster has the region and the account of the declared Cluster; none without one, or where they have a
// variable without a value.
func declaredCluster(d declared.Declared) v1alpha1.ClusterSpec {
	for _, item := range d.Set.Items() {
		if item.Key.Group != v1alpha1.GroupVersion.Group || item.Key.Kind != "Cluster" {
			continue
		}
		field := func(name string) string {
			value, _, _ := unstructured.NestedString(item.Object, "spec", name)
			if strings.Contains(value, "${") {
				return ""
			}
			return value
		}
		return v1alpha1.ClusterSpec{Region: field("region"), Account: field("account")}
	}
	return v1alpha1.ClusterSpec{}
}

// expansionProblems is why nothing can be made of a DevicePlugin. Of one whose schema was
// already complained about that would be the same again, without the lines.
func expansionProblems(d declared.Declared, found []state.Problem) []state.Problem {
	known := map[state.Origin]bool{}
	for _, item := range d.Set.Items() {
		if item.Key.Kind == "DevicePlugin" {
			known[item.Origin] = slices.ContainsFunc(found, func(p state.Problem) bool { return p.Object == item.Key })
		}
	}
	_, problems := deviceplugin.Expand(d.Set)
	return slices.DeleteFunc(problems, func(p state.Problem) bool { return known[p.Origin] })
}

// Load reads a folder of a working copy for a command without a cluster, with the
// values that variables.Offline finds. What is wrong in the folder are
// the Problems of what is declared, and no error.
func Load(ctx context.Context, folder string, in variables.Input) (declared.Declared, error) {
	values, left, err := variables.Offline(ctx, in)
	if err != nil {
		return declared.Declared{}, err
	}
	return loadWith(ctx, folder, declared.Options{Values: values, UnresolvedVariables: len(left) > 0})
}

// loadWith is load with options.
func loadWith(ctx context.Context, folder string, options declared.Options) (declared.Declared, error) {
	root, path, err := dir.Locate(folder)
	if err != nil {
		return declared.Declared{}, err
	}
	snapshot, err := dir.New(root, dir.Limits{}).Fetch(ctx)
	if err != nil {
		return declared.Declared{}, err
	}
	return declared.Load(snapshot.FS, path, options)
}
