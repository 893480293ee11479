// Package plural writes numbers with their nouns. It has one function, Count.
package plural

import (
	"fmt"
	"strings"
)

// Count is a number and its noun, in the plural unless the number is 1: "1 policy", "2 policies",
// "2 classes", "0 nodes". The noun ends in neither x nor ch.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok && !strings.ContainsAny(stem[max(0, len(stem)-1):], "aeiou") {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	if strings.HasSuffix(noun, "s") {
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
