package deviceplugin

import (
	"encoding/json"
	"slices"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/aws/karpenter-provider-aws/pkg/providers/nvidiadra"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

const (
	draName    = "nvidia-dra-driver-gpu"
	draProgram = "gpu-kubelet-plugin"
	// DRADriver is the name under which NVIDIA's DRA driver publishes its ResourceSlices, and the name of the
	// DeviceClass of whole GPUs, as in its documentation and its chart.
	DRADriver = "gpu.nvidia.com"

	// draGate is Karpenter's feature gate by which it launches nodes for claims of GPUs.
	draGate = "DRANVIDIAGPU"

	pluginsFolder  = "/var/lib/kubelet/plugins"
	registryFolder = "/var/lib/kubelet/plugins_registry"
	cdiFolder      = "/var/run/cdi"
	driverFolder   = "/driver-root"
	rbacGroup      = "rbac.authorization.k8s.io"
	resourceGroup  = "resource.k8s.io"
)

// draDriver makes what a configuration by the DRA driver needs beside its overlays, by which Karpenter counts no
// nvidia.com/gpu on the nodes: the same GPU would otherwise be advertised twice.
func (e *expander) draDriver(from state.Item, spec v1alpha1.DevicePluginSpec, p gpu.PluginConfig) {
	on := e.selection(p)
	if !e.driverMade {
		e.driverMade = true
		e.make(from, resourceGroup, "DeviceClass", "v1", gpuClass())
		e.make(from, "", "ServiceAccount", "v1", driverObject("v1", "ServiceAccount", gpu.PluginNamespace))
		e.make(from, rbacGroup, "ClusterRole", "v1", driverRole())
		e.make(from, rbacGroup, "ClusterRoleBinding", "v1", driverBinding())
	}
	for _, config := range spec.Configs {
		if config.Name == p.Name && config.DRADriver != nil {
			e.make(from, "apps", "DaemonSet", "v1", driverDaemonSet(spec, *config.DRADriver, p, on))
		}
	}
}

// refuseOnBottlerocket reports pools of the DRA driver whose nodes advertise the same GPUs by a device plugin already.
func (e *expander) refuseOnBottlerocket(plugin state.Item) {
	for _, pool := range e.builtin() {
		if config, dra := e.sharing.DRAForPool(pool); dra {
			e.problem(plugin, codeDRADriverOnBottlerocket, "%s: configuration %s has NVIDIA's DRA driver for NodePool %s, whose nodes run Bottlerocket with a device plugin of its own, so that each GPU would be advertised twice: use an EC2NodeClass of AL2023, or a configuration of the device plugin",
				finding.NewFact("object", plugin.Key), finding.NewFact("config", config.Name), finding.NewFact("nodePool", pool))
		}
	}
}

// refuseSharedDevices reports EC2NodeClasses of the driver's pools by which Karpenter would place several claims on a GPU. The driver allocates
// each GPU to one claim, since what it has for more is of alpha stage and is not switched on here: pods of the others would
// stay pending on a node that was launched for them.
func (e *expander) refuseSharedDevices() {
	served := map[string]bool{}
	for _, pool := range e.pools {
		if _, dra := e.sharing.DRAForPool(pool.Key.Name); dra {
			served[className(pool)] = true
		}
	}
	for _, class := range e.classes {
		if !served[class.Key.Name] {
			continue
		}
		value, _ := at(class.Object, "metadata", "annotations")[awsv1.AnnotationNVIDIAConsumableCapacity].(string)
		// What Karpenter cannot read is its own to report, in the class's conditions.
		if mode, err := nvidiadra.ParseConsumableCapacity(value); err != nil || mode == nil {
			continue
		}
		e.exclude(class)
		e.problem(class, codeDRADriverSharesNoGPUs, "%s: by the annotation %s Karpenter places several claims on a GPU, and NVIDIA's DRA driver allocates each GPU to one: take the annotation out, or share GPUs by timeSlicing or mps in a pool of the device plugin",
			finding.NewFact("object", class.Key), finding.NewFact("annotation", awsv1.AnnotationNVIDIAConsumableCapacity))
	}
}

// refuseWithoutGate reports what keeps Karpenter from launching nodes for claims: its alpha is behind a feature gate.
func (e *expander) refuseWithoutGate(plugin state.Item) {
	at := slices.IndexFunc(e.sharing.Configs, func(p gpu.PluginConfig) bool { return p.Strategy == gpu.StrategyDRA })
	if at < 0 {
		return
	}
	for _, item := range e.clusters {
		var declared v1alpha1.Cluster
		raw, err := json.Marshal(map[string]any{"spec": item.Object["spec"]})
		if err != nil || json.Unmarshal(raw, &declared) != nil {
			continue // Its schema reports what is wrong with it.
		}
		if engine := declared.Spec.Engine; engine.Mode != v1alpha1.EngineOff && engine.Mode != v1alpha1.EngineExternal && !engine.FeatureGates[draGate] {
			e.problem(plugin, codeDRAGateRequired, "%s: configuration %s has draDriver, and %s (%s) does not set spec.engine.featureGates: {%s: true}, without which Karpenter launches no node for a ResourceClaim: set it, which is of alpha stage, or take draDriver out",
				finding.NewFact("object", plugin.Key), finding.NewFact("config", e.sharing.Configs[at].Name), finding.NewFact("cluster", item.Key), finding.NewFact("declaredAt", item.Origin), finding.NewFact("featureGate", draGate))
		}
	}
}

// driverObject is the head of an object that all configurations share.
func driverObject(apiVersion, kind, namespace string) map[string]any {
	object := named(apiVersion, kind, namespace, draName, "")
	labels := at(object, "metadata", "labels")
	labels[nameLabel] = draName
	labels[gpu.DRAConfigLabel] = ""
	delete(labels, gpu.ConfigLabel)
	return object
}

// gpuClass is the class of whole GPUs. It has no extendedResourceName: Karpenter does not take into account that a request for
// nvidia.com/gpu may be served by a device.
func gpuClass() map[string]any {
	object := driverObject("resource.k8s.io/v1", "DeviceClass", "")
	at(object, "metadata")["name"] = DRADriver
	object["spec"] = map[string]any{"selectors": []any{map[string]any{"cel": map[string]any{
		"expression": `device.driver == "` + DRADriver + `" && device.attributes["` + DRADriver + `"].type == "gpu"`,
	}}}}
	return object
}

// driverRole is what the driver uses for whole GPUs: its slices, the claims that it prepares, and its own Node, which
// owns the slices.
func driverRole() map[string]any {
	object := driverObject("rbac.authorization.k8s.io/v1", "ClusterRole", "")
	object["rules"] = []any{
		map[string]any{"apiGroups": list([]string{resourceGroup}), "resources": list([]string{"resourceslices"}),
			"verbs": list([]string{"get", "list", "watch", "create", "update", "delete"})},
		map[string]any{"apiGroups": list([]string{resourceGroup}), "resources": list([]string{"resourceclaims"}),
			"verbs": list([]string{"get", "list", "watch"})},
		map[string]any{"apiGroups": list([]string{""}), "resources": list([]string{"nodes"}), "verbs": list([]string{"get"})},
	}
	return object
}

func driverBinding() map[string]any {
	object := driverObject("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "")
	object["roleRef"] = map[string]any{"apiGroup": rbacGroup, "kind": "ClusterRole", "name": draName}
	object["subjects"] = []any{map[string]any{"kind": "ServiceAccount", "name": draName, "namespace": gpu.PluginNamespace}}
	return object
}

// driverDaemonSet runs the driver's part for GPUs on the GPU nodes of the pools. Its slices stay while it restarts, so
// that its pods are replaced by the DaemonSet's own controller, one at a time.
func driverDaemonSet(spec v1alpha1.DevicePluginSpec, driver v1alpha1.DRADriver, p gpu.PluginConfig, on selection) map[string]any {
	object := driverObject("apps/v1", "DaemonSet", gpu.PluginNamespace)
	metadata := at(object, "metadata")
	metadata["name"] = draName + "-" + p.Name
	// Not the label of the device plugin's DaemonSets, whose pods are replaced by others than the DaemonSet's controller.
	labels := map[string]any{nameLabel: draName, instanceLabel: p.Name, managedByLabel: "poolwright"}
	metadata["labels"] = with(labels, gpu.DRAConfigLabel, p.Name)
	object["spec"] = map[string]any{
		"selector":       map[string]any{"matchLabels": map[string]any{nameLabel: draName, instanceLabel: p.Name}},
		"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxUnavailable": int64(1)}},
		"template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec": map[string]any{
				"priorityClassName":  "system-node-critical",
				"serviceAccountName": draName,
				"affinity": map[string]any{"nodeAffinity": map[string]any{
					"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{"nodeSelectorTerms": []any{
						map[string]any{"matchExpressions": append(on.requirements(), oneOf(manufacturerLabel, manufacturer))},
					}},
				}},
				"tolerations": tolerations(spec),
				"containers":  []any{driverContainer(spec, driver)},
				"volumes": []any{
					hostFolder("plugins", pluginsFolder), hostFolder("registry", registryFolder), hostFolder("cdi", cdiFolder), hostFolder("driver-root", "/"),
				},
			},
		},
	}
	return object
}

