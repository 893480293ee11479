// Package migprofile has what NVIDIA's Multi-Instance GPU (MIG) allows: into which MIG devices a model of GPU can be
// partitioned, by profile and number, and where on the GPU each profile may lie.
//
// It is pure. Of a model that it does not have it concludes nothing. Start reading at Check.
package migprofile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Unsupported is why a GPU can not be partitioned. The zero value is that it can, or that nothing is known of it.
type Unsupported struct {
	// GPU is the model, by EC2's name.
	GPU string
	// Reason is a part of a sentence.
	Reason string
}

// withoutMIG are the models that have no MIG, by EC2's names.
var withoutMIG = []string{"K80", "K520", "M60", "V100", "T4", "T4g", "A10", "A10G", "L4", "L40", "L40S"}

// reset is why MIG is not enabled on models whose GPUs have to be reset for it, those of the architecture Ampere: a virtual machine
// with the GPU passed through may not, and the node would be replaced again and again. From Hopper on no reset is needed. The A30,
// of the same architecture, is not on EC2.
const reset = "to enable MIG on it needs a GPU reset, which EC2 does not allow, or a reboot, which Poolwright does not do"

// HasMIG reports whether GPUs of a model, by EC2's name of it, may have MIG, those included that Check refuses.
func HasMIG(model string) bool { return !slices.Contains(withoutMIG, model) }

// placements are where the devices of a profile may begin, in slices of memory, and how many of these they take.
type placements struct {
	starts []int
	size   int
}

// layout is where MIG devices of a kind of GPU lie.
type layout struct {
	slices int
	// profiles are by name.
	profiles map[string]placements
}

// eighths is a GPU with eight slices of memory and seven of compute units, with the names of its profiles.
func eighths(one, oneDouble, two, three, four, seven string) layout {
	return layout{slices: 8, profiles: map[string]placements{
		one: {[]int{0, 1, 2, 3, 4, 5, 6}, 1}, oneDouble: {[]int{0, 2, 4, 6}, 2}, two: {[]int{0, 2, 4}, 2},
		three: {[]int{0, 4}, 4}, four: {[]int{0}, 4}, seven: {[]int{0}, 8},
	}}
}

// quarters is a GPU with four slices, with the names of its profiles.
func quarters(one, two, four string) layout {
	return layout{slices: 4, profiles: map[string]placements{one: {[]int{0, 1, 2, 3}, 1}, two: {[]int{0, 2}, 2}, four: {[]int{0}, 4}}}
}

// layouts are those of models, by EC2's names.
func layouts() map[string]layout {
	return map[string]layout{
		"H100":                eighths("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"),
		"H200":                eighths("1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"),
		"B200":                eighths("1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"),
		"B300":                eighths("1g.34gb", "1g.67gb", "2g.67gb", "3g.135gb", "4g.135gb", "7g.269gb"),
		"RTX PRO Server 6000": quarters("1g.24gb", "2g.48gb", "4g.96gb"),
	}
}

const prefix = "nvidia.com/mig-"

// Resource is the name under which NVIDIA's device plugin advertises MIG devices of a profile, such as 1g.10gb.
func Resource(profile string) corev1.ResourceName { return corev1.ResourceName(prefix + profile) }

// IsResource reports whether a resource is MIG devices.
func IsResource(name corev1.ResourceName) bool { return strings.HasPrefix(string(name), prefix) }

// Check returns why a GPU, by EC2's name of its model, can not be partitioned into so many devices of each profile.
func Check(name string, devices map[string]int) Unsupported {
	switch {
	case !HasMIG(name):
		return Unsupported{GPU: name, Reason: "MIG does not partition these"}
	case name == "A100":
		return Unsupported{GPU: name, Reason: reset}
	}
	m, found := layouts()[name]
	if !found {
		return Unsupported{}
	}
	names := slices.SortedFunc(maps.Keys(devices), func(a, b string) int {
		return cmp.Or(cmp.Compare(m.profiles[b].size, m.profiles[a].size), cmp.Compare(a, b))
	})
	var each []placements
	for _, profile := range names {
		p, has := m.profiles[profile]
		if !has {
			return Unsupported{GPU: name, Reason: fmt.Sprintf("its profiles are %s", strings.Join(slices.Sorted(maps.Keys(m.profiles)), ", "))}
		}
		for range devices[profile] {
			if each = append(each, p); len(each) > m.slices {
				break
			}
		}
	}
	if !fit(each, 0) {
		return Unsupported{GPU: name, Reason: "the devices together are more than one GPU holds"}
	}
	return Unsupported{}
}

// fit reports whether all devices have a place beside what is taken.
func fit(each []placements, taken uint) bool {
	if len(each) == 0 {
		return true
	}
	p := each[0]
	for _, start := range p.starts {
		place := (uint(1)<<p.size - 1) << start
		if taken&place == 0 && fit(each[1:], taken|place) {
			return true
		}
	}
	return false
}
