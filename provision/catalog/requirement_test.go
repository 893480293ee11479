package catalog

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRequirementsChooseInstanceTypes(t *testing.T) {
	types := load(t)
	const aws = "karpenter.k8s.aws/instance-"
	in := func(key string, values ...string) Requirement {
		return Requirement{Key: key, Operator: "In", Values: values}
	}
	for name, c := range map[string]struct {
		requirements []Requirement
		want         string
	}{
		"by name":            {[]Requirement{in("node.kubernetes.io/instance-type", "g5.xlarge", "m5.large", "x9.huge")}, "g5.xlarge m5.large"},
		"by family and size": {[]Requirement{in(aws+"family", "g4dn"), in(aws+"size", "12xlarge")}, "g4dn.12xlarge"},
		"by the count of GPUs": {
			[]Requirement{in(aws+"family", "g5"), {Key: aws + "gpu-count", Operator: "Gt", Values: []string{"4"}}}, "g5.48xlarge",
		},
		"at least and at most": {[]Requirement{
			in(aws+"family", "g5"), {Key: aws + "cpu", Operator: "Gte", Values: []string{"8"}}, {Key: aws + "cpu", Operator: "Lte", Values: []string{"16"}},
		}, "g5.2xlarge g5.4xlarge"},
		"less than": {[]Requirement{in(aws+"family", "g5"), {Key: aws + "cpu", Operator: "Lt", Values: []string{"8"}}}, "g5.xlarge"},
		"by what is not there": {[]Requirement{
			in(aws+"category", "g"), in("kubernetes.io/arch", "arm64"), {Key: aws + "size", Operator: "NotIn", Values: []string{"metal", "16xlarge", "8xlarge", "4xlarge"}},
		}, "g5g.2xlarge g5g.xlarge"},
		"with a bound that is no number": {[]Requirement{{Key: aws + "cpu", Operator: "Gt", Values: []string{"many"}}}, ""},
		"with two bounds":                {[]Requirement{{Key: aws + "cpu", Operator: "Gt", Values: []string{"1", "2"}}}, ""},
		"by accelerators": {[]Requirement{
			in(aws+"accelerator-name", "trainium"), {Key: aws + "accelerator-count", Operator: "Gt", Values: []string{"1"}},
		}, "trn1.32xlarge trn1n.32xlarge"},
		"by accelerators that are not Neuron devices": {[]Requirement{in(aws+"accelerator-manufacturer", "qualcomm")}, "dl2q.24xlarge"},
		"a model with spaces in its name":             {[]Requirement{in(aws+"gpu-name", "rtx-pro-server-6000"), in(aws+"gpu-count", "8")}, "g7e.48xlarge"},
		"by a zone, which types do not have": {
			[]Requirement{in("topology.kubernetes.io/zone", "eu-west-1a"), in("node.kubernetes.io/instance-type", "m5.large")}, "m5.large",
		},
		"by an operator that there is not": {[]Requirement{{Key: aws + "cpu", Operator: "About"}, in(aws+"family", "p5e", "p5en")}, "p5e.48xlarge p5en.48xlarge"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, it := range types.Types() {
				labels := it.Labels()
				if !slices.ContainsFunc(c.requirements, func(r Requirement) bool { return r.ByType() && !r.Met(labels) }) {
					got = append(got, it.Name)
				}
			}
			if diff := cmp.Diff(strings.Fields(c.want), append([]string{}, got...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRequirementsOfAPoolIncludeItsLabels(t *testing.T) {
	pool := func(template map[string]any) map[string]any {
		return map[string]any{"spec": map[string]any{"template": template}}
	}
	for name, c := range map[string]struct {
		pool map[string]any
		want []Requirement
	}{
		"both": {pool(map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"team": "ml"}},
			"spec":     map[string]any{"requirements": []any{map[string]any{"key": "a", "operator": "Gt", "values": []any{"3"}}}},
		}), []Requirement{{Key: "a", Operator: "Gt", Values: []string{"3"}}, {Key: "team", Operator: "In", Values: []string{"ml"}}}},
		"neither":               {pool(map[string]any{}), nil},
		"what cannot be read":   {pool(map[string]any{"spec": map[string]any{"requirements": "all"}}), nil},
		"nothing that is there": {nil, nil},
	} {
		if diff := cmp.Diff(c.want, Requirements(c.pool)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
