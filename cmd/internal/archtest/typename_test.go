package archtest

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"testing"
)

// exportedMeanings counts the packages that export a type of each name. Two types of one name are two meanings of a
// word, unless a reason in sharedNames makes them one: which of them is meant is then what the package's name states.
func exportedMeanings(s *source) map[string]int {
	out := map[string]int{}
	for _, p := range s.packages {
		if p.in(".ci") {
			// No package imports those modules, so that no reader meets both names.
			continue
		}
		for _, f := range p.written() {
			for _, d := range f.ast.Decls {
				if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
					for _, id := range exported(d) {
						out[id.Name]++
					}
				}
			}
		}
	}
	return out
}

// sharedNames are the names of types that several packages may export, each with the reason.
var sharedNames = map[string][]string{
	"Go's and controller-runtime's own terms for what a package takes, returns or counts": {
		"Config", "Limits", "Metrics", "Options", "Request", "Result", "Server", "Service",
	},
	"an interface, and the types that implement it or take part in it": {
		"Checker", "Forge", "Gates", "Health", "Loader", "Loop", "Planner", "Target", "Waiter",
	},
	"the same value, once as AWS, a Git server or a node has it and once as the sandbox emulates it": {
		"Call", "Clock", "Cluster", "Connection", "Delays", "Device", "Event", "Fault", "GPU", "Group", "Hardware", "Instance",
		"Instances", "Machine", "Network", "NodeGroup", "Offering", "Operation", "Parameter", "PullRequest", "Queues", "Quotas",
		"Repository", "Reservation", "Resource", "Roles", "Row", "Rules", "Sharing", "SharingStrategy", "State", "Table",
	},
	"the same object, as it is computed, as a kind of the API has it, and as it is printed": {
		"Change", "Difference", "Document", "Drift", "Events", "Field", "FieldChange", "Diagnostic", "IgnoredFields", "InstanceType", "Limit",
		"Node", "NonCompute", "NotReady", "Note", "Object", "Pod", "Pods", "Pool", "Price", "Problem", "Quota", "Report",
		"Summary", "Sync", "Unknown",
	},
	"a name of the standard library, of client-go or of Prometheus, which has it in several packages, too": {
		"Backoff", "Builder", "Cache", "Client", "Controller", "Environment", "Error", "Failure", "File", "Fixture", "Item", "Key",
		"Input", "Inputs", "Kind", "List", "Names", "Page", "Process", "Range", "Renderer", "Run", "Query", "Reader", "Reason", "Reconciler", "Record", "Recorder",
		"Ref", "Section", "Status", "Store", "Timeout", "Tree", "Updater", "Usage", "Values", "View", "Watch",
	},
	"the package's name has the other half of the name": {
		"Account", "Action", "Budget", "Budgets", "Case", "Catalog", "Cause", "Commit", "Comparison", "Credentials", "Declared",
		"Facts", "Fingerprint", "Folder", "Live", "Logging", "Nodes", "Objects", "Outcome", "Owners", "Requirement", "Resources",
		"Observation", "Revision", "Rule", "Scenario", "Source", "Violation",
	},
}

// withoutReason lists the names of types that several packages export without a reason, and those of which a reason is
// not needed any more.
func withoutReason(counts map[string]int, reasons map[string][]string) (missing, unneeded []string) {
	given := map[string]bool{}
	for _, names := range reasons {
		for _, name := range names {
			given[name] = true
			if counts[name] < 2 {
				unneeded = append(unneeded, name)
			}
		}
	}
	for name, n := range counts {
		if n > 1 && !given[name] {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	slices.Sort(unneeded)
	return missing, unneeded
}

func TestEveryExportedTypeNameHasOneMeaningOrAReason(t *testing.T) {
	missing, unneeded := withoutReason(exportedMeanings(repository(t)), sharedNames)
	for _, name := range missing {
		t.Errorf("several packages export a type %s: rename one, or give the reason in sharedNames", name)
	}
	for _, name := range unneeded {
		t.Errorf("no two packages export a type %s: its reason is not needed", name)
	}
	found := map[string]string{}
	for _, reason := range slices.Sorted(maps.Keys(sharedNames)) {
		for _, name := range sharedNames[reason] {
			if found[name] != "" {
				t.Errorf("%s has two reasons: %s; %s", name, found[name], reason)
			}
			found[name] = reason
		}
	}
}

func TestATypeNameWithoutAReasonIsFound(t *testing.T) {
	counts := exportedMeanings(parsed(t, map[string]string{
		"a/x.go": "package x\ntype Job int\ntype Config struct{}\ntype Lonely int\n",
		"b/x.go": "package x\ntype Job int\ntype Config struct{}\nfunc Lonely() {}\n",
	}))
	missing, unneeded := withoutReason(counts, map[string][]string{"settings": {"Config", "Gone"}})
	if !slices.Equal(missing, []string{"Job"}) || !slices.Equal(unneeded, []string{"Gone"}) {
		t.Errorf("without a reason %q, with one that is not needed %q", missing, unneeded)
	}
}
