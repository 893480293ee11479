package owner

import "strings"

// Fields is what an apply changes in an object's metadata.managedFields, which has the
// owners of its fields.
type Fields struct {
	// Unclaimed are the paths of declared fields that Poolwright does not own yet; none where
	// it owns fields that are no longer declared.
	Unclaimed []string
	// Ignored are JSON pointers to the fields that Poolwright owns although the Sync ignores them.
	Ignored []string
}

// String is what is to be changed, as a phrase for people.
func (f Fields) String() string {
	switch {
	case len(f.Unclaimed) > 0:
		return "not yet owned by Poolwright: " + strings.Join(f.Unclaimed, ", ")
	case len(f.Ignored) > 0:
		return "ignored, and still owned by Poolwright: " + strings.Join(f.Ignored, ", ")
	}
	return "Poolwright still owns fields that are no longer declared"
}
