package gpulint

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// taints finds pools on whose nodes the plugin cannot run, and GPU nodes that are
// open to everyone.
func (c *linter) taints() {
	for _, p := range c.pools {
		if !p.forGPUs() {
			continue
		}
		// Bottlerocket's nodes have the plugin built in, and no pod of it.
		if p.dra || p.served && !c.classOf(p).bottlerocket {
			c.untolerated(p)
		}
		if len(p.taintList()) == 0 && p.onlyGPUs() && (p.served || c.hasOtherPools()) {
			taint, who := corev1.Taint{Key: wholeGPU, Value: "true", Effect: corev1.TaintEffectNoSchedule}, "the pods that need a GPU"
			if p.served && !c.toleratesAll(pluginTolerations(c.plugin), []corev1.Taint{taint}) {
				who += " and to DevicePlugin " + c.plugin.Name
			}
			c.warn(p.item, "spec.template.spec.taints", codeGPUTaintMissing,
				"there is none, so that pods that request no GPU run on these nodes too, %s, and prevent their removal when the GPUs are idle: "+
					"add {key: %s, value: \"true\", effect: NoSchedule}, and the toleration to %s", from(p.gpus), finding.NewFact("taintKey", wholeGPU), who)
		}
	}
}

// renames finds pools of GPU types and others in which renamed shares take Karpenter's
// guard away: pods that request no GPU are given a type without, if there is one, and a
// type whose GPUs have another name counts as one without.
func (c *linter) renames() {
	for _, p := range c.pools {
		if !p.served || !p.config.Renamed || len(p.gpus) == 0 || slices.ContainsFunc(p.taintList(), guards) ||
			!slices.ContainsFunc(p.types, func(t instanceType) bool { return !t.HasGPU() }) {
			continue
		}
		c.warn(p.item, "spec.template.spec.requirements", codeRenamedSharesUnguarded, "the pool also allows types without GPUs, and under configuration %s nodes advertise %s in place of %s, by which alone Karpenter keeps pods that request no GPU off types with GPUs: such pods may get one, %s; give types with GPUs a pool of their own, with a taint, or do not rename",
			finding.NewFact("config", p.config.Name), finding.NewFact("allocatable", shared), wholeGPU, from(p.gpus))
	}
}

// guards reports whether a taint keeps away pods that request no GPU.
func guards(t corev1.Taint) bool {
	return isNVIDIA(t.Key) && t.Effect != corev1.TaintEffectPreferNoSchedule
}

// hasOtherPools reports whether pods without GPUs have a pool of their own.
func (c *linter) hasOtherPools() bool {
	return slices.ContainsFunc(c.pools, func(p *pool) bool { return len(p.types) > 0 && !p.onlyGPUs() })
}

func (c *linter) untolerated(p *pool) {
	given := pluginTolerations(c.plugin)
	runs, otherwise := "the device plugin", "nodes that never advertise their GPUs are replaced again and again"
	if p.dra {
		runs, otherwise = "NVIDIA's DRA driver", "pods with claims wait there for ever"
	}
	for i, t := range p.taintList() {
		if c.toleratesAll(given, []corev1.Taint{t}) {
			continue
		}
		c.problem(p.item, fmt.Sprintf("spec.template.spec.taints[%d]", i), codeTaintNotTolerated,
			"%s does not tolerate %s, so that it runs on no node of this pool, and %s: "+
				"write in DevicePlugin %s (%s) spec.tolerations: [%s]",
			runs, finding.NewFact("taint", taintText(t)), otherwise, finding.NewFact("devicePlugin", c.plugin.Name), finding.NewFact("declaredAt", c.plugin.item.Origin), tolerationsText(append(slices.Clone(given), tolerationOf(t))))
	}
}

// pluginTolerations are those of the plugin's pods. Taints of failing nodes are
// tolerated by every DaemonSet, those that are removed by themselves block no pod.
func pluginTolerations(plugin *devicePlugin) []corev1.Toleration {
	if plugin.Spec.Tolerations == nil {
		return []corev1.Toleration{{Key: wholeGPU, Operator: corev1.TolerationOpExists}}
	}
	var out []corev1.Toleration
	for _, t := range plugin.Spec.Tolerations {
		out = append(out, corev1.Toleration{
			Key: t.Key, Operator: corev1.TolerationOperator(t.Operator), Value: t.Value, Effect: corev1.TaintEffect(t.Effect),
		})
	}
	return out
}

func tolerationOf(t corev1.Taint) corev1.Toleration {
	out := corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOpExists, Effect: t.Effect}
	if t.Value != "" {
		out.Operator, out.Value = corev1.TolerationOpEqual, t.Value
	}
	return out
}

func taintText(t corev1.Taint) string {
	if t.Value == "" {
		return fmt.Sprintf("%s:%s", t.Key, t.Effect)
	}
	return fmt.Sprintf("%s=%s:%s", t.Key, t.Value, t.Effect)
}

// tolerationsText writes tolerations as in YAML.
func tolerationsText(list []corev1.Toleration) string {
	var out []string
	for _, t := range list {
		var fields []string
		for _, f := range []struct{ name, value string }{
			{"key", t.Key}, {"operator", string(t.Operator)}, {"value", quoted(t.Value)}, {"effect", string(t.Effect)},
		} {
			if f.value != "" {
				fields = append(fields, f.name+": "+f.value)
			}
		}
		out = append(out, "{"+strings.Join(fields, ", ")+"}")
	}
	return strings.Join(out, ", ")
}

// quoted puts a text in quotes, an empty one not.
func quoted(s string) string {
	if s == "" {
		return ""
	}
	return fmt.Sprintf("%q", s)
}
