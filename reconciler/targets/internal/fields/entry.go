package fields

import (
	"slices"
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

// Owners lists the managers, other than the given one, that own the field at
// path (plain field names), the most recent first.
func Owners(object map[string]any, except string, path ...string) []string {
	var claims []Entry
	for _, e := range Entries(object) {
		if e.Manager == except {
			continue
		}
		at := e.Fields
		for _, name := range path {
			if at = child(at, name); at == nil {
				break
			}
		}
		if at != nil {
			claims = append(claims, e)
		}
	}
	slices.SortStableFunc(claims, func(a, b Entry) int {
		switch {
		case a.Time > b.Time:
			return -1
		case a.Time < b.Time:
			return 1
		}
		return 0
	})
	var out []string
	for _, e := range claims {
		if !slices.Contains(out, e.Manager) {
			out = append(out, e.Manager)
		}
	}
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
