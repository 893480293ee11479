package uninstall

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/cmd/internal/document"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// Removal is what poolwright uninstall removes, or would remove.
type Removal struct {
	// Namespace is the controller's.
	Namespace string `json:"namespace"`
	// Done is true where it is removed, or nothing was there.
	Done bool `json:"done"`
	// Steps are what is done, in its order.
	Steps []string `json:"steps"`
	// Objects are the Syncs and the objects of the installation, which are deleted; a namespace only if nothing else is in it.
	// Records of the controller go beside them.
	Objects []document.ObjectName `json:"objects"`
	// Remaining are the things that are left as they are.
	Remaining []string `json:"remaining"`
	// Warnings are what a person should read before confirming.
	Warnings []string `json:"warnings"`
}

// Removal is the removal that was planned, which is not done yet.
func (u *Uninstall) Removal() Removal {
	out := Removal{Namespace: u.req.Namespace, Steps: u.Steps(), Objects: []document.ObjectName{}, Remaining: slices.Clone(u.Remaining), Warnings: slices.Clone(u.Warnings)}
	for _, s := range u.found.syncs {
		out.Objects = append(out.Objects, document.ObjectName{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Sync", Namespace: s.Namespace, Name: s.Name})
	}
	for item := range u.found.installed.All() {
		version := schema.GroupVersion{Group: item.Key.Group, Version: cmp.Or(item.Version, "v1")}
		out.Objects = append(out.Objects, document.ObjectName{APIVersion: version.String(), Kind: item.Key.Kind, Namespace: item.Key.Namespace, Name: item.Key.Name})
	}
	// An empty list is one, too.
	out.Remaining, out.Warnings = append([]string{}, out.Remaining...), append([]string{}, out.Warnings...)
	return out
}

// Print prints it in one of document.ObjectFormats; nothing as text.
func (r Removal) Print(out io.Writer, output string) error {
	switch output {
	case document.ObjectFormats()[0]:
		return nil
	case "name":
		return document.WriteNames(out, r.Objects)
	}
	return document.Value(out, output, document.Removal, r)
}

// List lists what would be done and what stays, for people.
func (u *Uninstall) List(out io.Writer) {
	fmt.Fprintf(out, "Uninstalling Poolwright from %s, namespace %s:\n", u.req.REST.Host, u.req.Namespace)
	for i, text := range u.Steps() {
		fmt.Fprintf(out, "%3d. %s\n", i+1, text)
	}
	fmt.Fprintln(out, "\nWhat stays:")
	for _, text := range u.Remaining {
		fmt.Fprintf(out, "  - %s\n", text)
	}
}
