package query

import "strings"

// Wildcard matches as EC2's filters do: * for anything, ? for one character, a
// backslash before either for itself. It goes back to the last star only, so
// its time is bounded by the product of the lengths.
func Wildcard(pattern, s string) bool {
	star, from := -1, 0 // behind the last star; where in s it began to match
	p, n := 0, 0
	for n < len(s) {
		c, size, special := glob(pattern[p:])
		switch {
		case special && c == '*':
			p += size
			star, from = p, n
		case size > 0 && (special || c == s[n]):
			p += size
			n++
		case star >= 0:
			from++
			p, n = star, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// glob reads one element of a pattern; size 0 is its end.
func glob(pattern string) (c byte, size int, special bool) {
	switch {
	case pattern == "":
		return 0, 0, false
	case pattern[0] == '\\' && len(pattern) > 1:
		return pattern[1], 2, false
	}
	return pattern[0], 1, pattern[0] == '*' || pattern[0] == '?'
}
