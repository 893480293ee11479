package userdata

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const nodeConfigGroup = "node.eks.aws"

// nodeConfig is what a Node shows of nodeadm's document. Feature gates and the
// container runtime are read by nodeadm too, but change nothing here.
type nodeConfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		Cluster struct {
			Name     string `json:"name"`
			Endpoint string `json:"apiServerEndpoint"`
			CA       string `json:"certificateAuthority"`
			CIDR     string `json:"cidr"`
		} `json:"cluster"`
		Instance struct {
			LocalStorage struct {
				Strategy string `json:"strategy"`
			} `json:"localStorage"`
		} `json:"instance"`
		Kubelet struct {
			Flags  []string       `json:"flags"`
			Config map[string]any `json:"config"`
		} `json:"kubelet"`
	} `json:"spec"`
}

func parseAL2023(text string) (Join, error) {
	parts, err := split(text)
	if err != nil {
		return Join{}, err
	}
	var merged nodeConfig
	found := false
	for i, p := range parts {
		if !p.isNodeConfig() {
			continue
		}
		var next nodeConfig
		if err := yaml.Unmarshal([]byte(p.body), &next); err != nil {
			return Join{}, fmt.Errorf("MIME part %d is not a NodeConfig that nodeadm can decode", i+1)
		}
		if !strings.HasPrefix(next.APIVersion, nodeConfigGroup+"/") || next.Kind != "NodeConfig" {
			return Join{}, fmt.Errorf("MIME part %d has the content type of a NodeConfig, but another apiVersion or kind", i+1)
		}
		merged.merge(next)
		found = true
	}
	if !found {
		return Join{}, errors.New("there is no NodeConfig in it, which is all that an Amazon Linux 2023 image reads")
	}
	return merged.join()
}

// merge lays a later document over c as nodeadm does: scalars that are set win,
// flags are appended, the kubelet's configuration is merged key by key with
// lists replaced whole.
func (c *nodeConfig) merge(next nodeConfig) {
	override(&c.Spec.Cluster.Name, next.Spec.Cluster.Name)
	override(&c.Spec.Cluster.Endpoint, next.Spec.Cluster.Endpoint)
	override(&c.Spec.Cluster.CA, next.Spec.Cluster.CA)
	override(&c.Spec.Cluster.CIDR, next.Spec.Cluster.CIDR)
	override(&c.Spec.Instance.LocalStorage.Strategy, next.Spec.Instance.LocalStorage.Strategy)
	c.Spec.Kubelet.Flags = append(c.Spec.Kubelet.Flags, next.Spec.Kubelet.Flags...)
	c.Spec.Kubelet.Config = overlay(c.Spec.Kubelet.Config, next.Spec.Kubelet.Config)
}

func override(dst *string, src string) {
	if src != "" {
		*dst = src
	}
}

func overlay(dst, src map[string]any) map[string]any {
	if dst == nil {
		return src
	}
	for key, value := range src {
		if inner, ok := value.(map[string]any); ok {
			if old, ok := dst[key].(map[string]any); ok {
				dst[key] = overlay(old, inner)
				continue
			}
		}
		if value != nil {
			dst[key] = value
		}
	}
	return dst
}

func (c *nodeConfig) join() (Join, error) {
	cluster := c.Spec.Cluster
	for field, value := range map[string]string{"name": cluster.Name, "apiServerEndpoint": cluster.Endpoint,
		"certificateAuthority": cluster.CA, "cidr": cluster.CIDR} {
		if value == "" {
			return Join{}, fmt.Errorf("nodeadm refuses the NodeConfig: spec.cluster.%s is missing", field)
		}
	}
	if strings.Contains(cluster.CIDR, ":") {
		return Join{}, errIPv6
	}
	join := Join{Cluster: cluster.Name, Endpoint: cluster.Endpoint, CA: cluster.CA}
	join.RAID0 = c.Spec.Instance.LocalStorage.Strategy == "RAID0"
	if err := join.Kubelet.configure(c.Spec.Kubelet.Config); err != nil {
		return Join{}, err
	}
	// Flags win over the configuration file, as in kubelet.
	return join, join.Kubelet.extend(strings.Join(c.Spec.Kubelet.Flags, " "))
}

// configure reads a KubeletConfiguration given inline.
func (k *Kubelet) configure(config map[string]any) error {
	raw, err := json.Marshal(config)
	if err != nil {
		return errors.New("spec.kubelet.config is not a KubeletConfiguration")
	}
	var read struct {
		MaxPods            int               `json:"maxPods"`
		PodsPerCore        int               `json:"podsPerCore"`
		RegisterWithTaints []corev1.Taint    `json:"registerWithTaints"`
		KubeReserved       map[string]string `json:"kubeReserved"`
		SystemReserved     map[string]string `json:"systemReserved"`
		EvictionHard       map[string]string `json:"evictionHard"`
	}
	if err := json.Unmarshal(raw, &read); err != nil {
		return errors.New("kubelet refuses spec.kubelet.config: a field has the wrong type")
	}
	if read.MaxPods < 0 || read.PodsPerCore < 0 {
		return errors.New("kubelet refuses spec.kubelet.config: maxPods and podsPerCore must not be negative")
	}
	*k = Kubelet{Taints: read.RegisterWithTaints, MaxPods: read.MaxPods, PodsPerCore: read.PodsPerCore,
		KubeReserved: read.KubeReserved, SystemReserved: read.SystemReserved, EvictionHard: read.EvictionHard}
	return nil
}
