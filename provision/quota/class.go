// Package quota computes what NodePools can draw on EC2's vCPU quotas, and which of them
// cannot reach their limits within what the quotas have left.
//
// It is pure, and refuses to read a quota or an instance: who does passes the numbers. Start
// reading at Pool and at Exceeded.
package quota

import (
	"regexp"
	"strconv"
	"strings"
)

// Class is one quota: which instances count against it, and its name.
type Class struct {
	// Name is what AWS calls the quota today; names change, see Matches.
	Name string
	// family is the token of the family in such names.
	family string
	spot   bool
	// from and to bound the generations, where quotas differ by them.
	from, to int
}

// Classes are the quotas of the families that most pools are made of.
func Classes() []Class {
	const all = 1 << 10
	return []Class{
		{"Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", "STANDARD", false, 0, all},
		{"Running On-Demand G and VT instances", "G", false, 0, all},
		{"Running On-Demand P instances", "P", false, 0, all},
		{"All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests", "STANDARD", true, 0, all},
		{"All G and VT Spot Instance Requests", "G", true, 0, all},
		{"All P4, P3 and P2 Spot Instance Requests", "P", true, 0, 4},
		{"All P5 Spot Instance Requests", "P", true, 5, all},
	}
}

// familyForm finds the family names in the name of a quota.
var familyForm = regexp.MustCompile(`([A-Z]+)([0-9]*)`)

// Matches reports whether a quota of that name is the class's. AWS renames
// quotas and splits them by generations ("All P Spot Instance Requests" became
// two), so its parts are compared, not the name.
func (q Class) Matches(name string) bool {
	name = strings.ToUpper(name)
	for _, other := range []string{"DEDICATED", "HOST", "FLEET", "BLOCK", "RESERV"} {
		if strings.Contains(name, other) {
			return false
		}
	}
	if !strings.Contains(name, "INSTANCE") || strings.Contains(name, "SPOT") != q.spot || strings.Contains(name, "ON-DEMAND") == q.spot {
		return false
	}
	for _, m := range familyForm.FindAllStringSubmatch(name, -1) {
		generation, err := strconv.Atoi(m[2])
		if m[1] == q.family && (err != nil || q.from <= generation && generation <= q.to) {
			return true
		}
	}
	return false
}

// typeForm takes an instance type's name apart: the family's letters and its
// generation.
var typeForm = regexp.MustCompile(`^([a-z]+)(?:-[0-9]+tb)?([0-9]+)`)

// ClassOf finds the quota that an instance counts against; false for families
// with quotas of their own, which are not read.
func ClassOf(instanceType string, spot bool) (Class, bool) {
	m := typeForm.FindStringSubmatch(instanceType)
	if m == nil {
		return Class{}, false
	}
	family := ""
	switch m[1] {
	case "a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z":
		family = "STANDARD"
	case "g", "gr", "vt":
		family = "G"
	case "p":
		family = "P"
	}
	generation, err := strconv.Atoi(m[2])
	if err != nil {
		return Class{}, false
	}
	for _, q := range Classes() {
		if q.family == family && q.spot == spot && q.from <= generation && generation <= q.to {
			return q, true
		}
	}
	return Class{}, false
}
