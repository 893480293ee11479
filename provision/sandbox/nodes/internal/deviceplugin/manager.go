package deviceplugin

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// managed returns the file that the config manager links into a shared volume:
// one of several configurations, chosen by the node's label, else the default,
// else the fallback strategies in their order.
func managed(pod *corev1.Pod, volume, rel string, nodeLabels map[string]string, get ConfigMaps) ([]byte, error) {
	manager := container(append(slices.Clone(pod.Spec.InitContainers), pod.Spec.Containers...), programManager)
	if manager == nil {
		return nil, fmt.Errorf("nothing fills the emptyDir %q: the pod has no config manager", volume)
	}
	settings, err := options(manager)
	if err != nil {
		return nil, err
	}
	target, targetRel := mounted(pod, manager, settings.target)
	if target == nil || target.Name != volume || targetRel != rel {
		return nil, fmt.Errorf("the config manager does not write the file %q of the volume %q", rel, volume)
	}
	source, sourceRel := mounted(pod, manager, settings.source)
	if source == nil {
		return nil, fmt.Errorf("no volume holds the config manager's folder %s", settings.source)
	}
	files, ok, err := configMapFiles(pod, source, get)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("the volume %q is not a ConfigMap", source.Name)
	}
	name, err := settings.choose(within(files, sourceRel), nodeLabels[settings.label])
	if err != nil || name == "" {
		return nil, err
	}
	return []byte(files[path.Join(sourceRel, name)]), nil
}

// within returns the names of the files directly in a folder, sorted.
func within(files map[string]string, folder string) []string {
	var names []string
	for file := range files {
		dir, name := path.Split(file)
		if path.Clean("/"+dir) == path.Clean("/"+folder) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

type managerOptions struct {
	label     string
	source    string
	target    string
	preset    string
	fallbacks []string
}

func options(c *corev1.Container) (managerOptions, error) {
	var o managerOptions
	var fallbacks string
	for _, want := range []struct {
		dst       *string
		flag, env string
	}{
		{&o.label, "node-label", "NODE_LABEL"}, {&o.source, "config-file-srcdir", "CONFIG_FILE_SRCDIR"},
		{&o.target, "config-file-dst", "CONFIG_FILE_DST"}, {&o.preset, "default-config", "DEFAULT_CONFIG"},
		{&fallbacks, "fallback-strategies", "FALLBACK_STRATEGIES"},
	} {
		value, err := option(c, want.flag, want.env)
		if err != nil {
			return o, err
		}
		*want.dst = value
	}
	if o.label == "" {
		o.label = configLabel
	}
	if o.source == "" || o.target == "" {
		return o, errors.New("the config manager has no CONFIG_FILE_SRCDIR or no CONFIG_FILE_DST")
	}
	for f := range strings.SplitSeq(fallbacks, ",") {
		if f = strings.TrimSpace(f); f != "" {
			o.fallbacks = append(o.fallbacks, f)
		}
	}
	return o, nil
}

// choose returns the configuration's name, "" for the empty configuration.
func (o managerOptions) choose(available []string, label string) (string, error) {
	if len(available) == 0 {
		return "", errors.New("the config manager finds no configurations")
	}
	for _, name := range []string{label, o.preset} {
		if name == "" {
			continue
		}
		if !slices.Contains(available, name) {
			return "", fmt.Errorf("the config manager finds no configuration %q", name)
		}
		return name, nil
	}
	for _, fallback := range o.fallbacks {
		switch fallback {
		case "named":
			if slices.Contains(available, "default") {
				return "default", nil
			}
		case "single":
			if len(available) == 1 {
				return available[0], nil
			}
		case "empty":
			return "", nil
		default:
			return "", fmt.Errorf("the config manager has no fallback strategy %q", fallback)
		}
	}
	return "", errors.New("the config manager has no label, no default and no fallback that chooses a configuration")
}
