// Package plural writes numbers with their nouns. It has one function, Count.
package plural

import (
	"fmt"
	"strings"
)

// Count is a number and its noun, in the plural unless the number is 1: "1 policy", "2 policies",
// "0 nodes". The noun ends in neither s, x nor ch.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok && !strings.ContainsAny(stem[max(0, len(stem)-1):], "aeiou") {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
