package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/causes"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// text is the explanation for a terminal.
func (e Explanation) text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s, created %s ago\n\n", sanitize.Text(e.Object), duration.HumanDuration(e.Time.Sub(e.Since.Time)))
	for i, c := range e.Causes {
		certain := ""
		if c.Possible {
			certain = "possible: "
		}
		fmt.Fprintf(&out, "%d. %s%s: %s\n", i+1, certain, c.Reason, e.Sentence(c))
		if c.Message != "" {
			fmt.Fprintf(&out, "   message: %s\n", sanitize.Text(c.Message))
		}
		for _, ch := range c.Changes {
			fmt.Fprintf(&out, "   %s\n", ChangeText(ch))
		}
	}
	if len(e.NodePools) > 0 {
		out.WriteString("\n")
		table := tabwriter.NewWriter(&out, 0, 0, 3, ' ', 0)
		fmt.Fprintln(table, "NODEPOOL\tLACKS")
		for _, p := range e.NodePools {
			fmt.Fprintf(table, "%s\t%s\n", sanitize.Text(p.Name), cmp.Or(lacks(p.Causes), "nothing"))
		}
		_ = table.Flush() // a strings.Builder fails never
	}
	for _, text := range e.Unknown {
		fmt.Fprintf(&out, "\nUnknown: %s\n", text)
	}
	return out.String()
}

// lacks are the reasons of causes.
func lacks(found []causes.Cause) string {
	var out []string
	for _, c := range found {
		out = append(out, string(c.Reason))
	}
	return strings.Join(out, ", ")
}

// ChangeText is a change as a line.
func ChangeText(c causes.Remedy) string {
	switch {
	case c.Command != "":
		return sanitize.Text("run: " + c.Command)
	case c.Field == "":
		return sanitize.Text("request an increase of: " + c.Object) // of a quota
	}
	return sanitize.Text("change: " + c.Field + " of " + c.Object)
}

// until is when something ends by itself.
func (e Explanation) until(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf(" until %s (%s)", t.UTC().Format(time.RFC3339), duration.HumanDuration(t.Sub(e.Time.Time)))
}

// Sentence is what a cause of the explanation is, in one sentence.
func (e Explanation) Sentence(c causes.Cause) string {
	if of, found := e.sentences()[c.Reason]; found {
		return sanitize.Text(of(complete(c)))
	}
	return sanitize.Text(cmp.Or(c.ConditionReason, c.Object, c.NodePool))
}

// complete is the cause with empty values in place of what it does not have.
func complete(c causes.Cause) causes.Cause {
	c.Requirement = cmp.Or(c.Requirement, &corev1.NodeSelectorRequirement{})
	c.Taint = cmp.Or(c.Taint, &corev1.Taint{})
	c.Scheduling = cmp.Or(c.Scheduling, &causes.SchedulingSpec{})
	c.Shortage = cmp.Or(c.Shortage, &causes.Shortage{})
	c.Disruption = cmp.Or(c.Disruption, &causes.Disruption{})
	c.Pods = cmp.Or(c.Pods, &causes.Pods{})
	c.HeldChange = cmp.Or(c.HeldChange, &causes.HeldChange{})
	return c
}

// sentences are those of all reasons.
func (e Explanation) sentences() map[causes.Reason]func(causes.Cause) string {
	out := e.podSentences()
	maps.Copy(out, e.nodeSentences())
	maps.Copy(out, e.poolSentences())
	return out
}

// claimsDevices begins the sentence on a pod that claims devices.
const claimsDevices = "the pod claims devices with resourceClaims, which this command does not allocate; Karpenter's events on the pod have its reason where there is no node of NodePool "

