package deviceplugin

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const (
	migImage   = "k8s-mig-manager"
	migProgram = "nvidia-mig-parted"
)

// partitioned are the models, by EC2's names, whose GPUs MIG partitions.
func partitioned() map[string]bool {
	return map[string]bool{"A100": true, "H100": true, "H200": true, "B200": true, "B300": true, "RTX PRO Server 6000": true}
}

// HasMIG reports whether GPUs of a model, by EC2's name of it, can be partitioned. nvidia-mig-parted leaves others as they are, and
// ends without an error.
func HasMIG(model string) bool { return partitioned()[model] }

// NeedsReset reports whether GPUs of a model, by EC2's name of it, are reset to enable MIG, which EC2 does not allow.
func NeedsReset(model string) bool { return model == "A100" }

// partitions is the file of nvidia-mig-parted.
type partitions struct {
	Version string `json:"version"`
	Configs map[string][]struct {
		Devices any            `json:"devices"`
		Enabled bool           `json:"mig-enabled"`
		Each    map[string]int `json:"mig-devices"`
	} `json:"mig-configs"`
}

// partition adds to a configuration the MIG devices that an init container of the plugin's pod makes of each GPU. An error is why
// it, or the plugin behind it, does not start.
func partition(c *Config, pod *corev1.Pod, plugin *corev1.Container, nodeLabels map[string]string, get ConfigMaps) error {
	at := slices.IndexFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
		return strings.HasPrefix(baseImage(c.Image), migImage) && len(c.Command) > 1 && path.Base(c.Command[0]) == migProgram && c.Command[1] == "apply"
	})
	if at < 0 {
		return nil
	}
	parted := &pod.Spec.InitContainers[at]
	if err := mayPartition(c, pod, parted, plugin); err != nil {
		return err
	}
	file, err := option(parted, "config-file", "MIG_PARTED_CONFIG_FILE")
	if err != nil {
		return err
	}
	selected, err := option(parted, "selected-config", "MIG_PARTED_SELECTED_CONFIG")
	if err != nil {
		return err
	}
	text, err := readFile(pod, parted, file, nodeLabels, get)
	if err != nil {
		return fmt.Errorf("reading the file of nvidia-mig-parted: %w", err)
	}
	if c.MIGDevices, err = devicesOfEach(text, selected); err != nil {
		return err
	}
	if c.MIGStrategy == migSingle && len(c.MIGDevices) > 1 {
		return errors.New("invalid MIG configuration: the node has more than one type of MIG device, and migStrategy is single")
	}
	return nil
}

// mayPartition is an error where nvidia-mig-parted, or the plugin behind it, may not do what it has to.
func mayPartition(c *Config, pod *corev1.Pod, parted, plugin *corev1.Container) error {
	switch {
	case !isPrivileged(parted):
		return errors.New("nvidia-mig-parted may not partition GPUs: its container is not privileged")
	case !hasDevices(pod, parted):
		return errors.New("nvidia-mig-parted does not find the GPUs' devices: the node's /dev is not mounted at /dev in its container")
	case (c.MIGStrategy == migSingle || c.MIGStrategy == migMixed) && !isPrivileged(plugin):
		return errors.New("the device plugin may not open MIG devices: migStrategy is " + c.MIGStrategy + ", and its container is not privileged")
	default:
		return nil
	}
}

func isPrivileged(c *corev1.Container) bool {
	return c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
}

// hasDevices reports whether a container has the node's /dev. The device files of MIG's capabilities come there while it runs, and a
// privileged container without that mount has a copy of its own, which is made when it starts.
func hasDevices(pod *corev1.Pod, c *corev1.Container) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
		return path.Clean(m.MountPath) == "/dev" && slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.Name == m.Name && v.HostPath != nil && path.Clean(v.HostPath.Path) == "/dev"
		})
	})
}

// devicesOfEach are the MIG devices that a configuration in a file of nvidia-mig-parted makes of each GPU.
func devicesOfEach(text []byte, selected string) (map[string]int, error) {
	var f partitions
	if err := yaml.UnmarshalStrict(text, &f); err != nil || f.Version != "v1" {
		return nil, errors.New("the file of nvidia-mig-parted is not of version v1 and the expected shape")
	}
	parts := f.Configs[selected]
	if len(parts) != 1 || parts[0].Devices != "all" || !parts[0].Enabled {
		return nil, fmt.Errorf("the sandbox emulates a configuration of nvidia-mig-parted that partitions all GPUs alike, and %q is none", selected)
	}
	return parts[0].Each, nil
}
