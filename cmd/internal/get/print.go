package get

import (
	"fmt"
	"io"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/karpenter/pkg/apis"

	"github.com/poolwright/poolwright/cmd/internal/document"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// Outputs are the values of -o.
func Outputs() []string { return []string{"wide", "json", "yaml", "name"} }

// only is the report with one section, or all of it.
func (r Report) only(s sectionName) Report {
	out := Report{TypeMeta: r.TypeMeta, Time: r.Time, IncompleteKinds: r.IncompleteKinds}
	switch s {
	case sectionSyncs:
		out.Syncs = r.Syncs
	case sectionPools:
		out.Pools = r.Pools
	case sectionNodes:
		out.Nodes = r.Nodes
	case sectionPulls:
		out.PullRequests = r.PullRequests
	case sectionDrift:
		out.Drift = r.Drift
	case sectionQuota:
		out.Quotas = r.Quotas
	default:
		return r
	}
	return out
}

// write prints a section of the report, or all of it, in a format of -o.
func (r Report) write(w io.Writer, s sectionName, output string, namespaces bool) error {
	switch output {
	case "json":
		return r.writeObject(w, s, &printers.JSONPrinter{})
	case "yaml":
		return r.writeObject(w, s, &printers.YAMLPrinter{})
	case "name":
		return r.writeNames(w, s)
	}
	options := printers.PrintOptions{Wide: output == "wide"}
	if s != sectionAll {
		return printers.NewTablePrinter(options).PrintObj(r.tableOf(s, namespaces), w)
	}
	return r.writeOverview(w, options, namespaces)
}

// writeOverview writes a table for each section that has rows, as kubectl does for several kinds.
func (r Report) writeOverview(w io.Writer, options printers.PrintOptions, namespaces bool) error {
	if err := printers.NewTablePrinter(options).PrintObj(r.summaryTable(), w); err != nil {
		return err
	}
	short := r.brief()
	for _, s := range sections() {
		t := short.tableOf(s, namespaces)
		if len(t.Rows) == 0 {
			continue
		}
		for i := range t.ColumnDefinitions {
			if c := &t.ColumnDefinitions[i]; c.Name == "Name" || c.Name == "Number" || c.Name == "Object" {
				c.Name = s.singular()
				break
			}
		}
		fmt.Fprintln(w)
		if err := printers.NewTablePrinter(options).PrintObj(t, w); err != nil {
			return err
		}
	}
	return nil
}

// WriteJSON writes the whole report, as get -o json prints it.
func (r Report) WriteJSON(w io.Writer) error {
	return r.writeObject(w, sectionAll, &printers.JSONPrinter{})
}

func (r Report) writeObject(w io.Writer, s sectionName, printer printers.ResourcePrinter) error {
	part := r.only(s)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&part)
	if err != nil {
		return fmt.Errorf("converting the report: %w", err)
	}
	return printer.PrintObj(&unstructured.Unstructured{Object: content}, w)
}

// choose leaves only the rows that are selected by name, and returns the names that none has.
func (r *Report) choose(s rowSelection) (missing []string) {
	if len(s.names) == 0 {
		return nil
	}
	known := r.rowNames(s.section)
	for _, name := range s.names {
		if !slices.Contains(known, name) {
			missing = append(missing, name)
		}
	}
	other := func(name string) bool { return !slices.Contains(s.names, name) }
	r.Syncs = slices.DeleteFunc(r.Syncs, func(one Sync) bool { return other(one.Name) })
	r.Pools = slices.DeleteFunc(r.Pools, func(one Pool) bool { return other(one.Name) })
	r.Nodes = slices.DeleteFunc(r.Nodes, func(one Node) bool { return other(one.Name) && other(one.NodeClaim) })
	return missing
}

// rowNames are the names by which rows can be selected; of a node those of the Node and of the NodeClaim.
func (r Report) rowNames(s sectionName) []string {
	out := []string{}
	part := r.only(s)
	for _, one := range part.Syncs {
		out = append(out, one.Name)
	}
	for _, one := range part.Pools {
		out = append(out, one.Name)
	}
	for _, one := range part.Nodes {
		out = append(out, one.Name)
		if one.NodeClaim != "" && one.NodeClaim != one.Name {
			out = append(out, one.NodeClaim)
		}
	}
	return out
}

// nameable are the sections whose rows are objects of the cluster.
func nameable() []sectionName { return []sectionName{sectionSyncs, sectionPools, sectionNodes} }

// writeNames writes kind and name of each object, as kubectl takes them.
func (r Report) writeNames(w io.Writer, s sectionName) error {
	var objects []document.ObjectName
	part := r.only(s)
	for _, one := range part.Syncs {
		objects = append(objects, document.ObjectName{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Sync", Name: one.Name})
	}
	for _, one := range part.Pools {
		objects = append(objects, document.ObjectName{APIVersion: karpenterVersion, Kind: "NodePool", Name: one.Name})
	}
	for _, one := range part.Nodes {
		if one.State == "Launching" || one.State == "Registering" {
			objects = append(objects, document.ObjectName{APIVersion: karpenterVersion, Kind: "NodeClaim", Name: one.NodeClaim})
			continue
		}
		objects = append(objects, document.ObjectName{APIVersion: "v1", Kind: "Node", Name: one.Name})
	}
	return document.WriteNames(w, objects)
}

// karpenterVersion is the API version of Karpenter's kinds.
const karpenterVersion = apis.Group + "/v1"

// WriteSync writes one Sync as json, yaml or name, as get syncs prints it.
func (env Environment) WriteSync(output string, sync *v1alpha1.Sync) error {
	r := Report{TypeMeta: reportType(), Time: metav1.NewTime(env.Now()), Syncs: syncsOf([]v1alpha1.Sync{*sync}, nil)}
	if err := r.write(env.Out, sectionSyncs, output, false); err != nil {
		return fmt.Errorf("writing the Sync: %w", err)
	}
	return nil
}
