package deviceplugin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// Defaults and bounds of the CustomResourceDefinition, for objects that no API server
// has defaulted yet. A test holds them against config/crd.
const (
	defaultVersion = "v0.19.3"
	defaultImage   = "nvcr.io/nvidia/k8s-device-plugin"

	defaultDRAVersion = "v0.4.1"
	defaultMIGVersion = "v0.15.0"
	defaultMIGImage   = "nvcr.io/nvidia/cloud-native/k8s-mig-manager"

	defaultDRAImage = "registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu"

	maxConfigs     = 20
	maxPools       = 100
	maxName        = 30
	maxImage       = 255
	minReplicas    = 2
	maxSlices      = 1000
	maxMPSReplicas = 48

	maxProfiles   = 6
	maxMIGDevices = 7
)

var (
	configName  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	versionForm = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+([-.][0-9A-Za-z.-]+)?$`)
	profileForm = regexp.MustCompile(`^[1-7]g\.[0-9]{1,3}gb$`)
	imageForm   = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9._-]+)*$`)
)

// read decodes and checks a DevicePlugin. What the API server would refuse is
// refused here too: nothing may be made of an object that will never be there, and
// names, images and numbers go from it into others.
func (e *expander) read(item state.Item) *v1alpha1.DevicePlugin {
	plugin := &v1alpha1.DevicePlugin{}
	// Only these matter; the rest of a hostile object is the API server's.
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": item.Key.Name}, "spec": item.Object["spec"]})
	if err == nil {
		err = json.Unmarshal(raw, plugin)
	}
	if err != nil {
		e.problem(item, finding.ObjectInvalid, "%s cannot be read, and the API server would refuse it: %v", finding.NewFact("object", item.Key), finding.NewFact("reason", err))
		return plugin
	}
	r := pluginValidation{expander: e, item: item, spec: &plugin.Spec, owners: map[string]string{}, names: map[string]bool{}}
	r.defaults()
	r.check()
	return plugin
}

// pluginValidation is one DevicePlugin's check.
type pluginValidation struct {
	*expander
	item state.Item
	spec *v1alpha1.DevicePluginSpec
	// owners has the configuration of each pool so far, names the configurations so far.
	owners map[string]string
	names  map[string]bool
}

func (r *pluginValidation) wrong(format string, args ...any) {
	r.problem(r.item, codeDevicePluginInvalid, "%s: %s", finding.NewFact("object", r.item.Key), finding.NewFact("reason", fmt.Sprintf(format, args...)))
}

func (r *pluginValidation) defaults() {
	if r.spec.Version == "" {
		r.spec.Version = defaultVersion
	}
	if r.spec.Image == "" {
		r.spec.Image = defaultImage
	}
	if r.spec.Tolerations == nil {
		r.spec.Tolerations = []v1alpha1.Toleration{{Key: "nvidia.com/gpu", Operator: "Exists"}}
	}
	for _, p := range r.spec.Configs {
		if driver := p.DRADriver; driver != nil {
			driver.Version, driver.Image = cmp.Or(driver.Version, defaultDRAVersion), cmp.Or(driver.Image, defaultDRAImage)
		}
		if m := p.MIG; m != nil {
			m.Strategy, m.Version, m.Image = cmp.Or(m.Strategy, migMixed), cmp.Or(m.Version, defaultMIGVersion), cmp.Or(m.Image, defaultMIGImage)
		}
	}
}

func (r *pluginValidation) check() {
	r.image("spec", "NVIDIA's plugin", [2]string{r.spec.Image, r.spec.Version}, [2]string{defaultImage, defaultVersion})
	switch n := len(r.spec.Configs); {
	case n == 0:
		r.wrong("spec.configs is empty: name at least one way of serving GPUs")
	case n > maxConfigs:
		r.wrong("there are %d configurations and may be %d", n, maxConfigs)
		return
	}
	for _, p := range r.spec.Configs {
		r.pluginConfig(p)
	}
	if name := r.spec.DefaultConfig; name != "" && !r.names[name] {
		r.wrong("spec.defaultConfig %q is none of the configurations", name)
	}
}

// image checks an image and its tag, at the path of both.
func (r *pluginValidation) image(path, of string, image, example [2]string) {
	if !versionForm.MatchString(image[1]) {
		r.wrong("%s.version %q is no version of %s such as %s", path, image[1], of, example[1])
	}
	if len(image[0]) > maxImage || !imageForm.MatchString(image[0]) {
		r.wrong("%s.image is no image such as %s: leave its tag out, %s.version is the tag", path, example[0], path)
	}
}