// podSentences are those of what a pod requires and a pool lacks.
func (e Explanation) podSentences() map[causes.Reason]func(causes.Cause) string {
	label := func(c causes.Cause) string {
		return fmt.Sprintf("the pod requires %s, and nodes of NodePool %s have %s", requirement(c), c.NodePool, cmp.Or(strings.Join(c.AvailableValues, ", "), "no such label"))
	}
	return map[causes.Reason]func(causes.Cause) string{
		"TaintNotTolerated": func(c causes.Cause) string {
			return fmt.Sprintf("NodePool %s has the taint %s, which the pod does not tolerate", c.NodePool, c.Taint.ToString())
		},
		"ZoneNotOffered": label, "InstanceTypeNotOffered": label, "LabelMismatch": label,
		"VolumeZone": func(c causes.Cause) string {
			return fmt.Sprintf("the volume of %s can be attached where %s, and nodes of NodePool %s have %s", c.Object, requirement(c), c.NodePool, cmp.Or(strings.Join(c.AvailableValues, ", "), "no such label"))
		},
		"VolumeClaimUnusable": func(c causes.Cause) string {
			return fmt.Sprintf("%s is %s, and Karpenter launches no node for a pod whose volume cannot be bound", c.Object, volumeClaimStates()[c.VolumeClaimState])
		},
		"GPUSharesNotAllocatable": func(c causes.Cause) string {
			return fmt.Sprintf("the pod requests %s %s, and a node of NodePool %s advertises at most %s: its configuration %s of %s has %s", c.Shortage.Requested, c.Shortage.Resource, c.NodePool, c.Shortage.Limit, c.Shortage.Config, c.Object, c.Shortage.AdvertisedResource)
		},
		"RequestTooLarge": func(c causes.Cause) string {
			return fmt.Sprintf("the pod requests %s %s, and no instance type of NodePool %s has more than %s allocatable", c.Shortage.Requested, c.Shortage.Resource, c.NodePool, c.Shortage.Limit)
		},
		"Combination": func(c causes.Cause) string {
			return "no single instance type of NodePool " + c.NodePool + " matches all that the pod requires, though some match each part"
		},
		"ResourceClaims": func(c causes.Cause) string { return claimsDevices + c.NodePool },
		"DaemonSets": func(c causes.Cause) string {
			return "the pods of DaemonSets leave too little of every node of NodePool " + c.NodePool
		},
		"Topology": func(causes.Cause) string {
			return "the pod's topologySpreadConstraints, podAffinity or podAntiAffinity allow no node"
		},
		"Unschedulable": func(c causes.Cause) string { return "Karpenter's scheduler finds no node of NodePool " + c.NodePool },
		"CompetingPods": func(c causes.Cause) string {
			return fmt.Sprintf("a node of NodePool %s would be launched for the pod alone, and not beside the other pending pods (%d)", c.NodePool, c.Pods.Count)
		},
		"SchedulingGated": func(c causes.Cause) string {
			return "the pod has the scheduling gates " + strings.Join(c.Scheduling.Gates, ", ")
		},
		"OtherScheduler": func(c causes.Cause) string {
			return fmt.Sprintf("the scheduler %s has not scheduled the pod, nor marked it as unschedulable; Karpenter launches nodes only for pods that are marked so", c.Scheduling.SchedulerName)
		},
		"DaemonSetPod": func(causes.Cause) string { return "the pod is a DaemonSet's: Karpenter launches no node for it" },
		"SchedulingNotAttempted": func(causes.Cause) string {
			return "kube-scheduler has not marked the pod as unschedulable yet; Karpenter launches nodes only for pods that are marked so"
		},
		"Preempting": func(c causes.Cause) string {
			return "kube-scheduler evicts other pods from " + c.Object + " for it"
		},
		"NodeAvailable": func(c causes.Cause) string {
			return c.Object + " has capacity for the pod: kube-scheduler binds it there"
		},
		"NodeStarting": func(c causes.Cause) string {
			return fmt.Sprintf("%s of NodePool %s has capacity for the pod and is not ready: %s%s", c.Object, c.NodePool, cmp.Or(c.ConditionReason, "its GPUs are initializing"), e.until(c.Until))
		},
		"Scheduled": func(c causes.Cause) string {
			return "the pod is not pending: " + cmp.Or(c.Object, string(c.Scheduling.Phase))
		},
	}
}

