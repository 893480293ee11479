package sandbox

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/poolwright/poolwright/provision/catalog"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/provision/sandbox/nodes"
)

// startNodes emulates the kubelets: the system node at once, then whatever AWS
// launches.
func (w *Environment) startNodes(ctx context.Context) error {
	if w.config.AWS.Catalog == nil {
		types, err := catalog.Load()
		if err != nil {
			return err
		}
		w.config.AWS.Catalog = types
	}
	system, err := systemMachine(w.config.AWS, w.config.SystemTaints)
	if err != nil {
		return err
	}
	cluster := w.config.AWS.Cluster
	simulator, err := nodes.New(nodes.Config{
		REST: w.plane.REST(),
		Cluster: nodes.Cluster{
			Name: cluster.Name, Endpoint: cluster.Endpoint, CA: base64.StdEncoding.EncodeToString(cluster.CA),
			Region: w.config.AWS.Region, Version: cluster.Version,
		},
		Delays: w.config.Nodes, Fault: w.config.Fault, Notify: w.config.Notify,
		System: []nodes.Machine{system},
	})
	if err != nil {
		return err
	}
	// The simulator lives as long as the environment, not as long as its start.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	events := w.AWS.Watch(life)
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		w.follow(events, w.AWS)
	}()
	w.shutdown.add(func() error {
		end()
		<-followed
		simulator.Wait()
		return nil
	})
	w.Nodes = simulator
	if err := simulator.Start(life); err != nil {
		return err
	}
	return ctx.Err()
}

// follow passes to the simulator what an account does to its instances.
func (w *Environment) follow(events <-chan sandboxaws.Event, account *sandboxaws.Cloud) {
	for event := range events {
		switch event.Kind {
		case sandboxaws.Running:
			w.launch(event.Instance, account)
		case sandboxaws.Terminated:
			w.Nodes.Gone(event.Instance.ID)
		case sandboxaws.Pending: // its machine does not run yet
		default: // it shuts down, or somebody stops it
			w.Nodes.Stop(event.Instance.ID)
		}
	}
}

func (w *Environment) launch(i sandboxaws.Instance, account *sandboxaws.Cloud) {
	hardware, err := hardwareOf(w.config.AWS.Catalog, i.Type)
	if err != nil {
		fmt.Fprintf(w.config.Progress, "instance %s gets no node: %v\n", i.ID, err)
		return
	}
	image := account.ImageName(i.Image)
	if n := efaInterfaces(account.Template(i.ID)); n > 0 {
		hardware.Devices["vpc.amazonaws.com/efa"] = n
	}
	hardware.VolumeGiB = int64(account.DiskGiB(i.ID, podDevice(image)))
	w.Nodes.Launch(nodes.Machine{
		ID: i.ID, Type: i.Type, Zone: i.Zone, ZoneID: i.ZoneID, Image: image,
		Address: i.Address, DNSName: i.DNSName, UserData: i.UserData, Hardware: hardware,
	})
}

// efaInterfaces counts the EFA interfaces that a launch template gives: EFA's
// device plugin advertises those that are attached, not what the type could have.
func efaInterfaces(template map[string]string) int {
	n := 0
	for name, value := range template {
		if strings.HasPrefix(name, "NetworkInterface.") && strings.HasSuffix(name, ".InterfaceType") && strings.HasPrefix(value, "efa") {
			n++
		}
	}
	return n
}

// podDevice is the disk that holds the pods' storage: Bottlerocket keeps its
// system apart, the others have one for everything.
func podDevice(image string) string {
	if strings.HasPrefix(image, "bottlerocket") {
		return "/dev/xvdb"
	}
	return "/dev/xvda"
}

// hardwareOf reads a type's figures. AMD's GPUs are left out: no device plugin
// here offers them.
func hardwareOf(types *catalog.Catalog, name string) (nodes.Hardware, error) {
	t, known := types.Lookup(name)
	if !known {
		return nodes.Hardware{}, fmt.Errorf("instance type %q is not in the catalog", name)
	}
	hardware := nodes.Hardware{
		VCPU: int64(t.VCPUs), MemoryMiB: int64(t.MemoryMiB), Architecture: "amd64",
		Interfaces:            int64(t.Network.Cards[t.Network.DefaultCard]),
		AddressesPerInterface: int64(t.Network.IPv4PerInterface),
		StoreGiB:              int64(t.Storage.LocalGB) * 1_000_000_000 >> 30,
		Devices:               map[string]int{},
	}
	if a := t.Accelerator; a.NeuronCores > 0 {
		hardware.Devices["aws.amazon.com/neuron"], hardware.Devices["aws.amazon.com/neuroncore"] = a.Count, a.Count*a.NeuronCores
	}
	if slices.Contains(t.Processor.Architectures, "arm64") {
		hardware.Architecture = "arm64"
	}
	if t.GPU.Manufacturer == "NVIDIA" {
		hardware.GPUs, hardware.GPUModel, hardware.GPUMemoryMiB = t.GPU.Count, t.GPU.Name, t.GPU.MemoryMiB
	}
	return hardware, nil
}

// systemMachine is the one node that no engine owns: every EKS cluster has a
// group of them, and without one the scheduler's back-off distorts all timings.
// It is an m5.large, by default without taints, so that a pending GPU pod is refused for
// lack of GPUs, and is retried when they appear, not at every change of a node.
func systemMachine(config sandboxaws.Config, taints []corev1.Taint) (nodes.Machine, error) {
	zones, err := catalog.Zones(config.Region)
	if err != nil {
		return nodes.Machine{}, err
	}
	domain := config.Region + ".compute.internal"
	if config.Region == "us-east-1" {
		domain = "ec2.internal"
	}
	return nodes.Machine{
		ID: "i-0000000000005a4d0", Type: "m5.large", Zone: zones[0].Name, ZoneID: zones[0].ID,
		Image: fmt.Sprintf("amazon-eks-node-al2023-x86_64-standard-%s-%s", config.Cluster.Version, config.Releases[len(config.Releases)-1]),
		// The last address of the zone's private subnet: launches count from the first.
		Address: "10.0.63.254", DNSName: "ip-10-0-63-254." + domain,
		Hardware: nodes.Hardware{VCPU: 2, MemoryMiB: 8192, Interfaces: 3, AddressesPerInterface: 10},
		Group:    &nodes.Group{Name: "system", Labels: map[string]string{"sandbox.poolwright.dev/system": "true"}, Taints: taints},
	}, nil
}
