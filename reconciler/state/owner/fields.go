package owner

import "strings"

// Fields is what an apply changes in an object's metadata.managedFields, which has the
// owners of its fields.
type Fields struct {
	// Unclaimed are the paths of declared fields that Poolwright does not own yet; none where
	// it owns fields that are no longer declared.
	Unclaimed []string
}

// String is what is to be changed, as a phrase for people.
func (f Fields) String() string {
	if len(f.Unclaimed) > 0 {
		return "not yet owned by Poolwright: " + strings.Join(f.Unclaimed, ", ")
	}
	return "Poolwright still owns fields that are no longer declared"
}
