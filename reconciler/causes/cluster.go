package causes

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/karpenter/pkg/apis"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/migprofile"
	"github.com/poolwright/poolwright/provision/quota"
	"github.com/poolwright/poolwright/provision/simulate"
	"github.com/poolwright/poolwright/provision/simulate/diagnosis"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Budgets are what the disruption budgets of pools allow, by pool and reason.
type Budgets map[string]map[karpv1.DisruptionReason]simulate.AllowedDisruptions

const (
	confirmAnnotation = v1alpha1.ConfirmAnnotation
	// eventAge is how old an event may be to count: Karpenter repeats one every fifteen minutes as long as it holds.
	eventAge = 20 * time.Minute
)

// poolObject is how the status of a Sync names a NodePool.
func poolObject(name string) string {
	return state.Key{Group: apis.Group, Kind: "NodePool", Name: name}.String()
}

// recent is the newest event of a reason on an object that still counts; nil for none.
func (o Objects) recent(reason, kind, namespace, name string) *corev1.Event {
	var out *corev1.Event
	for i, e := range o.Events {
		about := e.InvolvedObject
		if e.Reason == reason && about.Kind == kind && about.Namespace == namespace && about.Name == name && o.counts(e) &&
			(out == nil || e.LastTimestamp.After(out.LastTimestamp.Time)) {
			out = &o.Events[i]
		}
	}
	return out
}

// counts reports whether an event is new enough.
func (o Objects) counts(e corev1.Event) bool { return o.Now.Sub(e.LastTimestamp.Time) <= eventAge }

// ofPool is the newest event of a reason on a NodeClaim of a pool: claims that failed are gone, and their names are the pool's
// with a dash and five characters.
func (o Objects) ofPool(reason, pool string) *corev1.Event {
	const suffix = 6
	var out *corev1.Event
	for i, e := range o.Events {
		name := e.InvolvedObject.Name
		if e.Reason == reason && e.InvolvedObject.Kind == "NodeClaim" && o.counts(e) && len(name) == len(pool)+suffix && strings.HasPrefix(name, pool+"-") &&
			(out == nil || e.LastTimestamp.After(out.LastTimestamp.Time)) {
			out = &o.Events[i]
		}
	}
	return out
}

// engine is the cause where the Cluster has the engine on and it does not run.
func (o Objects) engine() (Cause, bool) {
	if o.Cluster == nil || o.Cluster.Spec.Engine.Mode == v1alpha1.EngineExternal {
		return Cause{}, false
	}
	ready := meta.FindStatusCondition(o.Cluster.Status.Conditions, "Ready")
	if o.Cluster.Spec.Engine.Mode == v1alpha1.EngineEmbedded && (ready == nil || ready.Status == metav1.ConditionTrue || !meta.IsStatusConditionTrue(o.Cluster.Status.Conditions, "EngineBlocked")) {
		return Cause{}, false
	}
	c := Cause{Reason: reasonEngineNotRunning, Object: "Cluster/" + o.Cluster.Name, EngineMode: o.Cluster.Spec.Engine.Mode, Changes: []Remedy{{Command: "poolwright check"}}}
	if o.Cluster.Spec.Engine.Mode == v1alpha1.EngineOff {
		c.Changes = []Remedy{{Object: c.Object, Field: "spec.engine.mode"}}
	} else if ready != nil {
		c.ConditionReason, c.Message = ready.Reason, ready.Message
	}
	return c, true
}

// gpuPool is what DevicePlugins report of a pool's GPUs.
func (o Objects) gpuPool(name string) (v1alpha1.GPUPoolStatus, string, bool) {
	for _, d := range o.Plugins {
		for _, p := range d.Status.Pools {
			if p.Name == name {
				return p, d.Name, true
			}
		}
	}
	return v1alpha1.GPUPoolStatus{}, "", false
}

// backOff is the cause of a pool of which no node with GPUs is launched for a time.
func (o Objects) backOff(pool string) (Cause, bool) {
	p, plugin, found := o.gpuPool(pool)
	if !found || p.BackoffUntil == nil || !p.BackoffUntil.After(o.Now) {
		return Cause{}, false
	}
	return Cause{Reason: reasonBackOff, NodePool: pool, Object: "DevicePlugin/" + plugin, Until: at(p.BackoffUntil.Time), Failures: int(p.Failures), Message: p.LastFailure}, true
}

// configuration is the one that serves a pool, with its DevicePlugin.
func (o Objects) config(pool string) (config gpu.PluginConfig, plugin string, served bool) {
	for i := range o.Plugins {
		if p, ok := deviceplugin.Sharing(&o.Plugins[i]).ConfigForPool(pool); ok {
			return p, o.Plugins[i].Name, true
		}
	}
	return gpu.PluginConfig{}, "", false
}