// driverContainer is the driver. It has no flag that make gpu-recording runs it without, which gives other values, and
// a kubeconfig and folders beside.
func driverContainer(spec v1alpha1.DevicePluginSpec, driver v1alpha1.DRADriver) map[string]any {
	image := driver.Image + ":" + driver.Version
	object := map[string]any{
		"name": draProgram, "image": image,
		"command": list([]string{draProgram, "--node-name=$(NODE_NAME)", "--image-name=" + image, "--cdi-root=" + cdiFolder,
			"--nvidia-driver-root=/", "--container-driver-root=" + driverFolder}),
		"env": []any{
			map[string]any{"name": "NODE_NAME", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "spec.nodeName"}}},
			// The driver reads the host's files: the NVIDIA runtime must add none.
			map[string]any{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
		},
		// It makes device nodes and mounts for the pods of its node.
		"securityContext":          map[string]any{"privileged": true},
		"terminationMessagePolicy": "FallbackToLogsOnError",
		"volumeMounts": []any{
			map[string]any{"name": "plugins", "mountPath": pluginsFolder, "mountPropagation": "Bidirectional"},
			map[string]any{"name": "registry", "mountPath": registryFolder},
			map[string]any{"name": "cdi", "mountPath": cdiFolder},
			map[string]any{"name": "driver-root", "mountPath": driverFolder, "mountPropagation": "HostToContainer"},
		},
	}
	if r := resources(spec.Resources); len(r) > 0 {
		object["resources"] = r
	}
	return object
}

func hostFolder(name, path string) map[string]any {
	return map[string]any{"name": name, "hostPath": map[string]any{"path": path}}
}
