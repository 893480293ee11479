package gpu

// Case is one configuration under which the plugin is run.
type Case struct {
	// Name is unique among the cases.
	Name string `json:"name"`
	// Command is the container's, with the plugin's name first.
	Command []string `json:"command"`
	// ConfigPath is where Command expects Config.
	ConfigPath string `json:"configPath"`
	// Config is the text of the plugin's configuration file.
	Config string `json:"config"`
	// Daemon is what the plugin finds of the control daemon of MPS: "" is none, "stand-in" one that returns as a healthy
	// daemon does.
	Daemon string `json:"daemon,omitempty"`
}

// Recording is what was recorded on a machine.
type Recording struct {
	// Date is when, as YYYY-MM-DD.
	Date string `json:"date"`
	// Plugin is the version of the plugin's module.
	Plugin string `json:"plugin"`
	// GPUs are those of the machine, the same before and after.
	GPUs []GPU `json:"gpus"`
	// Runs has one run for each case, in their order.
	Runs []Run `json:"runs"`
}

// GPU is one as nvidia-smi lists it.
type GPU struct {
	Name string `json:"name"`
	// MemoryMiB is all of its memory.
	MemoryMiB         int    `json:"memoryMiB"`
	Driver            string `json:"driver"`
	ComputeCapability string `json:"computeCapability"`
	MIGMode           string `json:"migMode"`
	ComputeMode       string `json:"computeMode"`
	PersistenceMode   string `json:"persistenceMode"`
}

// Run is what the plugin did with one configuration.
type Run struct {
	Case
	// Resources are what it registered, in that order; none where it serves nothing.
	Resources []Resource `json:"resources,omitempty"`
	// ExitCode is its code where it ended before it was stopped.
	ExitCode *int `json:"exitCode,omitempty"`
	// Log are the lines of one that serves nothing, without times and places.
	Log []string `json:"log,omitempty"`
	// Labels are what NVIDIA's feature discovery gives the node under the same configuration.
	Labels map[string]string `json:"labels,omitempty"`
}

// Resource is one registration, and what its plugin returned.
type Resource struct {
	Name string `json:"name"`
	// Version is the API's, Endpoint the name of the plugin's socket.
	Version  string `json:"version"`
	Endpoint string `json:"endpoint"`
	// PreferredAllocation and PreStart are the options of the registration.
	PreferredAllocation bool `json:"preferredAllocation"`
	PreStart            bool `json:"preStart"`
	// SameOptions is true where GetDevicePluginOptions returns what it registered.
	SameOptions bool     `json:"sameOptions"`
	Devices     []Device `json:"devices"`
	// Preferred are the devices that it prefers for one request.
	Preferred   []string     `json:"preferred"`
	Allocations []Allocation `json:"allocations"`
	// RegistersAgain is true where it registers anew with a kubelet that starts anew.
	RegistersAgain bool `json:"registersAgain"`
}

// Device is one that it lists.
type Device struct {
	ID     string `json:"id"`
	Health string `json:"health"`
	// NUMANodes are those of its topology.
	NUMANodes []int64 `json:"numaNodes,omitempty"`
}

// Allocation is one request and its response.
type Allocation struct {
	Devices []string `json:"devices"`
	// Refused is the error's code and text, "" where it was granted.
	Refused string            `json:"refused,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	// Mounts are paths in the container and on the host.
	Mounts map[string]string `json:"mounts,omitempty"`
	// DeviceNodes and CDIDevices are what the container runtime is given by other ways than the environment.
	DeviceNodes []string `json:"deviceNodes,omitempty"`
	CDIDevices  []string `json:"cdiDevices,omitempty"`
}
