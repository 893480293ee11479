package refs

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

// Revision is a name and the steps from there towards the past.
type Revision struct {
	// Name is a reference, HEAD, or the beginning of a commit id.
	Name string
	// Suffixes are what follows the name, in order.
	Suffixes []Suffix
}

// Suffix goes to a parent: the nth of a merge, or n times to the first one.
type Suffix struct {
	// Nth is true of "^2", and false of "~2".
	Nth bool
	// Count is the number, 1 where none is given.
	Count int
}

var (
	revisionSyntax = regexp.MustCompile(`^([^~^]+)((?:[~^][0-9]*)*)$`)
	suffixSyntax   = regexp.MustCompile(`[~^][0-9]*`)
)

// maxSuffix bounds the number in "~3".
const maxSuffix = 1_000_000

// ParseRevision reads the part of Git's revision syntax that people use to
// name commits: name, name~3, name^, name^2, and these in a row. "@" is HEAD.
func ParseRevision(s string) (Revision, error) {
	m := revisionSyntax.FindStringSubmatch(s)
	if m == nil {
		return Revision{}, errors.New("it is not of the form name, name~3 or name^2")
	}
	r := Revision{Name: m[1]}
	if r.Name == "@" {
		r.Name = "HEAD"
	}
	if err := CheckName(r.Name); err != nil {
		return Revision{}, fmt.Errorf("%q %w", r.Name, err)
	}
	for _, part := range suffixSyntax.FindAllString(m[2], -1) {
		n := 1
		if part[1:] != "" {
			var err error
			if n, err = strconv.Atoi(part[1:]); err != nil || n > maxSuffix {
				return Revision{}, fmt.Errorf("the number in %q is too large", part)
			}
		}
		r.Suffixes = append(r.Suffixes, Suffix{Nth: part[0] == '^', Count: n})
	}
	return r, nil
}
