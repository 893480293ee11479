package deviceplugin

import (
	"fmt"
	"maps"
	"path"

	corev1 "k8s.io/api/core/v1"
)

// ConfigMaps reads a ConfigMap; nil without an error when there is none.
type ConfigMaps func(namespace, name string) (*corev1.ConfigMap, error)

// Unmountable names those of a pod's volumes that cannot be mounted because a ConfigMap
// or a key of one is not there; "" when none. Until then a kubelet starts no container
// of the pod. An error is one of get.
func Unmountable(pod *corev1.Pod, get ConfigMaps) (string, error) {
	for i := range pod.Spec.Volumes {
		for _, r := range references(&pod.Spec.Volumes[i]) {
			cm, err := get(pod.Namespace, r.name)
			if err != nil {
				return "", err
			}
			if r.optional {
				continue
			}
			if cm == nil {
				return fmt.Sprintf("there is no ConfigMap %s/%s for the volume %q", pod.Namespace, r.name, pod.Spec.Volumes[i].Name), nil
			}
			for _, item := range r.items {
				if _, found := cm.Data[item.Key]; !found {
					return fmt.Sprintf("the ConfigMap %s/%s has no key %q for the volume %q", pod.Namespace, r.name, item.Key, pod.Spec.Volumes[i].Name), nil
				}
			}
		}
	}
	return "", nil
}

// reference is a volume's source that is a ConfigMap.
type reference struct {
	name     string
	items    []corev1.KeyToPath
	optional bool
}

// references are the ConfigMaps that a volume is made of.
func references(v *corev1.Volume) []reference {
	if cm := v.ConfigMap; cm != nil {
		return []reference{{cm.Name, cm.Items, cm.Optional != nil && *cm.Optional}}
	}
	var out []reference
	if v.Projected != nil {
		for _, source := range v.Projected.Sources {
			if cm := source.ConfigMap; cm != nil {
				out = append(out, reference{cm.Name, cm.Items, cm.Optional != nil && *cm.Optional})
			}
		}
	}
	return out
}

// configMapFiles returns the files of a volume that comes from ConfigMaps; ok is
// false when the volume is of another kind.
func configMapFiles(pod *corev1.Pod, v *corev1.Volume, get ConfigMaps) (files map[string]string, ok bool, err error) {
	if v.ConfigMap == nil && v.Projected == nil {
		return nil, false, nil
	}
	files = map[string]string{}
	for _, r := range references(v) {
		if err := addFiles(files, pod.Namespace, r, get); err != nil {
			return nil, true, err
		}
	}
	return files, true, nil
}

func addFiles(files map[string]string, namespace string, r reference, get ConfigMaps) error {
	cm, err := get(namespace, r.name)
	switch {
	case err != nil:
		return err
	case cm == nil && r.optional:
		return nil
	case cm == nil:
		return fmt.Errorf("there is no ConfigMap %s/%s", namespace, r.name)
	case len(r.items) == 0:
		maps.Copy(files, cm.Data)
	}
	for _, item := range r.items {
		text, found := cm.Data[item.Key]
		if !found && !r.optional {
			return fmt.Errorf("the ConfigMap %s/%s has no key %q", namespace, r.name, item.Key)
		}
		if found {
			files[path.Clean(item.Path)] = text
		}
	}
	return nil
}
