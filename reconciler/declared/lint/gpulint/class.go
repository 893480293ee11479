package gpulint

import (
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/state"
)

// nodeClass is what matters of an EC2NodeClass.
type nodeClass struct {
	Spec struct {
		Family   string    `json:"amiFamily"`
		Terms    []amiTerm `json:"amiSelectorTerms"`
		UserData string    `json:"userData"`
	} `json:"spec"`
}

// amiTerm selects AMIs; terms are alternatives.
type amiTerm struct {
	Alias     string            `json:"alias"`
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Parameter string            `json:"ssmParameter"`
	Tags      map[string]string `json:"tags"`
}

// class is an EC2NodeClass.
type class struct {
	nodeClass
	item         state.Item
	bottlerocket bool
}

func (r *repository) readClass(item state.Item) {
	k := &class{item: item}
	if !read(item.Object, &k.nodeClass) {
		return
	}
	k.bottlerocket = strings.EqualFold(k.Spec.Family, "Bottlerocket")
	if k.Spec.Family == "" {
		k.bottlerocket = slices.ContainsFunc(k.Spec.Terms, func(t amiTerm) bool { return strings.HasPrefix(strings.ToLower(t.Alias), "bottlerocket@") })
	}
	r.classes[item.Key.Name] = k
}

// classOf is the pool's class; an empty one where the repository has none.
func (r *repository) classOf(p *pool) *class {
	if k := r.classes[p.Spec.Template.Spec.Class.Name]; k != nil {
		return k
	}
	return &class{}
}
