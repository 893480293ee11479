// Package plural writes numbers with their nouns, and lists of which only the first are written. It has two functions, Count and FirstOf.
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

// FirstOf joins the first n of texts by a separator, with how many more there are: "a, b and 3 more", or "a; b; and 3 more".
func FirstOf(texts []string, n int, separator string) string {
	if len(texts) <= n {
		return strings.Join(texts, separator)
	}
	and := " and "
	if separator != ", " {
		and = separator + "and "
	}
	return fmt.Sprintf("%s%s%d more", strings.Join(texts[:n], separator), and, len(texts)-n)
}
