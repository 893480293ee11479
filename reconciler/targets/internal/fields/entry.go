package fields

import (
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/state/owner"
)

// Entry is one manager's claim in metadata.managedFields.
type Entry struct {
	// Manager is the name under which fields are owned.
	Manager string
	// Operation is Apply or Update.
	Operation string
	// Version is the apiVersion in which Fields are written.
	Version string
	// Time is when the manager last changed what it owns, RFC 3339.
	Time string
	// Fields is what it owns; never nil.
	Fields Tree
}

// Entries lists the claims on the object itself; claims through a subresource
// such as status are left out.
func Entries(object map[string]any) []Entry {
	metadata, _ := object["metadata"].(map[string]any)
	list, _ := metadata["managedFields"].([]any)
	out := make([]Entry, 0, len(list))
	for _, e := range list {
		m, _ := e.(map[string]any)
		if text(m, "subresource") != "" {
			continue
		}
		set, _ := m["fieldsV1"].(map[string]any)
		if len(set) == 0 {
			set = Tree{".": map[string]any{}}
		}
		out = append(out, Entry{
			Manager: text(m, "manager"), Operation: text(m, "operation"),
			Version: text(m, "apiVersion"), Time: text(m, "time"), Fields: set,
		})
	}
	return out
}

// Applied returns what manager owns by server-side apply, or nil. An object
// may carry claims in several versions; the one in the object's own version is
// preferred.
func Applied(object map[string]any, manager string) Tree {
	var found Tree
	for _, e := range Entries(object) {
		if e.Manager != manager || e.Operation != "Apply" {
			continue
		}
		if found == nil || e.Version == object["apiVersion"] {
			found = e.Fields
		}
	}
	return found
}

// Managers lists the claims of managers, other than the given one, on the field at path (plain field
// names), the most recent first.
func Managers(object map[string]any, except string, path ...string) []owner.Manager {
	var out []owner.Manager
	for _, e := range Entries(object) {
		if e.Manager != except && Claims(e.Fields, path...) {
			out = append(out, owner.Manager{Name: e.Manager, Operation: e.Operation, Time: e.Time})
		}
	}
	slices.SortStableFunc(out, func(a, b owner.Manager) int { return strings.Compare(b.Time, a.Time) })
	return out
}

func text(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

// Claims reports whether the tree owns the field at path (plain field names).
func Claims(t Tree, path ...string) bool {
	for _, name := range path {
		if t = child(t, name); t == nil {
			return false
		}
	}
	return t != nil
}
