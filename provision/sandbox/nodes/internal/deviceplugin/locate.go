package deviceplugin

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	imageName      = "k8s-device-plugin"
	configLabel    = "nvidia.com/device-plugin.config"
	programPlugin  = "nvidia-device-plugin"
	programMPS     = "mps-control-daemon"
	programManager = "config-manager"
)

// Runs reports whether a pod holds the device plugin itself.
func Runs(pod *corev1.Pod) bool { return PluginContainer(pod) != "" }

// PluginContainer names the container of a pod that runs the plugin; "" is none.
func PluginContainer(pod *corev1.Pod) string {
	if c := container(pod.Spec.Containers, programPlugin); c != nil {
		return c.Name
	}
	return ""
}

// DaemonContainer names the container of a pod that runs the daemon that MPS
// sharing needs; "" is none. An init container is one only if it goes on beside the
// others: the plugin's pods also mount the daemon's memory in one that ends.
func DaemonContainer(pod *corev1.Pod) string {
	stays := slices.DeleteFunc(slices.Clone(pod.Spec.InitContainers), func(c corev1.Container) bool {
		return c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways
	})
	if c := container(append(stays, pod.Spec.Containers...), programMPS); c != nil {
		return c.Name
	}
	return ""
}

// WatchedLabel returns the node label that makes a pod's config manager switch the
// plugin's configuration while it runs; "" when nothing watches one.
func WatchedLabel(pod *corev1.Pod) string {
	manager := container(pod.Spec.Containers, programManager)
	if manager == nil {
		return ""
	}
	if label, err := option(manager, "node-label", "NODE_LABEL"); err == nil && label != "" {
		return label
	}
	return configLabel
}

// Locate finds and reads the configuration that the plugin in a pod uses on a
// node with the given labels. An error is why the plugin would not start.
func Locate(pod *corev1.Pod, nodeLabels map[string]string, get ConfigMaps) (Config, error) {
	plugin := container(pod.Spec.Containers, programPlugin)
	if plugin == nil {
		return Config{}, fmt.Errorf("pod %s/%s does not run the device plugin", pod.Namespace, pod.Name)
	}
	file, err := option(plugin, "config-file", "CONFIG_FILE")
	if err != nil {
		return Config{}, err
	}
	fails, given, err := toggle(plugin, "fail-on-init-error", "FAIL_ON_INIT_ERROR")
	if err != nil {
		return Config{}, err
	}
	config := Config{Strategy: SharingStrategyNone, Resource: GPU}
	if file != "" {
		text, err := readFile(pod, plugin, file, nodeLabels, get)
		if err != nil {
			return Config{}, fmt.Errorf("reading the device plugin's configuration: %w", err)
		}
		if config, err = ParseConfig(text); err != nil {
			return Config{}, err
		}
	}
	if given {
		config.Patient = !fails
	}
	if config.Strategy == SharingStrategyMPS && !config.MPSRoot {
		if root, err := option(plugin, "mps-root", "MPS_ROOT"); err != nil || root == "" {
			return Config{}, errors.New("the device plugin refuses MPS without --mps-root, MPS_ROOT or flags.mpsRoot")
		}
	}
	return config, partition(&config, pod, plugin, nodeLabels, get)
}

// container finds the container with the plugin's image that runs a program. The
// image's default program is the plugin.
func container(list []corev1.Container, program string) *corev1.Container {
	for i := range list {
		c := &list[i]
		if !strings.HasPrefix(baseImage(c.Image), imageName) {
			continue
		}
		if runs(c) == program {
			return c
		}
	}
	return nil
}

func runs(c *corev1.Container) string {
	if len(c.Command) == 0 {
		return programPlugin
	}
	program := path.Base(c.Command[0])
	if program != "sh" && program != "bash" {
		return program
	}
	// A shell wrapper: the program is what its script mentions.
	script := strings.Join(append(slices.Clone(c.Command[1:]), c.Args...), " ")
	for _, known := range []string{programMPS, programManager, programPlugin} {
		if strings.Contains(script, known) {
			return known
		}
	}
	return program
}

func baseImage(image string) string {
	image, _, _ = strings.Cut(image, "@")
	return path.Base(image)
}

// toggle returns a setting that is true or false; given is false when neither flag
// nor environment has it. As a flag without a value it is true.
func toggle(c *corev1.Container, flag, env string) (value, given bool, err error) {
	for _, arg := range append(slices.Clone(c.Command), c.Args...) {
		if strings.TrimLeft(arg, "-") == flag && strings.HasPrefix(arg, "-") {
			return true, true, nil
		}
	}
	text, err := option(c, flag, env)
	if err != nil || text == "" {
		return false, false, err
	}
	if value, err = strconv.ParseBool(text); err != nil {
		return false, false, fmt.Errorf("the device plugin's --%s is neither true nor false", flag)
	}
	return value, true, nil
}

// option returns a setting: the flag wins over the environment.
func option(c *corev1.Container, flag, env string) (string, error) {
	argv := append(slices.Clone(c.Command), c.Args...)
	for i, arg := range argv {
		name, value, given := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if name != flag || !strings.HasPrefix(arg, "-") {
			continue
		}
		if !given && i+1 < len(argv) {
			value = argv[i+1]
		}
		return value, nil
	}
	for _, e := range c.Env {
		if e.Name != env {
			continue
		}
		if e.ValueFrom != nil {
			return "", fmt.Errorf("the device plugin's %s comes from valueFrom, which the sandbox does not follow; give it a value", env)
		}
		return e.Value, nil
	}
	return "", nil
}

// readFile returns the text of a file in a container, from a ConfigMap mounted
// there or through the config manager that shares a volume with the plugin.
func readFile(pod *corev1.Pod, c *corev1.Container, file string, nodeLabels map[string]string, get ConfigMaps) ([]byte, error) {
	volume, rel := mounted(pod, c, file)
	if volume == nil {
		return nil, fmt.Errorf("no volume holds %s", file)
	}
	if files, ok, err := configMapFiles(pod, volume, get); err != nil {
		return nil, err
	} else if ok {
		text, found := files[rel]
		if !found {
			return nil, fmt.Errorf("the volume %q has no file %q", volume.Name, rel)
		}
		return []byte(text), nil
	}
	if volume.EmptyDir == nil {
		return nil, fmt.Errorf("the volume %q is neither a ConfigMap nor an emptyDir that a config manager fills", volume.Name)
	}
	return managed(pod, volume.Name, rel, nodeLabels, get)
}

// mounted finds the volume behind a path and the path inside the volume.
func mounted(pod *corev1.Pod, c *corev1.Container, file string) (*corev1.Volume, string) {
	var best *corev1.VolumeMount
	for i, m := range c.VolumeMounts {
		root := path.Clean(m.MountPath)
		if file != root && !strings.HasPrefix(file, strings.TrimSuffix(root, "/")+"/") {
			continue
		}
		if best == nil || len(root) > len(path.Clean(best.MountPath)) {
			best = &c.VolumeMounts[i]
		}
	}
	if best == nil {
		return nil, ""
	}
	rel := path.Join(best.SubPath, strings.TrimPrefix(strings.TrimPrefix(file, path.Clean(best.MountPath)), "/"))
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == best.Name {
			return &pod.Spec.Volumes[i], rel
		}
	}
	return nil, ""
}
