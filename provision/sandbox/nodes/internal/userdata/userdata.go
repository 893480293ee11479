package userdata

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Family is how an image reads its user data.
type Family string

const (
	// Unknown makes Parse detect the family from the text alone.
	Unknown Family = ""
	// AL2 is Amazon Linux 2: a shell script calls bootstrap.sh.
	AL2 Family = "AL2"
	// AL2023 is Amazon Linux 2023: nodeadm reads NodeConfig documents.
	AL2023 Family = "AL2023"
	// Bottlerocket reads TOML settings.
	Bottlerocket Family = "Bottlerocket"
)

// Join is what a node read in its user data.
type Join struct {
	Family   Family
	Cluster  string // the cluster's name
	Endpoint string // the API server's URL; "" only on AL2, which reads it from EKS
	CA       string // base64 of the cluster's CA; "" only on AL2
	Kubelet  Kubelet
	// RAID0 is true when instance-store disks carry the pods' storage.
	RAID0 bool
	// Sharing is the built-in GPU sharing of a Bottlerocket NVIDIA variant.
	Sharing Sharing
}

// Kubelet is the part of the kubelet's configuration that decides what is in the Node.
// Maps hold only what the user data gives; a nil map is "defaults".
type Kubelet struct {
	Labels         map[string]string
	Taints         []corev1.Taint
	MaxPods        int // 0: as many as the instance type's network interfaces allow
	PodsPerCore    int // 0: no such limit
	KubeReserved   map[string]string
	SystemReserved map[string]string
	EvictionHard   map[string]string // signal → threshold, a quantity or a percentage
}

// Sharing is how Bottlerocket's own device plugin multiplies GPUs.
type Sharing struct {
	Strategy                   string // "", "none", "time-slicing" or "mps"
	Replicas                   int
	RenameByDefault            bool
	FailRequestsGreaterThanOne bool
}

// Parse reads text as an image of the given family does. Every error is a reason
// why such a node never joins a cluster.
func Parse(family Family, text string) (Join, error) {
	if strings.TrimSpace(text) == "" {
		return Join{}, errors.New("the user data is empty: it names no cluster to join")
	}
	if family == Unknown {
		if family = sniff(text); family == Unknown {
			return Join{}, errors.New("the user data is neither a bootstrap.sh call, a NodeConfig nor Bottlerocket settings")
		}
	}
	join, err := parseAs(family, text)
	if err != nil {
		return Join{}, fmt.Errorf("reading user data as %s does: %w", family, err)
	}
	join.Family = family
	return join, nil
}

func parseAs(family Family, text string) (Join, error) {
	switch family {
	case AL2:
		return parseAL2(text)
	case AL2023:
		return parseAL2023(text)
	case Bottlerocket:
		return parseBottlerocket(text)
	default:
		return Join{}, fmt.Errorf("unknown image family %q; use AL2, AL2023 or Bottlerocket", family)
	}
}

// errIPv6 refuses a cluster whose services have IPv6 addresses.
var errIPv6 = errors.New("the cluster's services have IPv6 addresses, which the sandbox does not emulate")

// sniff detects the family of an image that is not known by name.
func sniff(text string) Family {
	parts, err := split(text)
	if err == nil {
		for _, p := range parts {
			if p.isNodeConfig() {
				return AL2023
			}
		}
		for _, p := range parts {
			if p.isScript() && strings.Contains(p.body, bootstrapScript) {
				return AL2
			}
		}
	}
	if doc, err := decodeTOML(text); err == nil && len(doc.Settings.Kubernetes) > 0 {
		return Bottlerocket
	}
	return Unknown
}