// poolSentences are those of what keeps a pool from launching a node.
func (e Explanation) poolSentences() map[causes.Reason]func(causes.Cause) string {
	return map[causes.Reason]func(causes.Cause) string{
		"AtLimit": func(c causes.Cause) string {
			out := fmt.Sprintf("NodePool %s has a limit of %s %s, of which %s are used", c.NodePool, c.Shortage.Limit, c.Shortage.Resource, c.Shortage.Used)
			if c.Shortage.InstanceType != "" {
				out += fmt.Sprintf("; %s, the smallest instance type for the pod, has %s", c.Shortage.InstanceType, c.Shortage.Requested)
			}
			return out
		},
		"QuotaExceeded": func(c causes.Cause) string {
			return fmt.Sprintf("the quota %q has %s of %s vCPUs in use; the instance type with the smallest shortfall, %s, has %s", c.Shortage.Quota, c.Shortage.Used, c.Shortage.Limit, c.Shortage.InstanceType, c.Shortage.Requested)
		},
		"InsufficientCapacity": func(c causes.Cause) string {
			return fmt.Sprintf("AWS had no capacity for a node of NodePool %s in the last 20 minutes: allow more instance types, zones or capacity types", c.NodePool)
		},
		"ChangeHeld": func(c causes.Cause) string {
			return fmt.Sprintf("%s has a change (%s) of NodePool %s that is held by %s", c.Object, c.HeldChange.Action, c.NodePool, heldBy(c.HeldChange.HeldBy))
		},
		"BackOff": func(c causes.Cause) string {
			return fmt.Sprintf("no node with GPUs of NodePool %s is launched%s: %d in a row did not advertise their GPUs", c.NodePool, e.until(c.Until), c.Failures)
		},
		"PoolNotReady": func(c causes.Cause) string {
			return fmt.Sprintf("NodePool %s is not ready: %s", c.NodePool, c.ConditionReason)
		},
		"NoInstanceType": func(c causes.Cause) string {
			return "no instance type matches the requirements of NodePool " + c.NodePool
		},
		"NoPool": func(causes.Cause) string { return "the cluster has no NodePool" },
		"EngineNotRunning": func(c causes.Cause) string {
			if c.EngineMode == v1alpha1.EngineOff {
				return "Karpenter does not run in the controller, so that no node is launched: spec.engine.mode of " + c.Object + " is " + string(c.EngineMode)
			}
			return "Karpenter does not run in the controller, so that no node is launched: " + c.Object + " has " + cmp.Or(c.ConditionReason, "no status")
		},
		"Launchable": func(c causes.Cause) string {
			return "nothing was found that keeps Karpenter from launching a node of NodePool " + c.NodePool
		},
	}
}

// heldBy are the rules that hold a change, with what releases it from them.
func heldBy(rules []string) string {
	confirmable := slices.DeleteFunc(slices.Clone(rules), func(rule string) bool { return rule == string(hold.HoldUntil) })
	var out []string
	if len(confirmable) > 0 {
		out = append(out, strings.Join(confirmable, ", ")+" until a confirmation")
	}
	if len(confirmable) < len(rules) {
		out = append(out, string(hold.HoldUntil)+" until a time")
	}
	return strings.Join(out, " and by ")
}

