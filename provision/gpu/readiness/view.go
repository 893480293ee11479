package readiness

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	nodeutils "sigs.k8s.io/karpenter/pkg/utils/node"

	"github.com/poolwright/poolwright/provision/gpu"
)

// pluginView is what was read of the plugin. What it holds is not to be changed:
// it may be the cache's own.
type pluginView struct {
	sharing gpu.Sharing
	// plugins are the plugin's pods by the name of their node.
	plugins map[string][]*corev1.Pod
	// sets are the DaemonSets by configuration.
	sets map[string]*appsv1.DaemonSet
}

// nodeView is a node with GPUs, as it was read.
type nodeView struct {
	node   *corev1.Node
	pool   string
	config gpu.PluginConfig
	plugin *corev1.Pod
	// set is the configuration's DaemonSet, or nil.
	set *appsv1.DaemonSet
	// unapplied is why nothing can be concluded from what the node advertises: its DaemonSet
	// was not made from the configuration. Empty when it was.
	unapplied string
	// unknown is why it cannot be determined whether the DRA driver has published the node's GPUs; empty where it can.
	unknown string
	health  Health
}

// readPlugin reads the DevicePlugin by one way and all else by another; both are the
// cache's, or neither.
func readPlugin(ctx context.Context, from client.Reader, share func(context.Context) (gpu.Sharing, error)) (*pluginView, error) {
	sharing, err := share(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading how GPUs are shared: %w", err)
	}
	ours := []client.ListOption{client.InNamespace(gpu.PluginNamespace), client.HasLabels{gpu.ConfigLabel}, client.UnsafeDisableDeepCopy}
	pods, sets := &corev1.PodList{}, &appsv1.DaemonSetList{}
	if err := from.List(ctx, pods, ours...); err != nil {
		return nil, fmt.Errorf("listing the pods of the device plugin: %w", err)
	}
	if err := from.List(ctx, sets, ours...); err != nil {
		return nil, fmt.Errorf("listing the DaemonSets of the device plugin: %w", err)
	}
	s := &pluginView{sharing: sharing, plugins: map[string][]*corev1.Pod{}, sets: map[string]*appsv1.DaemonSet{}}
	for i := range pods.Items {
		name := nodeOf(&pods.Items[i])
		s.plugins[name] = append(s.plugins[name], &pods.Items[i])
	}
	for i := range sets.Items {
		set := &sets.Items[i]
		config := set.Labels[gpu.ConfigLabel]
		if was := s.sets[config]; set.DeletionTimestamp == nil && (was == nil || was.CreationTimestamp.Before(&set.CreationTimestamp)) {
			s.sets[config] = set
		}
	}
	return s, nil
}

// viewOf checks a node. It returns false for one without NVIDIA GPUs, or whose pool
// no configuration serves.
func (s *pluginView) viewOf(node *corev1.Node) (nodeView, bool) {
	pool := node.Labels[karpv1.NodePoolLabelKey]
	config, served := s.sharing.ConfigForPool(pool)
	if !served || GPUs(node) == 0 {
		return nodeView{}, false
	}
	out := nodeView{node: node, pool: pool, config: config, set: s.sets[config.Name]}
	others := 0
	for _, pod := range s.plugins[node.Name] {
		if ended(pod) {
			continue
		}
		others++
		if pod.Labels[gpu.ConfigLabel] != config.Name || pod.DeletionTimestamp != nil {
			continue
		}
		if out.plugin == nil || out.plugin.CreationTimestamp.Before(&pod.CreationTimestamp) {
			out.plugin = pod
		}
	}
	if out.plugin != nil {
		others--
	}
	out.unapplied = out.templateDifference()
	out.health = Check(View{Node: node, Config: config, Plugin: out.plugin, Others: others, PluginHash: out.pluginHash()})
	out.explain()
	return out, true
}

// ended reports whether nothing of a pod runs any more. It may stay for a while: the
// DaemonSet controller waits longer and longer before it takes such a pod away.
func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// pluginHash is what a pod made now would carry. It is the template's: what pods are
// made of, whatever somebody writes on the DaemonSet itself.
func (s *nodeView) pluginHash() string {
	if s.set == nil {
		return ""
	}
	return gpu.PluginHash(s.set.Spec.Template.Annotations)
}

