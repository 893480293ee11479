package catalog

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Requirement is one line of the requirements by which a NodePool, a NodeOverlay
// or a pod chooses among instance types.
type Requirement struct {
	// Key is a label's.
	Key string `json:"key"`
	// Operator is In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte or Lte.
	Operator string `json:"operator"`
	// Values are one whole number for the last four, none for Exists and
	// DoesNotExist.
	Values []string `json:"values"`
}

// Requirements are what a NodePool, as JSON holds it, requires of its nodes: the
// requirements of its template, and the template's labels, which every node has. It is
// nil for what cannot be read: the API server reports what is wrong with that.
func Requirements(pool map[string]any) []Requirement {
	var read struct {
		Spec struct {
			Template struct {
				Metadata struct {
					Labels map[string]string `json:"labels"`
				} `json:"metadata"`
				Spec struct {
					Requirements []Requirement `json:"requirements"`
				} `json:"spec"`
			} `json:"template"`
		} `json:"spec"`
	}
	raw, err := json.Marshal(pool)
	if err != nil || json.Unmarshal(raw, &read) != nil {
		return nil
	}
	out := read.Spec.Template.Spec.Requirements
	for key, value := range read.Spec.Template.Metadata.Labels {
		out = append(out, Requirement{Key: key, Operator: "In", Values: []string{value}})
	}
	return out
}

const instanceLabel = "karpenter.k8s.aws/instance-"

// byType are the ends of the labels that Labels gives.
var byType = []string{
	"family", "size", "cpu", "memory", "cpu-manufacturer", "hypervisor", "category", "generation",
	"gpu-name", "gpu-manufacturer", "gpu-count", "gpu-memory",
	"accelerator-name", "accelerator-manufacturer", "accelerator-count",
}

// ByType reports whether Labels has all of the requirement's key: a type that lacks
// such a label has none at all. Of other keys, such as a zone, an instance type has
// nothing.
func (r Requirement) ByType() bool {
	if suffix, ok := strings.CutPrefix(r.Key, instanceLabel); ok {
		return slices.Contains(byType, suffix)
	}
	return r.Key == "node.kubernetes.io/instance-type" || r.Key == "kubernetes.io/arch"
}

// IsResolved reports whether no value holds a variable that has no value, as "${REGION}a" does. What another one
// selects is not known.
func (r Requirement) IsResolved() bool {
	return !slices.ContainsFunc(r.Values, func(value string) bool { return strings.Contains(value, "${") })
}

// Met reports whether something with these labels satisfies the requirement. An
// operator that there is not is met: whoever reads the object refuses it.
func (r Requirement) Met(labels map[string]string) bool {
	value, has := labels[r.Key]
	switch r.Operator {
	case "In":
		return has && slices.Contains(r.Values, value)
	case "NotIn":
		return !has || !slices.Contains(r.Values, value)
	case "Exists":
		return has
	case "DoesNotExist":
		return !has
	case "Gt", "Lt", "Gte", "Lte":
		return has && r.compares(value)
	}
	return true
}

func (r Requirement) compares(value string) bool {
	if len(r.Values) != 1 {
		return false
	}
	have, errHave := strconv.ParseInt(value, 10, 64)
	bound, errBound := strconv.ParseInt(r.Values[0], 10, 64)
	if errHave != nil || errBound != nil {
		return false
	}
	switch r.Operator {
	case "Gt":
		return have > bound
	case "Lt":
		return have < bound
	case "Gte":
		return have >= bound
	}
	return have <= bound
}

// typeForm takes an instance type's name apart: the family's letters and its
// generation.
var typeForm = regexp.MustCompile(`^([a-z]+)(?:-[0-9]+tb)?([0-9]+)`)

// Labels are those of a node of this type by which requirements choose and that
// the type alone decides. The map is the caller's.
func (t InstanceType) Labels() map[string]string {
	out := map[string]string{
		"node.kubernetes.io/instance-type": t.Name,
		"kubernetes.io/arch":               "amd64",
		instanceLabel + "family":           t.Family(),
		instanceLabel + "size":             t.Size(),
		instanceLabel + "cpu":              strconv.Itoa(t.VCPUs),
		instanceLabel + "memory":           strconv.Itoa(t.MemoryMiB),
		instanceLabel + "cpu-manufacturer": strings.ToLower(t.Processor.Manufacturer),
		// Karpenter gives bare metal the label with an empty value.
		instanceLabel + "hypervisor": t.Hypervisor,
	}
	if slices.Contains(t.Processor.Architectures, "arm64") {
		out["kubernetes.io/arch"] = "arm64"
	}
	if m := typeForm.FindStringSubmatch(t.Name); m != nil {
		out[instanceLabel+"category"], out[instanceLabel+"generation"] = m[1], m[2]
	}
	if t.HasGPU() {
		out[instanceLabel+"gpu-name"] = strings.ReplaceAll(strings.ToLower(t.GPU.Name), " ", "-")
		out[instanceLabel+"gpu-manufacturer"] = strings.ToLower(t.GPU.Manufacturer)
		out[instanceLabel+"gpu-count"] = strconv.Itoa(t.GPU.Count)
		out[instanceLabel+"gpu-memory"] = strconv.Itoa(t.GPU.MemoryMiB)
	}
	if a := t.Accelerator; a.Count > 0 {
		out[instanceLabel+"accelerator-name"] = strings.ReplaceAll(strings.ToLower(a.Name), " ", "-")
		out[instanceLabel+"accelerator-manufacturer"] = strings.ToLower(a.Manufacturer)
		out[instanceLabel+"accelerator-count"] = strconv.Itoa(a.Count)
	}
	return out
}
