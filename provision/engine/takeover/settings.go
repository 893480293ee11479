package takeover

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/provision/engine"
)

// variable is one that Karpenter reads, with its default, and what would be here
// in its place.
type variable struct {
	name, standard string
	// ours is the value of the engine's setting, written like theirs.
	ours string
	// field is where spec.engine of the Cluster object has it; empty where it has none.
	field string
	// valueType is how values are compared and declared.
	valueType valueType
}

// environment compares the settings of the two. Ports, logs, leases and limits of
// the process are left out: they are the installation's.
func (w *comparer) environment() {
	k := w.karpenter
	if name := k.options.values["CLUSTER_NAME"]; name != "" && name != w.settings.Cluster {
		w.blocking("declare that cluster, or connect to the right one", "its CLUSTER_NAME is %q, and the Cluster's spec.name is %q", name, w.settings.Cluster)
	}
	w.queue()
	for _, v := range variables(w.settings) {
		if !slices.Contains(k.options.unreadable, v.name) {
			w.variable(v)
		}
	}
	w.installation()
	w.gates()
	w.bundle()
	w.addUnreadable()
}

// variable compares one of them.
func (w *comparer) variable(v variable) {
	theirs, set := w.karpenter.options.values[v.name]
	theirs = cmp.Or(theirs, v.standard)
	if v.valueType.same(theirs, v.ours) {
		if set {
			w.out.Equal = append(w.out.Equal, v.name)
		}
		return
	}
	declared := v.valueType.declared(theirs)
	do := fmt.Sprintf("to keep it, set spec.engine.%s: %s", v.field, theirs)
	if v.valueType == fraction {
		do = fmt.Sprintf("to keep it, set spec.engine.%s: %q", v.field, declared)
	}
	switch {
	case v.name == "IGNORE_DRA_REQUESTS":
		do = withoutField()[v.name]
	case v.field == "":
		do = "nothing can be done: " + withoutField()[v.name]
	case declared == nil:
		do = fmt.Sprintf("nothing can be done: spec.engine.%s takes no such value", v.field)
	default:
		w.keep(v.field, declared)
	}
	w.differs(do, "its %s is %s, and would be %s", v.name, v.valueType.printable(theirs), v.ours)
}

// keep puts a field of spec.engine among those that keep a setting.
func (w *comparer) keep(field string, value any) {
	if w.out.Keep == nil {
		w.out.Keep = map[string]any{}
	}
	w.out.Keep[field] = value
}

// withoutField is why there is no field of the Cluster for a variable.
func withoutField() map[string]string {
	return map[string]string{
		"IGNORE_DRA_REQUESTS": "it follows from spec.engine.featureGates: {DRANVIDIAGPU: true}",
		"EKS_CONTROL_PLANE":   "the engine always reads the cluster's version from EKS",
		"LEGACY_NODE_REPAIR":  "the engine does not offer it, since upstream plans to remove it",
		"SCHEDULER_CONFIG":    "the engine does not offer it, since EKS does not let one configure its scheduler",
	}
}

// ofInstallation are the variables, with their defaults, that configure a process and not what it
// does to nodes. Poolwright's process has its own.
func ofInstallation() map[string]string {
	return map[string]string{
		"METRICS_PORT": "8080", "HEALTH_PROBE_PORT": "8081", "ENABLE_PROFILING": "false", "DISABLE_CONTROLLER_WARMUP": "true",
		"MEMORY_LIMIT": "-1", "LOG_LEVEL": "info", "LOG_OUTPUT_PATHS": "stdout", "LOG_ERROR_OUTPUT_PATHS": "stderr",
	}
}

// installation reports which of those have other values than by default.
func (w *comparer) installation() {
	var names []string
	for name, standard := range ofInstallation() {
		if theirs := cmp.Or(w.karpenter.options.values[name], standard); theirs != standard {
			names = append(names, name+" is "+theirs)
		}
	}
	if slices.Sort(names); len(names) > 0 {
		w.differs("nothing, or set what the Deployment of Poolwright has in their place", "not carried over, for it configures the process and no node: %s", strings.Join(names, ", "))
	}
}

// addUnreadable reports what is not compared. What decides whose the nodes are, and whether
// they stay, must be known.
func (w *comparer) addUnreadable() {
	o := w.karpenter.options
	for _, name := range []string{"CLUSTER_NAME", "INTERRUPTION_QUEUE", caBundle} {
		if o.unknown(name) {
			w.blocking("write it into the Deployment's env, or into a ConfigMap", "its %s is not known, or may come from where it cannot be read", name)
		}
	}
	names := slices.DeleteFunc(slices.Clone(o.unreadable), func(n string) bool {
		return slices.Contains([]string{"SYSTEM_NAMESPACE", "CPU_REQUESTS", "MEMORY_LIMIT", "CLUSTER_NAME", "INTERRUPTION_QUEUE", caBundle}, n)
	})
	if names = append(names, o.elsewhere...); len(names) > 0 {
		w.differs("compare them yourself", "not read, for they come from Secrets or are put together in the pod: %s", strings.Join(names, ", "))
	}
}

