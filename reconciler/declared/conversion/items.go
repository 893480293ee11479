package conversion

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/poolwright/poolwright/reconciler/declared/conversion/internal/canonical"
	"github.com/poolwright/poolwright/reconciler/declared/conversion/internal/table"
	"github.com/poolwright/poolwright/reconciler/declared/conversion/internal/yamlnode"
	"github.com/poolwright/poolwright/reconciler/state"
)

// concerns reports whether an item may have to change, or is needed for another to
// change.
func (r *converter) concerns(item state.Item) bool {
	switch item.Key.Group {
	case coreGroup, awsGroup:
		return true
	case "poolwright.dev":
		return item.Key.Kind == "Cluster"
	case "apiextensions.k8s.io":
		return strings.HasSuffix(item.Key.Name, "."+coreGroup) || strings.HasSuffix(item.Key.Name, "."+awsGroup)
	case "":
		if item.Key.Kind == "ConfigMap" && item.Key.Name == "karpenter-global-settings" {
			return true
		}
	}
	return r.mentioned(item.Object)
}

// mentioned reports whether an old name stands anywhere in a value.
func (r *converter) mentioned(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if r.mentioned(k) || r.mentioned(e) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, r.mentioned)
	case string:
		return r.oldName(v)
	}
	return false
}

// oldName reports whether a text holds a name that is searched for.
func (r *converter) oldName(s string) bool {
	if !strings.Contains(s, "karpenter.") {
		return false
	}
	return s == "karpenter.sh/disruption" || slices.ContainsFunc(r.table.RemovedLabels, func(l string) bool { return l == s }) ||
		slices.ContainsFunc(r.table.Keys, func(k table.Renamed) bool { return strings.Contains(s, k.Old) })
}

// fromItem makes an object of an item.
func (r *converter) fromItem(item state.Item, index int) *object {
	o := &object{file: item.Origin.File, line: item.Origin.Line, node: canonical.Node(item.Object), item: index}
	r.identify(o)
	return o
}

// locate gives the fields of objects the lines on which they are written, file by
// file, since whoever finds documents keeps one file at hand.
func (r *converter) locate() {
	if r.opts.Documents == nil {
		return
	}
	byFile := slices.SortedStableFunc(slices.Values(r.objects), func(a, b *object) int { return strings.Compare(a.file, b.file) })
	var lines numbering
	for _, o := range byFile {
		if doc, ok := r.opts.Documents(state.Origin{File: o.file, Line: o.line}); ok {
			lines.number(o.node, doc.Node)
		}
	}
}

// numbering copies lines. It counts the written keys that it read for that.
type numbering struct{ read int }

// number copies lines to what stands in the same place. What rendering has put there
// has none, and goes by what is around it. It reads each written mapping once, however
// many keys it has.
func (l *numbering) number(n, written *yaml.Node) {
	if written.Kind == yaml.AliasNode {
		written = written.Alias
	}
	if n.Line = written.Line; n.Kind != written.Kind {
		return
	}
	switch {
	case n.Kind == yaml.MappingNode:
		places := yamlnode.Indexes(written)
		l.read += len(written.Content) / 2
		for i := 0; i+1 < len(n.Content); i += 2 {
			if j, ok := places[n.Content[i].Value]; ok {
				n.Content[i].Line = written.Content[j].Line
				l.number(n.Content[i+1], written.Content[j+1])
			}
		}
	case n.Kind == yaml.SequenceNode && len(n.Content) == len(written.Content):
		for i := range n.Content {
			l.number(n.Content[i], written.Content[i])
		}
	}
}

// toItem makes an item of a converted object.
func (o *object) toItem(items []state.Item) state.Item {
	var item state.Item
	if o.item >= 0 {
		item = items[o.item]
	} else {
		item.Key.Target = state.TargetKubernetes
		item.Origin = state.Origin{File: o.file, Line: o.line}
	}
	_, version, found := strings.Cut(o.apiVersion, "/")
	if !found {
		version = o.apiVersion
	}
	item.Key.Group, item.Key.Kind, item.Key.Name, item.Version = o.group(), o.kind, o.name(), version
	value, _ := canonical.Value(o.node).(map[string]any)
	item.Object = value
	return item
}
