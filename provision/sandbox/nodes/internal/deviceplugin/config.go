package deviceplugin

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

const (
	// GPU is the resource name of a GPU.
	GPU = "nvidia.com/gpu"
	// SharedGPU is its name when shared GPUs are renamed.
	SharedGPU = "nvidia.com/gpu.shared"

	resourcePrefix = "nvidia.com/"
	migPrefix      = resourcePrefix + "mig-"
	migSingle      = "single"
	migMixed       = "mixed"
	maxNameLength  = 63
)

// SharingStrategy is how GPUs are shared.
type SharingStrategy string

const (
	// SharingStrategyNone is no sharing: one pod for each GPU.
	SharingStrategyNone SharingStrategy = "none"
	// SharingStrategyTimeSlicing lets pods take turns on a GPU.
	SharingStrategyTimeSlicing SharingStrategy = "time-slicing"
	// SharingStrategyMPS splits a GPU by NVIDIA's multi-process service, whose daemon must run.
	SharingStrategyMPS SharingStrategy = "mps"
)

// Config is what of the plugin's configuration decides the devices. The zero
// value is the plugin without a configuration: whole GPUs.
type Config struct {
	Strategy SharingStrategy
	// Replicas of each GPU; 0 and 1 mean one.
	Replicas int
	// Resource is the name offered, GPU when empty.
	Resource string
	// OnePerRequest makes requests for more than one device fail at admission.
	OnePerRequest bool
	// MPSRoot reports whether the file gives the folder that MPS needs.
	MPSRoot bool
	// MIGStrategy is the flag migStrategy.
	MIGStrategy string
	// MIGDevices are how many MIG devices each GPU is partitioned into, by profile, before the plugin starts. It is empty where
	// the plugin's pod does not partition GPUs.
	MIGDevices map[string]int
	// Patient is true when the plugin waits where it finds no driver
	// (failOnInitError: false), instead of ending with an error.
	Patient bool
}

// file is the plugin's configuration file.
type file struct {
	Version string `json:"version"`
	Flags   struct {
		MigStrategy *string `json:"migStrategy"`
		MPSRoot     *string `json:"mpsRoot"`
		FailOnInit  *bool   `json:"failOnInitError"`
	} `json:"flags"`
	Sharing struct {
		TimeSlicing *sharing `json:"timeSlicing"`
		MPS         *sharing `json:"mps"`
	} `json:"sharing"`
}

type sharing struct {
	RenameByDefault bool `json:"renameByDefault"`
	FailMany        bool `json:"failRequestsGreaterThanOne"`
	Resources       []struct {
		Name     string `json:"name"`
		Replicas *int   `json:"replicas"`
	} `json:"resources"`
}

// ParseConfig reads the text of a configuration file, YAML or JSON. Empty text is
// the empty configuration.
func ParseConfig(text []byte) (Config, error) {
	var f file
	if err := yaml.Unmarshal(text, &f); err != nil {
		return Config{}, errors.New("the device plugin's configuration is not YAML of the expected shape")
	}
	if f.Version != "" && f.Version != "v1" {
		return Config{}, fmt.Errorf("the device plugin's configuration has the unknown version %q; v1 is supported", f.Version)
	}
	config := Config{Strategy: SharingStrategyNone, Resource: GPU, MPSRoot: f.Flags.MPSRoot != nil && *f.Flags.MPSRoot != "",
		Patient: f.Flags.FailOnInit != nil && !*f.Flags.FailOnInit}
	if f.Flags.MigStrategy != nil {
		switch *f.Flags.MigStrategy {
		case "none", migSingle, migMixed:
			config.MIGStrategy = *f.Flags.MigStrategy
		default:
			return Config{}, fmt.Errorf("the device plugin's configuration has the unknown migStrategy %q", *f.Flags.MigStrategy)
		}
	}
	// MPS is read last: where both are given, it is the one that holds.
	for _, s := range []struct {
		strategy SharingStrategy
		sharing  *sharing
	}{{SharingStrategyTimeSlicing, f.Sharing.TimeSlicing}, {SharingStrategyMPS, f.Sharing.MPS}} {
		if s.sharing == nil {
			continue
		}
		if err := config.share(s.strategy, s.sharing); err != nil {
			return Config{}, err
		}
	}
	if config.Strategy == SharingStrategyMPS && f.Flags.MigStrategy != nil && *f.Flags.MigStrategy == migMixed {
		return Config{}, errors.New("the device plugin does not combine MPS with migStrategy mixed")
	}
	return config, nil
}

func (c *Config) share(strategy SharingStrategy, s *sharing) error {
	if len(s.Resources) == 0 {
		return fmt.Errorf("the device plugin's sharing.%s names no resources", strategy.field())
	}
	replicas := 0
	for i, r := range s.Resources {
		name, err := resourceName(r.Name)
		if err != nil {
			return fmt.Errorf("reading sharing.%s.resources[%d]: %w", strategy.field(), i, err)
		}
		if r.Replicas == nil || *r.Replicas < 2 {
			return fmt.Errorf("reading sharing.%s.resources[%d]: replicas must be 2 or more", strategy.field(), i)
		}
		if name == GPU {
			replicas = max(replicas, *r.Replicas)
		}
	}
	*c = Config{Strategy: strategy, Replicas: replicas, Resource: GPU, MPSRoot: c.MPSRoot, Patient: c.Patient, MIGStrategy: c.MIGStrategy}
	// Under MPS the plugin does not read the field, and only shares are refused.
	c.OnePerRequest = replicas > 0 && (strategy == SharingStrategyMPS || s.FailMany)
	if s.RenameByDefault && replicas > 0 {
		c.Resource = SharedGPU
	}
	return nil
}

func (s SharingStrategy) field() string {
	if s == SharingStrategyTimeSlicing {
		return "timeSlicing"
	}
	return string(s)
}

func resourceName(name string) (string, error) {
	if name == "" {
		return "", errors.New("a resource has no name")
	}
	if !strings.HasPrefix(name, resourcePrefix) {
		name = resourcePrefix + name
	}
	if len(name) > maxNameLength || len(validation.IsDNS1123Subdomain(strings.TrimPrefix(name, resourcePrefix))) > 0 {
		return "", errors.New("a resource's name is malformed or longer than 63 characters")
	}
	return name, nil
}

// AdvertisedPerGPU are the names of the resources that the plugin registers, with how many devices each GPU has.
func (c Config) AdvertisedPerGPU() map[string]int {
	out := map[string]int{}
	switch {
	case len(c.MIGDevices) > 0 && c.MIGStrategy == migMixed:
		for profile, n := range c.MIGDevices {
			out[migPrefix+profile] = n
		}
	case len(c.MIGDevices) > 0 && c.MIGStrategy == migSingle:
		for _, n := range c.MIGDevices { // There is one.
			out[GPU] = n
		}
	default:
		out[cmp.Or(c.Resource, GPU)] = max(c.Replicas, 1)
	}
	return out
}
