package policy

import (
	"slices"
	"strings"
)

// like matches with * for anything and ? for one character. It goes back to the
// last star only, so its time is bounded by the product of the lengths.
func like(pattern, s string) bool {
	p, text := []rune(pattern), []rune(s)
	star, from := -1, 0 // behind the last star; where in text it began to match
	i, n := 0, 0
	for n < len(text) {
		switch {
		case i < len(p) && p[i] == '*':
			i++
			star, from = i, n
		case i < len(p) && (p[i] == '?' || p[i] == text[n]):
			i++
			n++
		case star >= 0:
			from++
			i, n = star, from
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}

// resourceLike matches an ARN as the element Resource does: in the first five parts a wildcard
// stays in its own, but for a star that ends one, which goes on over colons. Its time is the
// product of the lengths.
func resourceLike(pattern, arn string) bool {
	p, text := []rune(pattern), []rune(arn)
	colons := 0
	matched := make([]bool, len(text)+1) // by the pattern so far: that many characters
	matched[0] = true
	for i, c := range p {
		overColons := colons >= 5 || endsPart(p[i:])
		next := make([]bool, len(text)+1)
		next[0] = c == '*' && matched[0]
		for n, have := range text {
			inside := overColons || have != ':'
			switch c {
			case '*':
				next[n+1] = matched[n+1] || next[n] && inside
			case '?':
				next[n+1] = matched[n] && inside
			default:
				next[n+1] = matched[n] && c == have
			}
		}
		if c == ':' {
			colons++
		}
		matched = next
	}
	return matched[len(text)]
}

// endsPart reports whether what is left of a pattern begins with a star that ends a part.
func endsPart(rest []rune) bool {
	return rest[0] == '*' && (len(rest) == 1 || rest[1] == ':')
}

// arnLike matches an ARN part by part, as conditions do; "*" alone matches everything.
func arnLike(pattern, arn string) bool {
	if pattern == "*" {
		return true
	}
	p, a := strings.SplitN(pattern, ":", 6), strings.SplitN(arn, ":", 6)
	return len(p) == 6 && len(a) == 6 && slices.EqualFunc(p, a, like)
}

// action matches an action's name, in any case.
func action(pattern, name string) bool {
	return like(strings.ToLower(pattern), strings.ToLower(name))
}

// cover reports whether the patterns, or their Not, are for a name.
func (p patterns) cover(name string, matches func(pattern, name string) bool) bool {
	return slices.ContainsFunc(p.list, func(pattern string) bool { return matches(pattern, name) }) != p.not
}
