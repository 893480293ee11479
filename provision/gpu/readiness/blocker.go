package readiness

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
)

// blocker is what keeps a node from being replaced that only shows when that is
// tried. The zero value is nothing.
type blocker struct {
	code blockerCode
	// reason takes the place of the node's own; empty leaves it.
	reason string
	// object is what blocks, as namespace/name; empty where that is no object.
	object  string
	message string
}

// blockerCode distinguishes what blocks.
type blockerCode string

const (
	blockedByBudget      blockerCode = "Budget"
	blockedByPods        blockerCode = "Pods"
	blockedByEngine      blockerCode = "EngineOff"
	blockedByAnnotation  blockerCode = "DoNotDisrupt"
	blockedByManifest    blockerCode = "NotApplied"
	blockedByOtherPlugin blockerCode = "OtherPlugin"
)

// atBudget is the blocker of a node that is to be replaced after others.
var atBudget = blocker{code: blockedByBudget, message: "it waits its turn: no more than one node, or a fifth of the pool's, is replaced within a readyTimeout"}

// blockedBy returns why a node that is out of time is not replaced, as far as that
// shows without another read; the zero value when it may be.
func (k *Controller) blockedBy(s nodeView, claim *karpv1.NodeClaim) blocker {
	switch {
	case s.released(k.records.timesOf(s.node, k.cfg.Clock.Now())):
		return blocker{code: blockedByPods, message: "it is not replaced, since pods may have come to it"}
	case !k.cfg.ReplaceEnabled():
		return blocker{code: blockedByEngine, message: "it is not replaced, since Poolwright's engine does not run: another Karpenter's nodes are left alone"}
	case doNotDisrupt(s.node.Annotations) || doNotDisrupt(claim.Annotations):
		return blocker{code: blockedByAnnotation, message: "it is not replaced, since " + karpv1.DoNotDisruptAnnotationKey + " keeps it"}
	case s.unapplied != "":
		return blocker{code: blockedByManifest, message: "it is not replaced, since the cause is not the node"}
	}
	return blocker{}
}

func doNotDisrupt(annotations map[string]string) bool {
	return annotations[karpv1.DoNotDisruptAnnotationKey] == "true"
}

// released reports whether pods may have come to the node: we let them in, or it was
// never tainted. Such a node is only reported on, whatever becomes of its plugin.
func (s *nodeView) released(past nodeTimes) bool {
	return s.capacityRecorded(past) || !tainted(s.node)
}

// blockedEvent reports by an event, once for each reason, a node that is out of time and stays.
func (k *Controller) blockedEvent(s nodeView, claim *karpv1.NodeClaim, why blocker) {
	if !k.records.blockerChanged(s.node.Name, why) {
		return
	}
	reason, message := s.diagnosis()
	reason = cmp.Or(why.reason, reason)
	message = fmt.Sprintf("The node does not advertise %s (configuration %s) in time: %s; %s", s.health.Expected, s.config.Name, message, why.message)
	k.cfg.Log.Info(message, "node", s.node.Name, "nodeclaim", claim.Name, "nodepool", s.pool, "reason", reason)
	k.cfg.Recorder.Event(claim, corev1.EventTypeWarning, reason, message)
	k.cfg.Recorder.Event(s.node, corev1.EventTypeWarning, reason, message)
}

// foreign finds a device plugin on the node that is not ours: NVIDIA's chart, the
// GPU operator. Two of them register the same resource in turns, and another node
// would fare no better.
func (k *Controller) foreign(ctx context.Context, node *corev1.Node) (blocker, error) {
	sets := &appsv1.DaemonSetList{}
	if err := k.cfg.Live.List(ctx, sets); err != nil {
		return blocker{}, fmt.Errorf("listing DaemonSets, among which another device plugin might be: %w", err)
	}
	for i := range sets.Items {
		set := &sets.Items[i]
		if set.Labels[gpu.ConfigLabel] != "" || set.DeletionTimestamp != nil {
			continue
		}
		if image := PluginImage(set); image != "" && serves(set, node) {
			return blocker{code: blockedByOtherPlugin, reason: AnotherPlugin, object: set.Namespace + "/" + set.Name, message: fmt.Sprintf(
				"DaemonSet %s/%s (image %s) brings another device plugin to the node, and the two take each other's place: take one of them away; until then the node is not replaced",
				set.Namespace, set.Name, cut(image))}, nil
		}
	}
	return blocker{}, nil
}

// PluginImage is the image of NVIDIA's device plugin that a DaemonSet runs, or
// empty. Other programs come in the same image, which advertise no GPUs.
func PluginImage(set *appsv1.DaemonSet) string {
	for _, c := range set.Spec.Template.Spec.Containers {
		if !strings.HasPrefix(path.Base(c.Image), "k8s-device-plugin") {
			continue
		}
		if program := path.Base(strings.Join(c.Command[:min(len(c.Command), 1)], "")); besides(program) || besides(c.Name) {
			continue
		}
		return c.Image
	}
	return ""
}

// besides reports whether a program is one that only lies in the plugin's image.
func besides(program string) bool {
	return strings.HasPrefix(program, "gpu-feature-discovery") || strings.HasPrefix(program, "config-manager")
}

// serves reports whether the DaemonSet's pods come to the node. What cannot be
// determined counts as yes: it spares a node.
func serves(set *appsv1.DaemonSet, node *corev1.Node) bool {
	return selects(set, node) && untolerated(node, set) == ""
}
