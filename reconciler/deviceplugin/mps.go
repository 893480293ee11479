package deviceplugin

// Where the MPS control daemon and its clients meet: the plugin mounts the host's
// folders into every pod that gets a share. Inside its own containers the paths are
// NVIDIA's and fixed.
const (
	mpsRoot    = "/run/nvidia/mps"
	mpsShm     = mpsRoot + "/shm"
	mpsInside  = "/mps"
	shmInside  = "/dev/shm"
	mpsProgram = "mps-control-daemon"
)

// addMPS puts the control daemon beside the plugin, in one pod: they read one
// configuration, and one without the other shares nothing. The daemon is a sidecar
// among the init containers, so that it has started before the plugin does: a plugin
// that finds none waits half a minute before it tries again. Every version of
// Kubernetes that EKS offers starts sidecars so.
func addMPS(pod, plugin map[string]any, image string) {
	mps := map[string]any{"name": "mps", "mountPath": mpsInside}
	shm := map[string]any{"name": "mps-shm", "mountPath": shmInside}

	plugin["command"] = append(plugin["command"].([]any), "--mps-root="+mpsRoot)
	plugin["volumeMounts"] = append(plugin["volumeMounts"].([]any), mps, shm)

	// The shared memory must be on the host before any container mounts it.
	mount := container("mps-shm", image, mpsProgram, "mount-shm")
	mount["securityContext"] = map[string]any{"privileged": true}
	mount["volumeMounts"] = []any{map[string]any{"name": "mps", "mountPath": mpsInside, "mountPropagation": "Bidirectional"}}

	daemon := container(mpsProgram, image, mpsProgram, "--config-file="+configFolder+"/"+configKey)
	// It sets the GPUs' compute mode.
	daemon["securityContext"] = map[string]any{"privileged": true}
	daemon["volumeMounts"] = []any{configMount(), mps, shm}
	daemon["restartPolicy"] = "Always"

	// The server finds itself and its clients by their process ids on the host.
	pod["hostPID"] = true
	pod["initContainers"] = []any{mount, daemon}
	pod["volumes"] = append(pod["volumes"].([]any),
		map[string]any{"name": "mps", "hostPath": map[string]any{"path": mpsRoot, "type": "DirectoryOrCreate"}},
		map[string]any{"name": "mps-shm", "hostPath": map[string]any{"path": mpsShm}},
	)
}
