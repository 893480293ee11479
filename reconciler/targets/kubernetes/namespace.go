package kubernetes

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
)

// warnMissingNamespaces notes of what is to be created that its namespace is neither there nor
// declared: the API server is bound to refuse it, and a review should have that before
// the merge. It reads the namespaces once, and only where something is missing from one
// of which nothing else shows that it exists. Whether one exists is nothing to report who
// may not read the cluster.
func (o *observation) warnMissingNamespaces(ctx context.Context) {
	if o.target.cfg.OnlyManaged {
		return
	}
	missing, at := o.inMissingNamespaces()
	if len(missing) == 0 {
		return
	}
	leaving := map[string]bool{} // By the names of all namespaces.
	namespaces := api.Ref{Resource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}}
	err := o.target.api.Names(ctx, namespaces, "", "", func(m *metav1.PartialObjectMetadata) {
		leaving[m.Name] = m.DeletionTimestamp != nil
	})
	if err != nil {
		return // It may not be observed: the refusal itself will report it.
	}
	for _, item := range missing {
		what, code := "does not exist", codeNamespaceMissing
		if gone, exists := leaving[item.Key.Namespace]; gone {
			what, code = "is being deleted", codeNamespaceTerminating
		} else if exists {
			continue
		}
		i, found := at[item.Key]
		if !found {
			i = len(o.items)
			o.items = append(o.items, state.Item{Key: item.Key, Version: item.Version, Wave: item.Wave})
		}
		o.items[i].Warnings = append(o.items[i].Warnings, finding.New(code, "namespace %q %s and nothing declares it: creating this is refused", finding.NewFact("namespace", item.Key.Namespace), what))
	}
}

// The codes of warnings about namespaces.
const (
	codeNamespaceMissing     finding.Code = "NamespaceMissing"
	codeNamespaceTerminating finding.Code = "NamespaceTerminating"
)

// inMissingNamespaces returns the desired objects that are missing from a namespace that
// nothing declares and in which nothing was observed, and the index of each key among
// the observed items.
func (o *observation) inMissingNamespaces() (missing []state.Item, at map[state.Key]int) {
	sure := map[string]bool{}
	at = map[state.Key]int{}
	for i, item := range o.items {
		at[item.Key] = i
		// What could not be read has no identity, and its namespace may be none.
		sure[item.Key.Namespace] = sure[item.Key.Namespace] || item.Live.UID != ""
	}
	for item := range o.desired.All() {
		if item.Key.Group == "" && item.Key.Kind == "Namespace" {
			sure[item.Key.Name] = true
		}
		if i, found := at[item.Key]; item.Key.Namespace != "" && (!found || o.items[i].Object == nil) {
			missing = append(missing, item)
		}
	}
	return slices.DeleteFunc(missing, func(i state.Item) bool { return sure[i.Key.Namespace] }), at
}
