package api

import (
	"fmt"
	"maps"
	"strings"
	"unicode/utf8"
)

// MostTags is how many tags a resource may have.
const MostTags = 50

// tagFits reports whether a tag's key has 1 to 128 characters, and its value at most 256.
func tagFits(key, value string) bool {
	return key != "" && utf8.RuneCountInString(key) <= 128 && utf8.RuneCountInString(value) <= 256
}

// AddTags is tags with more put over them, or what is wrong with more.
func AddTags(tags, more map[string]string) (out map[string]string, problem string) {
	for k, v := range more {
		switch {
		case !tagFits(k, v):
			return nil, fmt.Sprintf("Tag key '%s' or its value is empty or too long (128 and 256 characters).", k)
		case strings.HasPrefix(strings.ToLower(k), "aws:"):
			return nil, fmt.Sprintf("Tag keys starting with 'aws:' are reserved for internal use: '%s'", k)
		}
	}
	out = WithTags(tags)
	maps.Copy(out, more)
	if len(out) > MostTags {
		return nil, fmt.Sprintf("A resource has at most %d tags.", MostTags)
	}
	return out, ""
}

// WithTags copies tags and adds pairs of key and value; it is never nil.
func WithTags(tags map[string]string, pairs ...string) map[string]string {
	out := maps.Clone(tags)
	if out == nil {
		out = map[string]string{}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

// Clones copies what a list points to.
func Clones[T any](in []*T) []*T {
	out := make([]*T, len(in))
	for n, v := range in {
		c := *v
		out[n] = &c
	}
	return out
}
