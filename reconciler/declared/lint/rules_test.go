package lint

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheFieldsThatARuleReads(t *testing.T) {
	for name, c := range map[string]struct {
		rule string
		want []string
	}{
		"which fields there are":               {"(has(self.role) && !has(self.instanceProfile)) || (!has(self.role) && has(self.instanceProfile))", nil},
		"which fields elements have":           {"self.all(x, has(x.tags) || has(x.id))", nil},
		"how many elements there are":          {"self.size() != 0", nil},
		"whether elements of a field have":     {"!has(self.amiFamily) ? self.amiSelectorTerms.exists(x, has(x.alias)) : true", nil},
		"the value of a field":                 {"self.role != ''", []string{"role"}},
		"the value of a field of a field":      {"self.spec.role != ''", []string{"role"}},
		"the value of a field of elements":     {"self.amiSelectorTerms.exists(x, has(x.alias) && x.alias.find('^[^@]+') == 'al2')", []string{"alias"}},
		"the value of the field that it is at": {"duration(self) >= duration('1m')", []string{"self"}},
		"keys":                                 {"self.all(k, k != 'eks:eks-cluster-name')", []string{"self"}},
		"keys of a field":                      {"self.tags.all(k, k != 'a')", []string{"tags"}},
		"values by their keys":                 {"self.all(k, self[k] != '')", []string{"self"}},
		"an element by its number":             {"int(self.values[0]) >= 0", []string{"values"}},
		"two fields":                           {"self.operator == 'Gt' ? self.values.size() == 1 && int(self.values[0]) >= 0 : true", []string{"operator", "values"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := fieldsRead(c.rule)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := fieldsRead("self."); err == nil {
		t.Error("what is no rule is parsed")
	}
}