func (r *pluginValidation) pluginConfig(p v1alpha1.DevicePluginConfig) {
	switch {
	case len(p.Name) > maxName || !configName.MatchString(p.Name):
		r.wrong("the configuration name %.40q must be of lower case letters, digits and dashes, %d at most", p.Name, maxName)
	case r.names[p.Name]:
		r.wrong("there are two configurations %q", p.Name)
	case len(p.NodePools) == 0 && p.Name != r.spec.DefaultConfig:
		r.wrong("configuration %q serves no pool: name its nodePools, or make it the defaultConfig", p.Name)
	case len(p.NodePools) > maxPools:
		r.wrong("configuration %q names %d pools and may name %d", p.Name, len(p.NodePools), maxPools)
	}
	r.names[p.Name] = true
	r.shares(p)
	r.pools(p)
}

// shares checks how a configuration divides GPUs.
func (r *pluginValidation) shares(p v1alpha1.DevicePluginConfig) {
	if p.TimeSlicing != nil && p.MPS != nil {
		r.wrong("configuration %q has timeSlicing and mps: choose one", p.Name)
	}
	if driver := p.DRADriver; driver != nil {
		r.image(fmt.Sprintf("configuration %q: draDriver", p.Name), "NVIDIA's DRA driver", [2]string{driver.Image, driver.Version}, [2]string{defaultDRAImage, defaultDRAVersion})
		if p.TimeSlicing != nil || p.MPS != nil {
			r.wrong("configuration %q has draDriver, which advertises whole GPUs, and timeSlicing or mps, which are the device plugin's: choose one", p.Name)
		}
	}
	r.partitions(p)
	if s := p.TimeSlicing; s != nil && (s.Replicas < minReplicas || s.Replicas > maxSlices) {
		r.wrong("configuration %q: timeSlicing.replicas must be from %d to %d", p.Name, minReplicas, maxSlices)
	}
	if s := p.MPS; s != nil && (s.Replicas < minReplicas || s.Replicas > maxMPSReplicas) {
		r.wrong("configuration %q: mps.replicas must be from %d to %d", p.Name, minReplicas, maxMPSReplicas)
	}
}

// pools checks which pools a configuration names.
func (r *pluginValidation) pools(p v1alpha1.DevicePluginConfig) {
	for _, pool := range p.NodePools {
		other, taken := r.owners[pool]
		r.owners[pool] = p.Name
		switch {
		case taken && other == p.Name:
			r.wrong("configuration %q names the pool %q twice", p.Name, pool)
		case taken:
			r.wrong("the pool %q is named by the configurations %q and %q: each pool has one", pool, other, p.Name)
		case len(pool) > validation.LabelValueMaxLength || len(validation.IsDNS1123Subdomain(pool)) > 0:
			r.wrong("configuration %q names %.80q, which can be no NodePool's name", p.Name, pool)
		}
	}
}

// partitions checks how a configuration partitions GPUs.
func (r *pluginValidation) partitions(p v1alpha1.DevicePluginConfig) {
	mig := p.MIG
	if mig == nil {
		return
	}
	r.image(fmt.Sprintf("configuration %q: mig", p.Name), "NVIDIA's MIG manager", [2]string{mig.Image, mig.Version}, [2]string{defaultMIGImage, defaultMIGVersion})
	switch {
	case p.DRADriver != nil:
		r.wrong("configuration %q has mig and draDriver: Karpenter expects whole GPUs of NVIDIA's DRA driver and launches no node for a claim of a MIG device: take draDriver out, and have pods request MIG devices of the device plugin", p.Name)
	case p.TimeSlicing != nil || p.MPS != nil:
		r.wrong("configuration %q has mig, and timeSlicing or mps: choose one", p.Name)
	}
	if mig.Strategy != migMixed && mig.Strategy != migSingle {
		r.wrong("configuration %q: mig.strategy must be mixed or single", p.Name)
	}
	if n := len(mig.Devices); n == 0 || n > maxProfiles {
		r.wrong("configuration %q: mig.devices must name from 1 to %d profiles, such as 1g.10gb: 7", p.Name, maxProfiles)
		return
	}
	if mig.Strategy == migSingle && len(mig.Devices) > 1 {
		r.wrong("configuration %q: mig.strategy single advertises devices of one profile, and mig.devices names %d: name one, or choose mixed", p.Name, len(mig.Devices))
	}
	for _, profile := range slices.Sorted(maps.Keys(mig.Devices)) {
		if n := mig.Devices[profile]; !profileForm.MatchString(profile) || n < 1 || n > maxMIGDevices {
			r.wrong("configuration %q: mig.devices[%.20s] must be a profile such as 1g.10gb, with 1 to %d devices", p.Name, profile, maxMIGDevices)
		}
	}
}
