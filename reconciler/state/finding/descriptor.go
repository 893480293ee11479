package finding

import (
	"slices"
	"strings"
)

// Severity is how much a finding matters, as a level of SARIF.
type Severity string

// The severities.
const (
	// Error: it cannot work, or is a secret in Git.
	Error Severity = "error"
	// Warning: it works, and otherwise, or at a higher price, than may be meant; or it will go wrong unless somebody acts.
	Warning Severity = "warning"
	// Note: nothing follows from it.
	Note Severity = "note"
)

// Descriptor is what a code means.
type Descriptor struct {
	Code     Code
	Severity Severity
	// Summary is what was found, Remedy what to do about it: a sentence each.
	Summary, Remedy string
}

// page is where the descriptors are published.
const page = "https://github.com/poolwright/poolwright/blob/main/docs/findings.md"

// HelpURI is the address of the code's row in the documentation.
func (d Descriptor) HelpURI() string { return page + "#" + d.Anchor() }

// Anchor is the name of the code's row in its page.
func (d Descriptor) Anchor() string { return strings.ToLower(string(d.Code)) }

// Section is a part of the table: what the findings are about.
type Section struct {
	Title       string
	Descriptors []Descriptor
}

// Sections is the table of all codes, each once, in the order of codes within a section.
func Sections() []Section {
	return []Section{
		{"Manifests", manifestDescriptors()},
		{"Kustomizations", kustomizationDescriptors()},
		{"Variables", variableDescriptors()},
		{"Karpenter's old APIs", conversionDescriptors()},
		{"GPUs, pools and classes", gpuDescriptors()},
		{"Sharing of GPUs", sharingDescriptors()},
		{"The Cluster and AWS", awsDescriptors()},
		{"Unknown objects of AWS", unknownDescriptors()},
		{"Objects in the cluster", clusterDescriptors()},
		{"Plans and pull requests", planDescriptors()},
		{"Forecasts", forecastDescriptors()},
	}
}

// Describe is what a code means; false where the table has no such code.
func Describe(code Code) (Descriptor, bool) {
	for _, s := range Sections() {
		if i := slices.IndexFunc(s.Descriptors, func(d Descriptor) bool { return d.Code == code }); i >= 0 {
			return s.Descriptors[i], true
		}
	}
	return Descriptor{}, false
}
