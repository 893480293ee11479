package nodes

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/userdata"
)

// Machine is a cloud instance as the simulator needs it. It holds user data, which
// may hold secrets: printing it leaves that out.
type Machine struct {
	ID       string // "i-0123456789abcdef0"
	Type     string // instance type, "g5.xlarge"
	Zone     string // "us-east-1a"
	ZoneID   string // "use1-az1"
	Image    string // the image's name, which determines family, NVIDIA driver and Kubernetes version
	Address  string // private IPv4 address
	DNSName  string // private DNS name, which becomes the Node's name
	UserData string // decoded
	Hardware Hardware
	// Group is set for a managed node group's machine. EKS writes such a machine's
	// user data itself, so UserData is not read.
	Group *Group
}

// Hardware is what a machine has.
type Hardware struct {
	VCPU                  int64
	MemoryMiB             int64  // as EC2 states it
	Architecture          string // "amd64" (also for "") or "arm64"
	GPUs                  int    // NVIDIA GPUs
	GPUModel              string // EC2's name of them, "H100"
	GPUMemoryMiB          int    // of one, as EC2 states it
	Interfaces            int64  // network interfaces
	AddressesPerInterface int64  // IPv4 addresses on each
	VolumeGiB             int64  // the volume that holds the pods' storage; 0 is 20
	StoreGiB              int64  // instance-store disks in all
	// Devices are what the device plugins of the cluster's add-ons offer on the
	// machine, by resource: Neuron devices and EFA interfaces. They are there
	// Delays.Plugin after the Node; no pod of a plugin is needed, as for GPUs.
	Devices map[string]int
}

// Group is a managed node group, as far as its nodes show it.
type Group struct {
	Name   string
	Labels map[string]string
	Taints []corev1.Taint
}

// String names the machine without its user data.
func (m Machine) String() string { return fmt.Sprintf("%s (%s, %s)", m.ID, m.Type, m.Zone) }

// Format keeps every verb, also %+v, from printing user data.
func (m Machine) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(m.String())) }

func (m Machine) providerID() string { return "aws:///" + m.Zone + "/" + m.ID }

// image is what follows from an image's name.
type image struct {
	family  userdata.Family
	nvidia  bool   // has NVIDIA's driver
	version string // Kubernetes version "1.31"; "" when the name has none
	os      string // for the Node's status
}

// readImage reads the names that EKS gives its images. Another name means a
// custom image: its family is derived from the user data, its driver from "nvidia" and
// "gpu" in the name.
func readImage(name string) (image, error) {
	var i image
	switch {
	case strings.HasPrefix(name, "Windows"):
		return i, fmt.Errorf("the sandbox emulates no Windows nodes (image %q); use AL2, AL2023 or Bottlerocket", name)
	case strings.HasPrefix(name, "bottlerocket-aws-k8s-"):
		i.adopt(userdata.Bottlerocket)
	case strings.HasPrefix(name, "amazon-eks-node-al2023-"):
		i.adopt(userdata.AL2023)
	case strings.HasPrefix(name, "amazon-eks-"):
		i.adopt(userdata.AL2)
	default:
		i.adopt(userdata.Unknown)
	}
	fields := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '-' || r == '_' || r == '/' || r == ' ' })
	for _, w := range fields {
		if w == "nvidia" || w == "gpu" {
			i.nvidia = true
		}
	}
	if match := regexp.MustCompile(`(?:^|-)(1\.\d{2})(?:-|$)`).FindStringSubmatch(name); match != nil {
		i.version = match[1]
	}
	return i, nil
}

// adopt makes the image one of a family.
func (i *image) adopt(family userdata.Family) {
	i.family = family
	switch family {
	case userdata.Bottlerocket:
		i.os = "Bottlerocket OS"
	case userdata.AL2023:
		i.os = "Amazon Linux 2023"
	case userdata.AL2:
		i.os = "Amazon Linux 2"
	default:
		i.os = "Linux"
	}
}
