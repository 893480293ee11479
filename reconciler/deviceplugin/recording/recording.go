package recording

import (
	_ "embed" // of the recording
	"encoding/json"
	"fmt"
)

//go:embed testdata/recording.json
var recorded []byte

// Case is one configuration under which the plugin ran.
type Case struct {
	// Name is unique among the cases.
	Name string `json:"name"`
	// Command is the plugin's container's.
	Command []string `json:"command"`
	// ConfigPath is where Command expects Config.
	ConfigPath string `json:"configPath"`
	// Config is the text of the plugin's configuration file.
	Config string `json:"config"`
	// Daemon is what the plugin found of the control daemon of MPS: "" is none, "stand-in" one that responds as a
	// healthy daemon does.
	Daemon string `json:"daemon,omitempty"`
}

// Recording is what was recorded on one machine.
type Recording struct {
	// Date is when, as YYYY-MM-DD.
	Date string `json:"date"`
	// Plugin is the plugin's version.
	Plugin string `json:"plugin"`
	// GPUs are those of the machine.
	GPUs []GPU `json:"gpus"`
	// Runs has one for each case.
	Runs []Run `json:"runs"`
}

// GPU is one as nvidia-smi lists it.
type GPU struct {
	Name string `json:"name"`
	// MemoryMiB is all of its memory.
	MemoryMiB int64  `json:"memoryMiB"`
	Driver    string `json:"driver"`
}

// Run is what the plugin did with one configuration.
type Run struct {
	Case
	// Resources are what it registered; none where it served nothing.
	Resources []Resource `json:"resources"`
	// ExitCode is its code where it ended; nil where it ran on.
	ExitCode *int `json:"exitCode"`
	// Log are the lines of one that served nothing.
	Log []string `json:"log"`
	// Labels are what NVIDIA's feature discovery gives the node under the same configuration.
	Labels map[string]string `json:"labels"`
}

// Resource is what it registered, and what it returned then.
type Resource struct {
	Name        string       `json:"name"`
	Devices     []Device     `json:"devices"`
	Allocations []Allocation `json:"allocations"`
	// RegistersAgain is true where it registered anew with a kubelet that started anew.
	RegistersAgain bool `json:"registersAgain"`
}

// Device is one that it lists.
type Device struct {
	ID     string `json:"id"`
	Health string `json:"health"`
}

// Allocation is one request and its response.
type Allocation struct {
	Devices []string `json:"devices"`
	// Refused is the error's code and text, "" where it was granted.
	Refused string            `json:"refused"`
	Env     map[string]string `json:"env"`
	// Mounts are paths in the container and on the host.
	Mounts map[string]string `json:"mounts"`
}

// Load reads the recording. An error is of a file that was edited by hand.
func Load() (Recording, error) {
	var out Recording
	if err := json.Unmarshal(recorded, &out); err != nil {
		return out, fmt.Errorf("reading the recording of the device plugin: %w", err)
	}
	return out, nil
}

// Refused returns the response to a request for so many devices at once, as the plugin's error; "" where it was granted.
// ok is false where none was recorded.
func (r Resource) Refused(devices int) (refusal string, ok bool) {
	for _, a := range r.Allocations {
		if len(a.Devices) == devices && r.lists(a.Devices[0]) {
			return a.Refused, true
		}
	}
	return "", false
}

func (r Resource) lists(id string) bool {
	for _, d := range r.Devices {
		if d.ID == id {
			return true
		}
	}
	return false
}
