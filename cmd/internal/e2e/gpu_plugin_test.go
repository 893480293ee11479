package e2e

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision/gpu"
)

// devicePluginText declares the configurations, with the default version where none is
// given.
func devicePluginText(version string, configs ...string) string {
	if version != "" {
		version = "  version: " + version + "\n"
	}
	return "apiVersion: poolwright.dev/v1alpha1\nkind: DevicePlugin\nmetadata: {name: nvidia}\nspec:\n" + version + "  configs:\n" + strings.Join(configs, "")
}

// configText is one configuration of it.
func configText(p gpu.PluginConfig) string {
	field := map[gpu.SharingStrategy]string{gpu.SharingStrategyTimeSlicing: "timeSlicing", gpu.SharingStrategyMPS: "mps"}[p.Strategy]
	return fmt.Sprintf("    - {name: %s, nodePools: [%s], readyTimeout: %s, %s: {replicas: %d, renameByDefault: %t}}\n",
		p.Name, strings.Join(p.Pools, ", "), cmp.Or(p.ReadyTimeout, 30*time.Minute), field, p.Replicas, p.Renamed)
}

// stockPlugin is what NVIDIA's chart makes of the values of set-up 001: a ConfigMap
// and a DaemonSet for the nodes of the pool, and the MPS daemon beside it.
func stockPlugin(c *contender) string {
	sharing, volumes, mounts, env := "timeSlicing", "", "", ""
	daemon := ""
	if c.strategy == gpu.SharingStrategyMPS {
		sharing = "mps"
		volumes, mounts = "        - {name: mps-root, hostPath: {path: /run/nvidia/mps}}\n        - {name: mps-shm, hostPath: {path: /run/nvidia/mps/shm}}\n",
			"            - {name: mps-root, mountPath: /mps}\n            - {name: mps-shm, mountPath: /dev/shm}\n"
		env = "            - {name: MPS_ROOT, value: /run/nvidia/mps}\n"
		daemon = stockDaemonSet(c.pool(), "mps-control-daemon", "          command: [mps-control-daemon]\n", env, mounts, volumes)
	}
	return fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata: {name: %s, namespace: kube-system}
data:
  any: |-
    version: v1
    flags: {migStrategy: none}
    sharing:
      %s:
        renameByDefault: %t
        resources: [{name: nvidia.com/gpu, replicas: %d}]
`, c.pool(), sharing, c.renamed, gpuReplicas) +
		stockDaemonSet(c.pool(), "nvidia-device-plugin", "", env, mounts, volumes) + daemon
}

func stockDaemonSet(pool, program, command, env, mounts, volumes string) string {
	return fmt.Sprintf(`---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: %[1]s-%[2]s, namespace: kube-system}
spec:
  selector: {matchLabels: {app: %[1]s-%[2]s}}
  template:
    metadata: {labels: {app: %[1]s-%[2]s}}
    spec:
      priorityClassName: system-node-critical
      nodeSelector: {nodepool: %[1]s}
      tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
      containers:
        - name: %[2]s
          image: nvcr.io/nvidia/k8s-device-plugin:v0.19.3
%[3]s          env:
            - {name: CONFIG_FILE, value: /config/any}
%[4]s          volumeMounts:
            - {name: config, mountPath: /config}
            - {name: device-plugin, mountPath: /var/lib/kubelet/device-plugins}
%[5]s      volumes:
        - {name: config, configMap: {name: %[1]s}}
        - {name: device-plugin, hostPath: {path: /var/lib/kubelet/device-plugins}}
%[6]s`, pool, program, command, env, mounts, volumes)
}