// nodeSentences are those of what keeps a node.
func (e Explanation) nodeSentences() map[causes.Reason]func(causes.Cause) string {
	return map[causes.Reason]func(causes.Cause) string{
		"DoNotDisrupt": func(c causes.Cause) string { return c.Object + " has the annotation " + c.Disruption.Annotation },
		"PodDisruptionBudget": func(c causes.Cause) string {
			return fmt.Sprintf("PodDisruptionBudget %s allows no eviction of %s", strings.Join(c.Disruption.PodDisruptionBudgets, ", "), c.Object)
		},
		"BudgetBlocking": e.budget,
		"ConsolidateAfter": func(c causes.Cause) string {
			return fmt.Sprintf("a pod came or went, and consolidateAfter of NodePool %s, %s, keeps the node%s", c.NodePool, c.Disruption.ConsolidateAfter, e.until(c.Until))
		},
		"ConsolidateAfterNever": func(c causes.Cause) string { return "consolidateAfter of NodePool " + c.NodePool + " is Never" },
		"BarePod": func(c causes.Cause) string {
			return "only pods without a controller run on it, which nothing makes again: " + list(c)
		},
		"StaticPool": func(c causes.Cause) string {
			if c.Disruption.Replicas == 0 {
				return fmt.Sprintf("NodePool %s is static (spec.replicas): it launches no node for a pod", c.NodePool)
			}
			return fmt.Sprintf("NodePool %s is static: it keeps as many nodes as its spec.replicas, %d, with pods or without", c.NodePool, c.Disruption.Replicas)
		},
		"GPUsInitializing": func(c causes.Cause) string {
			if c.Until == nil {
				return "it does not advertise its GPUs" + detail(c)
			}
			return fmt.Sprintf("it has%s to advertise its GPUs; then %s replaces it%s", e.until(c.Until), c.Object, detail(c))
		},
		"Initializing": func(c causes.Cause) string { return c.Object + " is not initialized: " + c.ConditionReason },
		"AwaitingDisruption": func(c causes.Cause) string {
			return fmt.Sprintf("it has drifted (%s) and awaits its disruption as number %d of the drifted nodes; the budget is %s", c.Disruption.DriftReason, c.Disruption.QueuePosition, cmp.Or(c.Disruption.Budget, "none"))
		},
		"WhenEmpty": func(c causes.Cause) string {
			return fmt.Sprintf("consolidationPolicy of NodePool %s is WhenEmpty, and the node has pods: %s", c.NodePool, list(c))
		},
		"Unconsolidatable": func(c causes.Cause) string {
			return "Karpenter found no cheaper place for its pods: " + list(c)
		},
		"NotEmpty":    func(c causes.Cause) string { return "pods run on it: " + list(c) },
		"Terminating": func(c causes.Cause) string { return c.Object + " is being drained and terminated" + detail(c) },
		"Disruptable": func(causes.Cause) string {
			return "no cause was found that keeps it: Karpenter may disrupt it at its next evaluation"
		},
	}
}

// budget is the sentence on a blocking budget: of the nodes of a pool that its limit counts, or of one node.
func (e Explanation) budget(c causes.Cause) string {
	closed := fmt.Sprintf("the disruption budget %s of NodePool %s allows no node", cmp.Or(c.Disruption.Budget, "0"), c.NodePool) + e.until(c.Until)
	switch {
	case c.Shortage.Resource != "":
		return fmt.Sprintf("empty nodes (%d) use the limit of %s, and %s", c.Disruption.EmptyNodes, c.Shortage.Resource, closed)
	case c.Disruption.DriftReason != "":
		return fmt.Sprintf("it has drifted (%s), and %s", c.Disruption.DriftReason, closed)
	}
	return closed + " to be disrupted as " + c.Disruption.Reason
}

// volumeClaimStates are what the states of PersistentVolumeClaims are in a sentence.
func volumeClaimStates() map[causes.VolumeClaimState]string {
	return map[causes.VolumeClaimState]string{
		causes.VolumeClaimNotFound:    "not there, or its PersistentVolume or StorageClass is not",
		causes.VolumeClaimTerminating: "being deleted, or its PersistentVolume is",
		causes.VolumeClaimLost:        "Lost: its PersistentVolume is gone",
		causes.VolumeClaimUnbound:     "not bound, and is bound before the pod has a node or not at all",
	}
}

// detail is why a node is disrupted, or else the reason of a condition.
func detail(c causes.Cause) string {
	if reason := cmp.Or(c.Disruption.Reason, c.ConditionReason); reason != "" {
		return ": " + reason
	}
	return ""
}

// list are the names that a cause has, and how many more there are.
func list(c causes.Cause) string {
	out := strings.Join(c.Pods.Names, ", ")
	if more := c.Pods.Count - len(c.Pods.Names); more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}

// requirement is that of a label.
func requirement(c causes.Cause) string {
	key, operator := c.Requirement.Key, string(c.Requirement.Operator)
	if len(c.Requirement.Values) == 0 {
		return strings.TrimSpace(key + " " + operator)
	}
	return fmt.Sprintf("%s %s [%s]", key, operator, strings.Join(c.Requirement.Values, " "))
}
