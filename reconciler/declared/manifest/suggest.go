package manifest

import (
	"slices"
	"strconv"
	"strings"
)

// Suggestion ends a message about an unknown name: with the known one that was
// probably meant, or with nothing.
func Suggestion(given string, known []string) string {
	if best := ClosestName(given, known); best != "" {
		return "; did you mean " + strconv.Quote(best) + "?"
	}
	return ""
}

// ClosestName is the known name that was probably meant by an unknown one; empty where none was.
func ClosestName(given string, known []string) string {
	known = slices.Sorted(slices.Values(known))
	best, distance := "", max(2, len(given)/4)+1
	for _, name := range known {
		if d := edits(strings.ToLower(given), strings.ToLower(name)); d < distance && d < len(name) {
			best, distance = name, d
		}
	}
	return best
}

// edits is the number of letters to insert, delete or change. Names longer
// than any field's are not compared.
func edits(a, b string) int {
	const longest = 100
	if len(a) > longest || len(b) > longest {
		return longest
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			step := diagonal
			if a[i-1] != b[j-1] {
				step++
			}
			diagonal = row[j]
			row[j] = min(step, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