// templateDifference is how the DevicePlugin that counts and the DaemonSet differ in what
// they are about; empty when they do not, and where none of ours is needed.
func (s *nodeView) templateDifference() string {
	if HasBuiltinPlugin(s.node) {
		return ""
	}
	if s.set == nil {
		return fmt.Sprintf("there is no DaemonSet of the device plugin for configuration %s: has the Sync that declares the DevicePlugin been applied?", s.config.Name)
	}
	declared, made := s.config.EncodeSharing(), gpu.ReadSharing(s.set.Annotations)
	if made == declared {
		return ""
	}
	return fmt.Sprintf("the DevicePlugin declares %s, its DaemonSet %s was made for %s: the Sync has not applied it (drift: Report? another Sync?)",
		declared, s.set.Name, cmp.Or(cut(made), "an unknown configuration"))
}

// explain is why the node is not ready, as far as more shows than the node.
func (s *nodeView) explain() {
	v := &s.health
	if v.Ready {
		return
	}
	if s.unapplied != "" {
		v.Reason, v.Message = NotApplied, s.unapplied
		return
	}
	if v.Reason != NoPluginPod {
		return
	}
	if taints := untolerated(s.node, s.set); taints != "" {
		v.Message = "no pod of the device plugin is on the node: the DevicePlugin's tolerations do not cover " + taints
		return
	}
	v.Message = fmt.Sprintf("no pod of the device plugin is on the node: DaemonSet %s has none for it", s.set.Name)
}

// selects reports whether the DaemonSet's node selector and affinity include the node. What cannot be determined counts as yes.
func selects(set *appsv1.DaemonSet, node *corev1.Node) bool {
	match, err := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: set.Spec.Template.Spec}).Match(node)
	return err != nil || match
}

// untolerated lists the node's taints that keep the DaemonSet's pods away.
func untolerated(node *corev1.Node, set *appsv1.DaemonSet) string {
	var out []string
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		// The DaemonSet controller adds tolerations of the node's conditions.
		if taint.Effect == corev1.TaintEffectPreferNoSchedule || strings.HasPrefix(taint.Key, "node.kubernetes.io/") {
			continue
		}
		if !tolerated(taint, set.Spec.Template.Spec.Tolerations) {
			out = append(out, taint.ToString())
		}
	}
	return strings.Join(out, ", ")
}

func tolerated(taint *corev1.Taint, by []corev1.Toleration) bool {
	for i := range by {
		if by[i].ToleratesTaint(klog.Background(), taint, false) {
			return true
		}
	}
	return false
}

// nodeOf is the name of the node that a pod of a DaemonSet is on, or meant for.
func nodeOf(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == "metadata.name" && field.Operator == corev1.NodeSelectorOpIn && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}

// listNodes lists the nodes of all pools. They are not to be changed.
func listNodes(ctx context.Context, from client.Reader) ([]corev1.Node, error) {
	nodes := &corev1.NodeList{}
	if err := from.List(ctx, nodes, client.HasLabels{karpv1.NodePoolLabelKey}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	return nodes.Items, nil
}

func registered(node *corev1.Node) bool {
	return node.Labels[karpv1.NodeRegisteredLabelKey] == "true"
}

func initialized(node *corev1.Node) bool {
	return node.Labels[karpv1.NodeInitializedLabelKey] == "true"
}

// isManaged reports whether the node is one of a pool's, registered and to stay.
// Before its registration it lacks the labels that name its GPUs.
func isManaged(node *corev1.Node) bool {
	return node.Labels[karpv1.NodePoolLabelKey] != "" && node.DeletionTimestamp == nil && registered(node)
}

func nodeReady(node *corev1.Node) bool {
	return nodeutils.GetCondition(node, corev1.NodeReady).Status == corev1.ConditionTrue
}

func tainted(node *corev1.Node) bool {
	for _, t := range node.Spec.Taints {
		if t.Key == gpu.StartupTaint {
			return true
		}
	}
	return false
}