// isGPU reports whether a resource is GPUs, shares of them or MIG devices.
func isGPU(name corev1.ResourceName) bool {
	return name == gpu.Resource || name == gpu.SharedResource || migprofile.IsResource(name)
}

// quota is the cause where no vCPU quota has enough left for any of a pool's instance types. Known is false where that cannot be
// computed, since the Cluster's status lacks a quota.
func (o Objects) quota(pool diagnosis.Pool) (c Cause, known, is bool) {
	if o.Cluster == nil || o.Cluster.Status.AWS == nil || len(pool.Types) == 0 {
		return c, false, false
	}
	var least *Cause
	fewest := int64(0)
	for _, t := range pool.Types {
		for _, capacity := range t.CapacityTypes {
			q, found := o.quotaOf(t.Name, capacity == karpv1.CapacityTypeSpot)
			switch {
			case !found:
				return c, false, false
			case q.LimitVCPUs-q.UsedVCPUs >= int64(t.VCPUs):
				return c, true, false
			}
			if lacks := int64(t.VCPUs) - (q.LimitVCPUs - q.UsedVCPUs); least == nil || lacks < fewest {
				fewest = lacks
				least = &Cause{
					Reason: reasonQuotaExceeded, NodePool: pool.Name, Shortage: &Shortage{
						Resource: "vcpu", Quota: q.Name, InstanceType: t.Name,
						Requested: strconv.Itoa(t.VCPUs), Limit: strconv.FormatInt(q.LimitVCPUs, 10), Used: strconv.FormatInt(q.UsedVCPUs, 10),
					},
					Changes: []Remedy{{Command: "poolwright get quota"}, {Object: "Quota/" + q.Name}},
				}
			}
		}
	}
	if least == nil {
		return c, false, false
	}
	return *least, true, true
}

// quotaOf is the quota that an instance counts against.
func (o Objects) quotaOf(instanceType string, spot bool) (v1alpha1.Quota, bool) {
	class, ok := quota.ClassOf(instanceType, spot)
	if !ok {
		return v1alpha1.Quota{}, false
	}
	i := slices.IndexFunc(o.Cluster.Status.AWS.Quotas, func(q v1alpha1.Quota) bool { return class.Matches(q.Name) })
	if i < 0 {
		return v1alpha1.Quota{}, false
	}
	return o.Cluster.Status.AWS.Quotas[i], true
}

// startup are the conditions of a NodeClaim in the order in which they become true.
func startup() []string {
	return []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized}
}

// starting is the cause of a node that is not initialized.
func (o Objects) starting(claim *karpv1.NodeClaim) (Cause, bool) {
	for _, kind := range startup() {
		condition := claim.StatusConditions().Get(kind)
		if condition.IsTrue() {
			continue
		}
		c := Cause{Reason: reasonInitializing, NodePool: claim.Labels[karpv1.NodePoolLabelKey], Object: "NodeClaim/" + claim.Name, ConditionReason: kind}
		if condition != nil {
			c.ConditionReason, c.Message = cmp.Or(condition.Reason, kind), condition.Message
		}
		if kind == karpv1.ConditionTypeInitialized {
			o.gpus(&c, claim)
		}
		return c, true
	}
	return Cause{}, false
}

// gpus fills in the cause of a node that waits for its GPUs.
func (o Objects) gpus(c *Cause, claim *karpv1.NodeClaim) {
	pool, plugin, _ := o.gpuPool(c.NodePool)
	for _, n := range pool.UnhealthyNodes {
		if n.Node == claim.Status.NodeName {
			c.Reason, c.ConditionReason, c.Message, c.Object = reasonGPUsInitializing, n.Reason, n.Message, "DevicePlugin/"+plugin
		}
	}
	i := slices.IndexFunc(o.Nodes, func(n *corev1.Node) bool { return n.Name == claim.Status.NodeName })
	if i < 0 || !slices.ContainsFunc(o.Nodes[i].Spec.Taints, func(t corev1.Taint) bool { return t.Key == gpu.StartupTaint }) {
		return
	}
	if c.Reason != reasonGPUsInitializing {
		c.Reason, c.ConditionReason, c.Message = reasonGPUsInitializing, "", ""
	}
	if config, plugin, served := o.config(c.NodePool); served {
		c.Object = "DevicePlugin/" + plugin
		if r := claim.StatusConditions().Get(karpv1.ConditionTypeRegistered); r.IsTrue() {
			c.Until = at(r.LastTransitionTime.Add(config.ReadyTimeout))
		}
	}
}
