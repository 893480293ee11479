package forecasting

import (
	"cmp"
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/simulate"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Pools are the changes of NodePools, EC2NodeClasses and NodeOverlays. Those that only a
// person may make are left out; those that wait for a confirmation are not.
func Pools(changes []plan.Change) []plan.Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c plan.Change) bool { return c.ReadOnly() || !c.IsNodeConfiguration() })
}

// hasImpact reports whether there is anything to forecast: pools change, or workloads.
func hasImpact(changes []plan.Change) bool {
	return slices.ContainsFunc(changes, func(c plan.Change) bool { return !c.ReadOnly() && (c.IsNodeConfiguration() || isWorkload(c.Key)) })
}

// isWorkload reports whether pods are made for objects of the kind.
func isWorkload(k state.Key) bool {
	switch k.Group {
	case "":
		return k.Kind == "Pod"
	case "apps":
		return k.Kind == "Deployment" || k.Kind == "StatefulSet" || k.Kind == "ReplicaSet" || k.Kind == "DaemonSet"
	case "batch":
		return k.Kind == "Job" || k.Kind == "CronJob"
	}
	return false
}

// changed is the snapshot with the changes made. A live object keeps its status, which holds
// what AWS resolved. What cannot be read stays as it is live, as the API server will refuse
// it, and is returned as a sentence.
func changed(reader *simulate.Reader, from provision.ClusterSnapshot, changes []plan.Change) (to provision.ClusterSnapshot, unread []provision.Unknown) {
	to = from
	to.NodePools, to.NodeClasses, to.Overlays = slices.Clone(from.NodePools), slices.Clone(from.NodeClasses), slices.Clone(from.Overlays)
	for _, c := range changes {
		if c.After == nil {
			remove(&to, c.Key.Kind, c.Key.Name)
			continue
		}
		if err := reader.Add(&provision.ClusterSnapshot{}, c.After.Object); err != nil {
			unread = append(unread, unreadable(c.Key, err))
			continue
		}
		remove(&to, c.Key.Kind, c.Key.Name)
		_ = reader.Add(&to, c.After.Object) // it was just read
	}
	for _, was := range from.NodePools {
		for _, is := range to.NodePools {
			if is != was && is.Name == was.Name {
				is.Status, is.UID = was.Status, was.UID
			}
		}
	}
	for _, was := range from.NodeClasses {
		for _, is := range to.NodeClasses {
			if is != was && is.Name == was.Name {
				is.Status, is.UID = was.Status, was.UID
			}
		}
	}
	return to, unread
}

// addExpanded makes those changes to DaemonSets and RuntimeClasses that the revisions alone
// do not contain: deletions, and objects that declared ones expand to.
func addExpanded(reader *simulate.Reader, snapshot *provision.ClusterSnapshot, declared state.Set, changes []plan.Change) (unread []provision.Unknown) {
	var expanded []state.Item
	for _, change := range changes {
		if change.ReadOnly() || !onNodes(change.Key) {
			continue
		}
		if change.After == nil {
			removeFromNodes(snapshot, change.Key)
		} else if _, there := declared.Get(change.Key); !there {
			expanded = append(expanded, *change.After)
		}
	}
	return populate(reader, snapshot, state.NewSet(expanded...))
}

// onNodes reports whether objects of the kind cost every node, or every pod of theirs.
func onNodes(k state.Key) bool {
	return k.Group == "apps" && k.Kind == "DaemonSet" || k.Kind == "RuntimeClass"
}

// removeFromNodes removes a DaemonSet or RuntimeClass that is deleted.
func removeFromNodes(snapshot *provision.ClusterSnapshot, k state.Key) {
	if k.Kind == "RuntimeClass" {
		snapshot.RuntimeClasses = slices.DeleteFunc(slices.Clone(snapshot.RuntimeClasses), func(o *nodev1.RuntimeClass) bool { return o.Name == k.Name })
		return
	}
	snapshot.DaemonSets = slices.DeleteFunc(slices.Clone(snapshot.DaemonSets), func(o *appsv1.DaemonSet) bool {
		return o.Name == k.Name && cmp.Or(o.Namespace, metav1.NamespaceDefault) == cmp.Or(k.Namespace, metav1.NamespaceDefault)
	})
}

func remove(snapshot *provision.ClusterSnapshot, kind, name string) {
	switch kind {
	case "NodePool":
		snapshot.NodePools = slices.DeleteFunc(snapshot.NodePools, func(o *karpv1.NodePool) bool { return o.Name == name })
	case "EC2NodeClass":
		snapshot.NodeClasses = slices.DeleteFunc(snapshot.NodeClasses, func(o *awsv1.EC2NodeClass) bool { return o.Name == name })
	case "NodeOverlay":
		snapshot.Overlays = slices.DeleteFunc(snapshot.Overlays, func(o *karpv1alpha1.NodeOverlay) bool { return o.Name == name })
	}
}

// makesPods reports whether pods are made for an item, or it changes what every pod requests.
func makesPods(item state.Item) bool { return isWorkload(item.Key) || item.Key.Kind == "RuntimeClass" }

// only are the items of a set that are desired.
func only(set state.Set, desired func(state.Item) bool) state.Set {
	return state.NewSet(slices.DeleteFunc(set.Items(), func(i state.Item) bool { return !desired(i) })...)
}

// unreadable is the sentence about an object whose impact is unknown. One of Karpenter's may
// replace any of its nodes.
func unreadable(k state.Key, err error) provision.Unknown {
	return provision.Unknown{Code: codeImpactUnknown, Object: k.String(), MoreReplaced: plan.Change{Key: k}.IsNodeConfiguration(), Text: "What " + k.String() + " does to nodes: " + strings.TrimSuffix(err.Error(), ".") + "."}
}

// populate adds what is declared to a snapshot. Objects that cannot be read are left out, and
// returned as sentences.
func populate(reader *simulate.Reader, snapshot *provision.ClusterSnapshot, declared state.Set) (unread []provision.Unknown) {
	snapshot.DaemonSets, snapshot.RuntimeClasses = slices.Clone(snapshot.DaemonSets), slices.Clone(snapshot.RuntimeClasses)
	for item := range declared.All() {
		if err := reader.Add(snapshot, item.Object); err != nil {
			unread = append(unread, unreadable(item.Key, err))
		}
	}
	return unread
}
