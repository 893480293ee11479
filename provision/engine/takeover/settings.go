package takeover

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision/engine"
)

// variable is one that Karpenter reads, with its default, and what would be here
// in its place.
type variable struct {
	name, standard string
	// ours is the value of the engine's setting, written like theirs.
	ours string
	// field is where the Cluster object has it; empty where it has none.
	field string
	// same compares two values; nil compares their text.
	same func(a, b string) bool
}

// environment compares the settings of the two. Ports, logs, leases and limits of
// the process are left out: they are the installation's.
func (w *comparer) environment() {
	k := w.karpenter
	if name := k.options.values["CLUSTER_NAME"]; name != "" && name != w.settings.Cluster {
		w.obstacle("declare that cluster, or connect to the right one", "its CLUSTER_NAME is %q, and the Cluster's spec.name is %q", name, w.settings.Cluster)
	}
	w.queue()
	for _, v := range variables(w.settings) {
		if slices.Contains(k.options.unread, v.name) {
			continue
		}
		theirs, set := k.options.values[v.name]
		theirs = cmp.Or(theirs, v.standard)
		same := v.same
		if same == nil {
			same = func(a, b string) bool { return a == b }
		}
		if same(theirs, v.ours) {
			if set {
				w.out.Equal = append(w.out.Equal, v.name)
			}
			continue
		}
		do := "nothing can be done: Poolwright has no field for it; nodes that are there keep what they have"
		if v.field != "" {
			do = fmt.Sprintf("to keep it, set %s: %s", v.field, theirs)
		}
		w.differs(do, "its %s is %s, and would be %s", v.name, theirs, v.ours)
	}
	w.gates()
	w.bundle()
	w.unread()
}

// unread reports what is not compared. What decides whose the nodes are, and whether
// they stay, must be known.
func (w *comparer) unread() {
	o := w.karpenter.options
	for _, name := range []string{"CLUSTER_NAME", "INTERRUPTION_QUEUE", caBundle} {
		if o.unknown(name) {
			w.obstacle("write it into the Deployment's env, or into a ConfigMap", "its %s is not known, or may come from where it cannot be read", name)
		}
	}
	names := slices.DeleteFunc(slices.Clone(o.unread), func(n string) bool {
		return slices.Contains([]string{"SYSTEM_NAMESPACE", "CPU_REQUESTS", "MEMORY_LIMIT", "CLUSTER_NAME", "INTERRUPTION_QUEUE", caBundle}, n)
	})
	if names = append(names, o.elsewhere...); len(names) > 0 {
		w.differs("compare them yourself", "not read, for they come from Secrets or are put together in the pod: %s", strings.Join(names, ", "))
	}
}

// queue is an obstacle, because nodes would end without a warning.
func (w *comparer) queue() {
	theirs, ours := w.karpenter.options.values["INTERRUPTION_QUEUE"], w.settings.InterruptionQueue
	const remedy = "declare spec.interruptionQueue: {name: %[1]s}, or only read it with spec.engine.interruptionQueue: %[1]s"
	switch {
	case w.karpenter.options.unknown("INTERRUPTION_QUEUE"): // reported by unread
	case theirs == ours && theirs != "":
		w.out.Equal = append(w.out.Equal, "INTERRUPTION_QUEUE")
	case theirs != "" && ours == "":
		w.obstacle(fmt.Sprintf(remedy, theirs), "it reads the queue %s, and nobody would: nodes would end unwarned", theirs)
	case theirs != "" && theirs != ours:
		w.obstacle(fmt.Sprintf(remedy, theirs), "it reads the queue %s, and %s would be read", theirs, ours)
	case ours != "":
		w.differs("nothing: nodes are drained in time from then on", "it reads no interruption queue, and %s would be read", ours)
	}
}

// bundle states what becomes of the text that every drift hash contains.
func (w *comparer) bundle() {
	if w.karpenter.CABundle != "" {
		w.differs("nothing: bootstrap gives it to the controller, letter by letter, for it is part of every node's drift hash", "it has a %s of its own", caBundle)
	}
}

// variables are those that are compared, with Karpenter's own defaults.
func variables(s engine.Settings) []variable {
	const noField, unset = "", "not set"
	return []variable{
		{"BATCH_IDLE_DURATION", "1s", batchIdle(s), "spec.engine.batchIdleDuration", sameDuration},
		{"BATCH_MAX_DURATION", "10s", s.Batch.Max.String(), "spec.engine.batchMaxDuration", sameDuration},
		{"PREFERENCE_POLICY", "Respect", s.Scheduling.PreferencePolicy, noField, nil},
		{"MIN_VALUES_POLICY", "Strict", s.Scheduling.MinValuesPolicy, "spec.engine.minValuesPolicy", nil},
		{"IGNORE_DRA_REQUESTS", "true", strconv.FormatBool(s.Scheduling.IgnoreDRARequests), noField, nil},
		{"VM_MEMORY_OVERHEAD_PERCENT", "0.075", strconv.FormatFloat(s.Nodes.VMMemoryOverheadPercent, 'g', -1, 64), noField, sameNumber},
		{"RESERVED_ENIS", "0", strconv.Itoa(s.Nodes.ReservedENIs), "spec.engine.reservedENIs", sameNumber},
		{"CLUSTER_ENDPOINT", "EKS's", cmp.Or(s.Nodes.Endpoint, "EKS's"), noField, nil},
		{"EKS_CONTROL_PLANE", "false", strconv.FormatBool(s.AWS.EKSControlPlane), noField, nil},
		{"ISOLATED_VPC", "false", strconv.FormatBool(s.AWS.IsolatedVPC), noField, nil},
		{"ENABLE_ZONAL_SHIFT", "false", strconv.FormatBool(s.AWS.ZonalShift), noField, nil},
		{"DISABLE_DRY_RUN", "false", strconv.FormatBool(s.AWS.DisableDryRun), "spec.engine.disableDryRun", nil},
		{"AMI_REFRESH_INTERVAL", "1m", s.AWS.AMIRefreshInterval.String(), noField, sameDuration},
		{"SUBNET_REFRESH_INTERVAL", "1m", s.AWS.SubnetRefreshInterval.String(), noField, sameDuration},
		{"SECURITY_GROUP_REFRESH_INTERVAL", "1m", s.AWS.SecurityGroupRefreshInterval.String(), noField, sameDuration},
		{"LEGACY_NODE_REPAIR", "false", "false", noField, nil},
		{"SCHEDULER_CONFIG", unset, unset, noField, nil},
	}
}

// batchIdle is the setting, where the default of any pace is that of Karpenter: who has set
// nothing here keeps nothing.
func batchIdle(s engine.Settings) string {
	if s.Batch.Idle == s.Pace.BatchIdle() {
		return engine.PaceStock.BatchIdle().String()
	}
	return s.Batch.Idle.String()
}

func sameDuration(a, b string) bool {
	x, errX := time.ParseDuration(a)
	y, errY := time.ParseDuration(b)
	return errX == nil && errY == nil && x == y
}

func sameNumber(a, b string) bool {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return errX == nil && errY == nil && x == y
}
