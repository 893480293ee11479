// Package oracle checks traces (provision/sandbox/trace): pure functions from the
// records of what happened to the rules that it violates.
//
// It refuses to read logs, a cluster or a clock. A further rule is a further file. Start
// reading at Check.
package oracle

import "github.com/poolwright/poolwright/provision/sandbox/trace"

// Violation is a rule that a trace breaks.
type Violation struct {
	Rule string `json:"rule"`
	// N are the places of the records that break it together.
	N []int `json:"n,omitempty"`
	// Detail is what is wrong, in one sentence.
	Detail string `json:"detail"`
}

// Rule is one property of every trace.
type Rule struct {
	// Name is short and unique.
	Name string
	// Promise is the property, in one sentence.
	Promise string
	check   func([]trace.Record) []Violation
}

// Rules are all rules, in the order in which they are printed.
func Rules() []Rule {
	return []Rule{
		{"lives", "No process of the product ends by itself.", lives},
		{"converges", "Every trace ends with the cluster and the inventory as the newest commit declares.", converges},
		{"idle", "Once the cluster is as declared, nothing is written.", idle},
		{"deletions", "A deletion names an incarnation that the product made, that a followed commit removed, that nobody marked to be kept, and with which nothing goes that nobody confirmed.", deletions},
		{"leader", "No process writes after another has acquired the lease.", leader},
		{"comments", "A pull request has at most one comment of the product.", comments},
		{"terminations", "An instance is ended only where its NodeClaim was deleted by somebody who may, and while no pod uses its node, or where none has named it for half a minute.", terminations},
		{"offerings", "An offering for which EC2 had no capacity is not requested again by the same process for three minutes.", unavailableOfferings},
		{"machines", "No NodeClaim has two instances, and no instance lives without a NodeClaim, for longer than a minute; in the end each is a NodeClaim, an instance and a node, and nothing in AWS is without an owner.", machines},
		{"secrets", "A secret is on no wire but its own.", secrets},
	}
}

// Check is the oracle: it returns what the trace breaks of all rules.
func Check(records []trace.Record) []Violation {
	var out []Violation
	for _, rule := range Rules() {
		for _, v := range rule.check(records) {
			v.Rule = rule.Name
			out = append(out, v)
		}
	}
	return out
}
