package userdata

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	corev1 "k8s.io/api/core/v1"
)

// settings is the part of Bottlerocket's settings that is read. The kubernetes table
// stays open, because its keys depend on the version.
type settings struct {
	Settings struct {
		Kubernetes map[string]any `toml:"kubernetes"`
		Plugins    struct {
			NVIDIA struct {
				Strategy    string `toml:"device-sharing-strategy"`
				TimeSlicing struct {
					Replicas int  `toml:"replicas"`
					Rename   bool `toml:"rename-by-default"`
					FailMany bool `toml:"fail-requests-greater-than-one"`
				} `toml:"time-slicing"`
				MPS struct {
					Replicas int  `toml:"replicas"`
					Rename   bool `toml:"rename-by-default"`
				} `toml:"mps"`
			} `toml:"nvidia"`
		} `toml:"kubelet-device-plugins"`
		Commands map[string]struct {
			Commands [][]string `toml:"commands"`
		} `toml:"bootstrap-commands"`
	} `toml:"settings"`
}

func decodeTOML(text string) (settings, error) {
	var s settings
	if len(text) > maxText {
		return s, fmt.Errorf("it is longer than %d bytes", maxText)
	}
	// The decoder's own error quotes the text, which may be secret.
	if err := toml.Unmarshal([]byte(text), &s); err != nil {
		return s, errors.New("it is not TOML with Bottlerocket's settings")
	}
	return s, nil
}

func parseBottlerocket(text string) (Join, error) {
	s, err := decodeTOML(text)
	if err != nil {
		return Join{}, err
	}
	table := s.Settings.Kubernetes
	join := Join{Cluster: str(table, "cluster-name"), Endpoint: str(table, "api-server"), CA: str(table, "cluster-certificate")}
	for key, value := range map[string]string{"cluster-name": join.Cluster, "api-server": join.Endpoint, "cluster-certificate": join.CA} {
		if value == "" {
			return Join{}, fmt.Errorf("settings.kubernetes.%s is missing", key)
		}
	}
	if join.Kubelet, err = bottlerocketKubelet(table); err != nil {
		return Join{}, err
	}
	join.RAID0 = bindsInstanceStore(s)
	if join.Sharing, err = bottlerocketSharing(s); err != nil {
		return Join{}, err
	}
	return join, join.Kubelet.check()
}

func bottlerocketKubelet(table map[string]any) (Kubelet, error) {
	var k Kubelet
	for key, dst := range map[string]*map[string]string{"node-labels": &k.Labels, "kube-reserved": &k.KubeReserved,
		"system-reserved": &k.SystemReserved, "eviction-hard": &k.EvictionHard} {
		value, ok := table[key]
		if !ok {
			continue
		}
		pairs, ok := stringMap(value)
		if !ok {
			return k, fmt.Errorf("settings.kubernetes.%s is not a table of strings", key)
		}
		*dst = pairs
	}
	if value, ok := table["max-pods"]; ok {
		n, ok := value.(int64)
		if !ok || n <= 0 || n > 1<<20 {
			return k, errors.New("settings.kubernetes.max-pods is not a positive number")
		}
		k.MaxPods = int(n)
	}
	var err error
	k.Taints, err = bottlerocketTaints(table["node-taints"])
	return k, err
}

// bottlerocketTaints reads key → "value:Effect", one or a list.
func bottlerocketTaints(value any) ([]corev1.Taint, error) {
	if value == nil {
		return nil, nil
	}
	malformed := errors.New(`settings.kubernetes.node-taints is not a table of "value:Effect"`)
	table, ok := value.(map[string]any)
	if !ok {
		return nil, malformed
	}
	var taints []corev1.Taint
	for key, entry := range table {
		list, ok := entry.([]any)
		if !ok {
			list = []any{entry}
		}
		for _, item := range list {
			text, ok := item.(string)
			if !ok {
				return nil, malformed
			}
			value, effect, ok := strings.Cut(text, ":")
			if !ok {
				return nil, malformed
			}
			taints = append(taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
		}
	}
	slices.SortFunc(taints, func(a, b corev1.Taint) int { return strings.Compare(a.ToString(), b.ToString()) })
	return taints, nil
}

// bindsInstanceStore reports whether a bootstrap command puts the pods' folders on
// the instance-store disks, which is how RAID0 is configured on Bottlerocket.
func bindsInstanceStore(s settings) bool {
	for _, step := range s.Settings.Commands {
		for _, argv := range step.Commands {
			if len(argv) >= 3 && slices.Equal(argv[:3], []string{"apiclient", "ephemeral-storage", "bind"}) {
				return true
			}
		}
	}
	return false
}

func bottlerocketSharing(s settings) (Sharing, error) {
	nvidia := s.Settings.Plugins.NVIDIA
	sharing := Sharing{Strategy: nvidia.Strategy}
	switch nvidia.Strategy {
	case "", "none":
		return sharing, nil
	case "time-slicing":
		sharing.Replicas, sharing.RenameByDefault = nvidia.TimeSlicing.Replicas, nvidia.TimeSlicing.Rename
		sharing.FailRequestsGreaterThanOne = nvidia.TimeSlicing.FailMany
	case "mps":
		sharing.Replicas, sharing.RenameByDefault = nvidia.MPS.Replicas, nvidia.MPS.Rename
		sharing.FailRequestsGreaterThanOne = true
	default:
		return sharing, errors.New("settings.kubelet-device-plugins.nvidia.device-sharing-strategy is not none, time-slicing or mps")
	}
	if sharing.Replicas < 2 {
		return sharing, fmt.Errorf("settings.kubelet-device-plugins.nvidia: %s needs replicas of 2 or more", nvidia.Strategy)
	}
	return sharing, nil
}

func str(table map[string]any, key string) string {
	s, _ := table[key].(string)
	return s
}

func stringMap(value any) (map[string]string, bool) {
	table, ok := value.(map[string]any)
	if !ok {
		return nil, false
	}
	out := make(map[string]string, len(table))
	for key, v := range table {
		if out[key], ok = v.(string); !ok {
			return nil, false
		}
	}
	return out, true
}
