package readiness

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
)

// scene is what a reader shows of the plugin. What it holds is not to be changed:
// it may be the cache's own.
type scene struct {
	sharing gpu.Sharing
	// plugins are the plugin's pods by the name of their node.
	plugins map[string][]*corev1.Pod
	// sets are the DaemonSets by profile.
	sets map[string]*appsv1.DaemonSet
}

// sight is a node with GPUs in the scene.
type sight struct {
	node    *corev1.Node
	pool    string
	profile gpu.Profile
	plugin  *corev1.Pod
	// set is the profile's DaemonSet, or nil.
	set     *appsv1.DaemonSet
	verdict Verdict
}

func (k *Keeper) scene(ctx context.Context, from client.Reader) (*scene, error) {
	sharing, err := k.cfg.Sharing(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading how GPUs are shared: %w", err)
	}
	ours := []client.ListOption{client.InNamespace(gpu.PluginNamespace), client.HasLabels{gpu.ProfileLabel}, client.UnsafeDisableDeepCopy}
	pods, sets := &corev1.PodList{}, &appsv1.DaemonSetList{}
	if err := from.List(ctx, pods, ours...); err != nil {
		return nil, fmt.Errorf("listing the pods of the device plugin: %w", err)
	}
	if err := from.List(ctx, sets, ours...); err != nil {
		return nil, fmt.Errorf("listing the DaemonSets of the device plugin: %w", err)
	}
	s := &scene{sharing: sharing, plugins: map[string][]*corev1.Pod{}, sets: map[string]*appsv1.DaemonSet{}}
	for i := range pods.Items {
		name := nodeOf(&pods.Items[i])
		s.plugins[name] = append(s.plugins[name], &pods.Items[i])
	}
	for i := range sets.Items {
		set := &sets.Items[i]
		profile := set.Labels[gpu.ProfileLabel]
		if was := s.sets[profile]; set.DeletionTimestamp == nil && (was == nil || was.CreationTimestamp.Before(&set.CreationTimestamp)) {
			s.sets[profile] = set
		}
	}
	return s, nil
}

// look judges a node. It returns false for one without NVIDIA GPUs, or whose pool
// no profile serves.
func (s *scene) look(node *corev1.Node) (sight, bool) {
	pool := node.Labels[karpv1.NodePoolLabelKey]
	profile, served := s.sharing.For(pool)
	if !served || GPUs(node) == 0 {
		return sight{}, false
	}
	out := sight{node: node, pool: pool, profile: profile, set: s.sets[profile.Name]}
	for _, pod := range s.plugins[node.Name] {
		if pod.Labels[gpu.ProfileLabel] != profile.Name || pod.DeletionTimestamp != nil {
			continue
		}
		if out.plugin == nil || out.plugin.CreationTimestamp.Before(&pod.CreationTimestamp) {
			out.plugin = pod
		}
	}
	revision := ""
	if out.set != nil {
		revision = out.set.Annotations[gpu.RevisionAnnotation]
	}
	out.verdict = Judge(View{Node: node, Profile: profile, Plugin: out.plugin, Revision: revision})
	out.explain()
	return out, true
}

// explain says why no pod of the plugin is on the node, as far as that shows.
func (s *sight) explain() {
	v := &s.verdict
	if v.Reason != NoPluginPod {
		return
	}
	if s.set == nil {
		v.Message = fmt.Sprintf("there is no DaemonSet of the device plugin for profile %s: has the Sync that declares the DevicePlugin been applied?", s.profile.Name)
		return
	}
	if taints := untolerated(s.node, s.set); taints != "" {
		v.Message = "no pod of the device plugin is on the node: the DevicePlugin's tolerations do not cover " + taints
		return
	}
	v.Message = fmt.Sprintf("no pod of the device plugin is on the node: DaemonSet %s has none for it", s.set.Name)
}

// deadline is when a node must offer its GPUs that registered at one time, and
// that this process met at another. A DaemonSet that came after the node gives it
// the whole time again: before that nothing could start. So does the process's own
// start where there is no DaemonSet at all. And every process watches a node for a
// while before it judges: the one that follows an outage of the API server finds
// nodes that had no way to start.
func (s *sight) deadline(registered, met time.Time) time.Time {
	timeout := s.profile.ReadyTimeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	start := met
	if s.set != nil {
		start = s.set.CreationTimestamp.Time
	}
	if start.Before(registered) || Builtin(s.node) {
		start = registered
	}
	due, watched := start.Add(timeout), met.Add(min(grace, timeout))
	if due.Before(watched) {
		return watched
	}
	return due
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

// minded tells whether the node is one of a pool's, registered and to stay.
// Before its registration it lacks the labels that tell of GPUs.
func minded(node *corev1.Node) bool {
	return node.Labels[karpv1.NodePoolLabelKey] != "" && node.DeletionTimestamp == nil && registered(node)
}

func nodeReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func tainted(node *corev1.Node) bool {
	for _, t := range node.Spec.Taints {
		if t.Key == gpu.StartupTaint {
			return true
		}
	}
	return false
}
