package dradriver

import (
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Driver is the name by which the driver publishes devices.
const Driver = "gpu.nvidia.com"

// program is that of the driver's image which publishes GPUs.
const program = "gpu-kubelet-plugin"

// Runs reports whether a pod runs the driver.
func Runs(pod *corev1.Pod) bool {
	for _, c := range pod.Spec.Containers {
		if strings.Contains(path.Base(c.Image), "dra-driver") && len(c.Command) > 0 && path.Base(c.Command[0]) == program {
			return true
		}
	}
	return false
}

// model is what the driver publishes of a GPU by its model.
type model struct {
	product, architecture, capability string
	memoryMiB                         int
}

// models are by the names that EC2 has for them. A memory of 0 is EC2's.
func models() map[string]model {
	return map[string]model{
		"T4":   {product: "Tesla T4", architecture: "Turing", capability: "7.5.0"},
		"A10G": {product: "NVIDIA A10G", architecture: "Ampere", capability: "8.6.0"},
		"L4":   {product: "NVIDIA L4", architecture: "Ada Lovelace", capability: "8.9.0"},
		"L40S": {product: "NVIDIA L40S", architecture: "Ada Lovelace", capability: "8.9.0"},
		"A100": {product: "NVIDIA A100-SXM4-40GB", architecture: "Ampere", capability: "8.0.0"},
		"H100": {product: "NVIDIA H100 80GB HBM3", architecture: "Hopper", capability: "9.0.0", memoryMiB: 81559},
		"H200": {product: "NVIDIA H200", architecture: "Hopper", capability: "9.0.0"},

		"RTX PRO 4500":        {product: "NVIDIA RTX PRO 4500 Blackwell Server Edition", architecture: "Blackwell", capability: "12.0.0", memoryMiB: 32160},
		"RTX PRO Server 6000": {product: "NVIDIA RTX PRO 6000 Blackwell Server Edition", architecture: "Blackwell", capability: "12.0.0", memoryMiB: 97280},
	}
}

// PublishedGPUs are those of a machine.
type PublishedGPUs struct {
	// Model is EC2's name, "H100".
	Model string
	// MemoryMiB is of one, as EC2 states it.
	MemoryMiB int
	Count     int
}

// Slice is what the driver on a node publishes.
func Slice(node *corev1.Node, gpus PublishedGPUs) *resourcev1.ResourceSlice {
	slice := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName:    node.Name + "-" + Driver + "-",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: new(true)}},
		},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: Driver, NodeName: &node.Name, Pool: resourcev1.ResourcePool{Name: node.Name, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for i := range gpus.Count {
		slice.Spec.Devices = append(slice.Spec.Devices, device(node.UID, gpus, i))
	}
	return slice
}

func device(node types.UID, gpus PublishedGPUs, index int) resourcev1.Device {
	of, known := models()[gpus.Model]
	if !known {
		of.product = "NVIDIA " + gpus.Model
	}
	if of.memoryMiB == 0 {
		of.memoryMiB = gpus.MemoryMiB
	}
	text := func(s string) resourcev1.DeviceAttribute { return resourcev1.DeviceAttribute{StringValue: &s} }
	version := func(s string) resourcev1.DeviceAttribute { return resourcev1.DeviceAttribute{VersionValue: &s} }
	out := resourcev1.Device{
		Name: fmt.Sprintf("gpu-%d", index),
		Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"type": text("gpu"), "brand": text("Nvidia"), "productName": text(of.product), "addressingMode": text("None"),
			"driverVersion": version("580.159.4"), "cudaDriverVersion": version("13.0.0"), "uuid": text(fmt.Sprintf("GPU-%s-%d", node, index)),
			"resource.kubernetes.io/pciBusID": text(fmt.Sprintf("0000:00:%02x.0", 6+index)), "resource.kubernetes.io/pcieRoot": text("pci0000:00"),
		},
		Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse(fmt.Sprintf("%dMi", of.memoryMiB))}},
	}
	if known {
		out.Attributes["architecture"], out.Attributes["cudaComputeCapability"] = text(of.architecture), version(of.capability)
	}
	return out
}
