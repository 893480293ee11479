package pluginupdate

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodeutils "sigs.k8s.io/karpenter/pkg/utils/node"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/readiness"
)

// What Karpenter puts on nodes.
const (
	poolLabel       = "karpenter.sh/nodepool"
	registeredLabel = "karpenter.sh/registered"
	disruptedTaint  = "karpenter.sh/disrupted"
)

const (
	// minReady is how long a new plugin must have agreed without a break, as
	// minReadySeconds of a DaemonSet. The kubelet reports what a node advertises every
	// 10 s; before that, the numbers may still be those of the old plugin.
	minReady = 15 * time.Second
	// defaultTimeout is for configurations without a ReadyTimeout.
	defaultTimeout = 10 * time.Minute
)

// gpuNodes is every node with GPUs that a configuration serves, sorted by name.
type gpuNodes []*member

// member is such a node. Its objects are the cache's own: nothing here writes to
// them.
type member struct {
	node   *corev1.Node
	pool   string
	config gpu.PluginConfig
	// set is the configuration's DaemonSet, nil while it is not there.
	set *appsv1.DaemonSet
	// plugin is the newest pod of that DaemonSet on the node that is not being
	// deleted, or nil.
	plugin *corev1.Pod
	// others counts the plugin pods beside it, of whatever configuration: they go, or
	// have to.
	others int
	record gpu.PluginUpdate
	health readiness.Health
	// agreed is for how long the node has agreed, as far as this process observed.
	agreed time.Duration
}

// newMember is nil for a node that no configuration serves, for one without GPUs, to which
// no plugin comes, and for one whose image has a plugin of its own.
func newMember(node *corev1.Node, sharing gpu.Sharing, sets []appsv1.DaemonSet, pods []*corev1.Pod) *member {
	pool := node.Labels[poolLabel]
	config, served := sharing.ConfigForPool(pool)
	if pool == "" || !served || readiness.GPUs(node) == 0 || readiness.HasBuiltinPlugin(node) {
		return nil
	}
	m := &member{node: node, pool: pool, config: config, record: gpu.ReadPluginUpdate(node.Annotations)}
	for i := range sets {
		if sets[i].Labels[gpu.ConfigLabel] == config.Name && sets[i].DeletionTimestamp.IsZero() {
			m.set = &sets[i]
		}
	}
	for _, pod := range pods {
		m.others++
		if pod.Labels[gpu.ConfigLabel] != config.Name || !pod.DeletionTimestamp.IsZero() {
			continue
		}
		if m.plugin == nil || isNewer(pod, m.plugin) {
			m.plugin = pod
		}
	}
	if m.plugin != nil {
		m.others--
	}
	m.health = readiness.Check(readiness.View{Node: node, Config: config, Plugin: m.plugin, PluginHash: m.pluginHash()})
	return m
}

func isNewer(a, b *corev1.Pod) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) > 0
}

// pluginHash is what a pod made now would carry. It is the template's, which the
// DaemonSet's own annotation only repeats: were they ever to differ, pods compared
// with the latter would be old for ever.
func (m *member) pluginHash() string {
	if m.set == nil {
		return ""
	}
	return gpu.PluginHash(m.set.Spec.Template.Annotations)
}

// old reports whether the plugin is to be replaced. A pod that came for the very
// revision that is declared, and still carries another, is not: something between
// us and the node changes it, and would change the next one too. One that was made
// from a template of before is; the next is made from this one.
func (m *member) old() bool {
	if m.plugin == nil || m.pluginHash() == "" || m.health.Current {
		return false
	}
	return m.record.Hash != m.pluginHash() || m.record.Pod == m.plugin.UID || m.isOutdated()
}

// templateLabel is what the DaemonSet controller puts on pods: which of the
// DaemonSet's templates each was made from. The API server counts them.
const templateLabel = "pod-template-generation"

