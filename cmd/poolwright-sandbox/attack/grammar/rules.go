package grammar

import "slices"

// symbol is a nonterminal of the grammar.
type symbol string

const (
	repository symbol = "repository"
	layer      symbol = "layer"
	entry      symbol = "entry"
	file       symbol = "file"
	object     symbol = "object"
	value      symbol = "value"
	text       symbol = "text"
)

// bound is between which numbers one may be.
type bound struct{ least, most int }

// occurrence is how often a symbol is within a rule.
type occurrence struct {
	symbol      symbol
	least, most int
}

// rule replaces a symbol. What its numbers mean is at the function that writes it.
type rule struct {
	name    string
	symbol  symbol
	numbers []bound
	parts   []occurrence
}

// required reports whether something must be within it.
func (r rule) required() bool {
	return slices.ContainsFunc(r.parts, func(p occurrence) bool { return p.least > 0 && p.symbol != text })
}

const (
	many   = 10_000
	length = 1 << 20
)

var (
	one      = bound{1, 1 << 4}
	some     = bound{1, 1 << 8}
	flag     = bound{0, 1}
	target   = bound{0, 4}
	counted  = bound{1, many}
	valued   = bound{1, 100_000}
	lengthy  = bound{1, length}
	anyFiles = occurrence{file, 0, 4}
	someFile = occurrence{file, 1, 2}
	anyEntry = occurrence{entry, 0, 6}
	oneText  = occurrence{text, 1, 1}
)

// rules is the grammar: what a repository can hold, of what grows or is expensive to check.
var rules = []rule{
	{"plain", repository, nil, []occurrence{{file, 1, 6}}},
	{"kustomized", repository, nil, []occurrence{{layer, 1, 1}}},

	{"overlay", layer, []bound{one, flag}, []occurrence{anyFiles, {layer, 0, 3}, anyEntry}},
	{"chain", layer, []bound{{1, 31}}, []occurrence{someFile, anyEntry}},
	{"diamond", layer, []bound{{1, 10}, {2, 4}}, []occurrence{someFile, {entry, 0, 2}}},

	{"documents", file, []bound{counted}, []occurrence{{object, 1, 3}}},
	{"list", file, []bound{counted}, []occurrence{{object, 1, 2}}},
	{"flood", file, []bound{{1, 4_000}}, []occurrence{{object, 1, 1}}},

	{"configMap", object, []bound{counted}, []occurrence{oneText}},
	{"widget", object, nil, []occurrence{{value, 1, 3}}},
	{"nodePool", object, []bound{some, some, some, flag}, nil},
	{"nodeClass", object, []bound{some, some}, []occurrence{oneText}},
	{"nodeOverlay", object, []bound{some, some}, nil},
	{"devicePlugin", object, []bound{some, some}, nil},
	{"deployment", object, []bound{{1, 1_000_000}, some, some, one}, nil},
	{"daemonSet", object, []bound{some, one}, nil},
	{"definition", object, []bound{counted, {1, 90}, some}, nil},
	{"role", object, []bound{counted, some, flag}, nil},
	{"provisioner", object, []bound{some, some, some}, nil},
	{"sync", object, []bound{some}, []occurrence{oneText}},
	{"named", object, []bound{{0, 5}, {1, 600}}, nil},

	{"scalar", value, nil, []occurrence{oneText}},
	{"items", value, []bound{valued}, []occurrence{{value, 1, 2}}},
	{"fields", value, []bound{valued}, []occurrence{{value, 1, 2}}},
	{"nested", value, []bound{{1, 110}, flag}, nil},
	{"aliases", value, []bound{{1, 12}, {1, 300}}, nil},
	{"merged", value, []bound{{1, 12}, {1, 300}}, nil},
	{"numbers", value, []bound{valued, {0, 4}}, nil},
	{"empty", value, []bound{valued, flag}, nil},

	{"letters", text, []bound{lengthy}, nil},
	{"markup", text, []bound{lengthy}, nil},
	{"escaped", text, []bound{lengthy, {0, 4}}, nil},
	{"lines", text, []bound{lengthy}, nil},
	{"variables", text, []bound{valued, {0, 4}}, nil},
	{"defaults", text, []bound{some, {0, 2}}, nil},
	{"references", text, []bound{valued}, nil},

	{"labels", entry, []bound{some, some, flag, one}, nil},
	{"annotations", entry, []bound{some, lengthy}, nil},
	{"affixes", entry, []bound{{1, 512}, {1, 512}}, nil},
	{"images", entry, []bound{some, {1, 512}}, nil},
	{"generator", entry, []bound{some, some, flag}, []occurrence{oneText}},
	{"merge", entry, []bound{target, some, one}, []occurrence{oneText}},
	{"operations", entry, []bound{target, some, {0, 4}}, []occurrence{oneText}},
	{"replacement", entry, []bound{some, some, flag, flag, {0, 4}}, nil},
	{"vars", entry, []bound{{1, 8}, lengthy}, nil},
	{"pattern", entry, []bound{some, some}, nil},
	{"configuration", entry, []bound{some}, nil},
	{"schema", entry, []bound{some, flag}, nil},
	{"order", entry, []bound{some}, nil},
	{"transformer", entry, []bound{some, {1, 100_000}, {0, 3}}, nil},
	{"metadata", entry, nil, nil},
}

func rulesOf(s symbol) []rule {
	var out []rule
	for _, r := range rules {
		if r.symbol == s {
			out = append(out, r)
		}
	}
	return out
}

func ruleNamed(name string) (rule, bool) {
	for _, r := range rules {
		if r.name == name {
			return r, true
		}
	}
	return rule{}, false
}