// queue is a blocking difference, because nodes would end without a warning.
func (w *comparer) queue() {
	theirs, ours := w.karpenter.options.values["INTERRUPTION_QUEUE"], w.settings.InterruptionQueue
	if theirs != "" && theirs != ours {
		w.keep("interruptionQueue", theirs)
	}
	const remedy = "declare spec.interruptionQueue: {name: %[1]s}, or only read it with spec.engine.interruptionQueue: %[1]s"
	switch {
	case w.karpenter.options.unknown("INTERRUPTION_QUEUE"): // reported by unread
	case theirs == ours && theirs != "":
		w.out.Equal = append(w.out.Equal, "INTERRUPTION_QUEUE")
	case theirs != "" && ours == "":
		w.blocking(fmt.Sprintf(remedy, theirs), "it reads the queue %s, and nothing would read it any more: nodes would be interrupted without being drained", theirs)
	case theirs != "" && theirs != ours:
		w.blocking(fmt.Sprintf(remedy, theirs), "it reads the queue %s, and %s would be read", theirs, ours)
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
		{"BATCH_IDLE_DURATION", "1s", batchIdle(s), "batchIdleDuration", duration},
		{"BATCH_MAX_DURATION", "10s", s.Batch.Max.String(), "batchMaxDuration", duration},
		{"PREFERENCE_POLICY", "Respect", s.Scheduling.PreferencePolicy, "preferencePolicy", text},
		{"MIN_VALUES_POLICY", "Strict", s.Scheduling.MinValuesPolicy, "minValuesPolicy", text},
		// It follows from the feature gate DRANVIDIAGPU.
		{"IGNORE_DRA_REQUESTS", "true", strconv.FormatBool(!s.EffectiveFeatureGates()[engine.GateDRA]), noField, boolean},
		{"CPU_REQUESTS", "1000", strconv.FormatInt(s.Scheduling.CPURequests, 10), "cpuRequests", positive},
		{"VM_MEMORY_OVERHEAD_PERCENT", "0.075", strconv.FormatFloat(s.Nodes.VMMemoryOverheadPercent, 'g', -1, 64), "vmMemoryOverheadPercent", fraction},
		{"RESERVED_ENIS", "0", strconv.Itoa(s.Nodes.ReservedENIs), "reservedENIs", integer},
		{"CLUSTER_ENDPOINT", "EKS's", cmp.Or(s.Nodes.Endpoint, "EKS's"), "clusterEndpoint", httpsURL},
		{"EKS_CONTROL_PLANE", "false", strconv.FormatBool(s.AWS.EKSControlPlane), noField, boolean},
		{"ISOLATED_VPC", "false", strconv.FormatBool(s.AWS.IsolatedVPC), "isolatedVPC", boolean},
		{"ENABLE_ZONAL_SHIFT", "false", strconv.FormatBool(s.AWS.ZonalShift), "enableZonalShift", boolean},
		{"DISABLE_DRY_RUN", "false", strconv.FormatBool(s.AWS.DisableDryRun), "disableDryRun", boolean},
		{"AMI_REFRESH_INTERVAL", "1m", s.AWS.AMIRefreshInterval.String(), "amiRefreshInterval", duration},
		{"SUBNET_REFRESH_INTERVAL", "1m", s.AWS.SubnetRefreshInterval.String(), "subnetRefreshInterval", duration},
		{"SECURITY_GROUP_REFRESH_INTERVAL", "1m", s.AWS.SecurityGroupRefreshInterval.String(), "securityGroupRefreshInterval", duration},
		{"KUBE_CLIENT_QPS", "200", strconv.Itoa(s.Kubernetes.QPS), "kubeClientQPS", positive},
		{"KUBE_CLIENT_BURST", "300", strconv.Itoa(s.Kubernetes.Burst), "kubeClientBurst", positive},
		{"DISABLE_CLUSTER_STATE_OBSERVABILITY", "false", strconv.FormatBool(s.Kubernetes.DisableClusterStateObservability), "disableClusterStateObservability", boolean},
		{"LEGACY_NODE_REPAIR", "false", "false", noField, boolean},
		{"SCHEDULER_CONFIG", unset, unset, noField, text},
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