// isOutdated reports whether the plugin was made from an earlier template, as happens
// where the pod before it went before the DaemonSet controller had observed the new
// one.
func (m *member) isOutdated() bool {
	made, err := strconv.ParseInt(m.plugin.Labels[templateLabel], 10, 64)
	if err != nil {
		return false
	}
	declared, err := strconv.ParseInt(m.set.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	return err == nil && made < declared
}

// observed reports whether a plugin that is deleted comes back as declared.
func (m *member) observed() bool {
	return m.set.Status.ObservedGeneration >= m.set.Generation
}

// agrees reports whether the declared plugin runs alone and the node advertises what its
// configuration declares.
func (m *member) agrees() bool {
	return m.plugin != nil && m.others == 0 && m.health.Ready
}

// reason is why the node does not agree.
func (m *member) reason() string {
	return cmp.Or(m.health.Message, "another pod of the device plugin is still on it")
}

// available reports whether the node has agreed for minReady.
func (m *member) available() bool {
	return m.agrees() && (m.agreed >= minReady || m.idle())
}

// works reports whether pods can use the node's GPUs by whatever plugin is there.
func (m *member) works() bool {
	if m.plugin == nil || !podReady(m.plugin) || m.record != (gpu.PluginUpdate{}) {
		return false
	}
	recorded, _ := m.recordedCapacity()
	return m.advertises() && recorded.Differs(m.node.Status.Allocatable) == ""
}

// idle reports that the node has not been opened to GPU pods. It is not whether
// Karpenter calls it initialized: that comes after the taint has gone, and pods come
// in between.
func (m *member) idle() bool {
	return m.node.Labels[registeredLabel] != "true" || hasTaint(m.node, gpu.StartupTaint)
}

// reachable reports whether a plugin that is deleted there would come back soon, and
// be of use.
func (m *member) reachable() bool {
	return m.node.DeletionTimestamp.IsZero() && !m.node.Spec.Unschedulable && !hasTaint(m.node, disruptedTaint) &&
		nodeutils.GetCondition(m.node, corev1.NodeReady).Status == corev1.ConditionTrue
}

// timeout is how long a new plugin may take. A configuration that declares none gets the
// DevicePlugin's default: to stop at once would be the worst reading of a zero.
func (m *member) timeout() time.Duration {
	return cmp.Or(m.config.ReadyTimeout, defaultTimeout)
}

// since is from when the new plugin's time counts.
func (m *member) since() time.Time {
	since := m.record.Time
	for _, t := range []time.Time{nodeutils.GetCondition(m.node, corev1.NodeReady).LastTransitionTime.Time, m.created()} {
		if t.After(since) {
			since = t
		}
	}
	return since
}

// created is zero without a plugin.
func (m *member) created() time.Time {
	if m.plugin == nil {
		return time.Time{}
	}
	return m.plugin.CreationTimestamp.Time
}

// has is what the node advertises just now.
func (m *member) has() gpu.Resources {
	out := gpu.Resources{gpu.Resource: 0, gpu.SharedResource: 0}
	out.Add(m.node.Status.Allocatable)
	return out
}

// advertises reports whether that is anything.
func (m *member) advertises() bool { return m.has().Any() }

// recordedCapacity is what the node is taken to advertise: what was recorded, or else what
// its status has.
func (m *member) recordedCapacity() (allocatable gpu.Resources, annotated bool) {
	allocatable, err := gpu.ParseResources(m.node.Annotations[gpu.AllocatableAnnotation])
	if err != nil {
		return m.has(), false
	}
	return allocatable, true
}

// capacityTooHigh reports that more is recorded than is coming: the plugin that
// advertised it is gone, or is being taken by the DaemonSet controller.
func (m *member) capacityTooHigh() bool {
	recorded, annotated := m.recordedCapacity()
	return annotated && !m.old() && !m.agrees() && !maps.Equal(recorded, recorded.Min(m.health.Expected))
}

func hasTaint(node *corev1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
