package nodes

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// Config is how a simulator works. REST or Client, and Cluster, are required.
type Config struct {
	// REST reaches the API server; its rate limits are lifted, because every
	// kubelet would have a client of its own.
	REST *rest.Config
	// Client is used instead of REST when set.
	Client  kubernetes.Interface
	Cluster Cluster
	Delays  Delays
	// System are machines that run from the start: a managed node group, without
	// which a cluster is not like EKS. Each needs a Group.
	System []Machine
	// Fault is called for a machine when it is launched, when it joins, when its Node
	// changes and, while a device plugin runs on it, every second, so a fault may come
	// and go, but no call may use it up; nil means none. It must be fast and safe for
	// concurrent use.
	Fault func(Machine) Fault
	// Notify is called with what happens on machines; it must not block. May be nil.
	Notify func(Notice)
	// PodCIDR is where pod addresses come from; "10.64.0.0/10" when empty.
	PodCIDR string
	Log     *slog.Logger // nil means no log
	Clock   clock.Clock  // nil means the real clock; kwok keeps real time
}

// Cluster is what a node must name to join.
type Cluster struct {
	Name     string
	Endpoint string // the API server's URL
	CA       string // base64 of the CA; "" accepts any
	Region   string
	Version  string // Kubernetes version of nodes whose image names none, "1.31"
}

// Delays are what the real environment takes. The zero value of each means its default;
// a negative value means none.
type Delays struct {
	// Join is from a running instance to its Node; 2 s. A node of EKS takes half a
	// minute to a minute, which some of Karpenter's clocks count on: capacity buffers
	// that are reconciled every 30 s, for one, find such a node still empty.
	Join          time.Duration
	Ready         time.Duration // Node registered → Ready; none: registered as ready
	PodStart      time.Duration // pod admitted → containers run; 50 ms
	Plugin        time.Duration // device plugin's pod runs → GPUs; 500 ms
	BuiltinPlugin time.Duration // Bottlerocket node registered → GPUs; 500 ms
	NodeGone      time.Duration // instance terminated → its Node is deleted; 5 s
	// NodeStatus is the time from a change of devices to the Node's status; none. A
	// real kubelet posts every 10 s, so that what a plugin that restarts does in between
	// is never reported, and pods are refused for devices that the Node still has.
	NodeStatus time.Duration
	// PluginRetry is how long a plugin without its MPS daemon waits; 30 s.
	PluginRetry time.Duration
	// CrashBackOff is how long a container that crashed a second time waits; it is
	// doubled up to 30 times as much; 10 s.
	CrashBackOff time.Duration
	// Volume is how long EC2 takes to create, to attach and to detach an EBS volume,
	// each; 1 s. Karpenter ends no instance before its volumes are detached.
	Volume time.Duration
}

func (d Delays) withDefaults() Delays {
	for _, p := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&d.Join, 2 * time.Second}, {&d.Ready, 0}, {&d.PodStart, 50 * time.Millisecond},
		{&d.Plugin, 500 * time.Millisecond}, {&d.BuiltinPlugin, 500 * time.Millisecond}, {&d.NodeGone, 5 * time.Second},
		{&d.NodeStatus, 0}, {&d.PluginRetry, 30 * time.Second}, {&d.CrashBackOff, 10 * time.Second},
		{&d.Volume, time.Second},
	} {
		if *p.value == 0 {
			*p.value = p.standard
		}
		*p.value = max(*p.value, 0)
	}
	return d
}

// Fault is what goes wrong on a machine.
type Fault struct {
	NeverJoins bool // the kubelet never reaches the API server
	// JoinsLater is how much longer than Delays.Join the machine takes to join.
	JoinsLater time.Duration
	NeverReady bool // the node registers and stays not ready
	NoPlugin   bool // the device plugin ends with an error each time it starts
	// MissingGPUs are not found by the driver. One that goes missing under a running
	// plugin stays unhealthy until the plugin is started anew: allocatable shrinks and
	// capacity does not. A plugin that starts does not list it at all.
	MissingGPUs int
	// PluginCrashes is how often the device plugin's container crashes after it
	// registered, counted for each pod since the fault was set; negative means again
	// and again while it is set.
	PluginCrashes int
}

// Event is what a Notice is about.
type Event string

// The events of a simulator.
const (
	Joined     Event = "joined"      // the Node is registered
	NeverJoins Event = "never-joins" // it will not; Message is the reason
	Devices    Event = "devices"     // the device plugin's devices changed
	NoDevices  Event = "no-devices"  // the device plugin cannot offer any; Message is the reason
	Rejected   Event = "rejected"    // the kubelet refused a pod
	Stopped    Event = "stopped"     // the kubelet has stopped reporting
	Removed    Event = "removed"     // the cloud controller deleted the Node
)

// Notice is something that happened on a machine.
type Notice struct {
	Time    time.Time
	Event   Event
	Machine string // instance id
	Node    string // "" before it joined
	Message string // one line, without user data
}

func (c Config) withDefaults() (Config, error) {
	if c.Client == nil {
		if c.REST == nil {
			return c, errors.New("emulating nodes: neither REST nor Client is set")
		}
		unlimited := rest.CopyConfig(c.REST)
		unlimited.QPS = -1
		client, err := kubernetes.NewForConfig(unlimited)
		if err != nil {
			return c, fmt.Errorf("emulating nodes: building a client: %w", err)
		}
		c.Client = client
	}
	if c.Cluster.Name == "" || c.Cluster.Endpoint == "" || c.Cluster.Region == "" {
		return c, errors.New("emulating nodes: the cluster's name, endpoint and region are required")
	}
	for _, m := range c.System {
		if m.Group == nil {
			return c, fmt.Errorf("emulating nodes: the system machine %s has no node group", m)
		}
	}
	c.Delays = c.Delays.withDefaults()
	if c.Fault == nil {
		c.Fault = func(Machine) Fault { return Fault{} }
	}
	if c.Notify == nil {
		c.Notify = func(Notice) {}
	}
	if c.PodCIDR == "" {
		c.PodCIDR = "10.64.0.0/10"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return c, nil
}
