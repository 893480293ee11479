package hostkey

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // The format of hashed names has no other.
	"encoding/base64"
	"strings"
)

// hostPattern is one name of a host in a line: a text with the wildcards * and ?, or hashed.
type hostPattern struct {
	text    string
	negated bool
	// salt and sum are those of a hashed name, which has no text.
	salt, sum []byte
}

// parsePatterns reads the names of a line; false where one cannot be read.
func parsePatterns(hosts []string) ([]hostPattern, bool) {
	var out []hostPattern
	for _, host := range hosts {
		if strings.HasPrefix(host, "|") {
			p, ok := parseHashed(host)
			if !ok {
				return nil, false
			}
			out = append(out, p)
			continue
		}
		text, negated := strings.CutPrefix(host, "!")
		if text == "" {
			return nil, false
		}
		out = append(out, hostPattern{text: strings.ToLower(text), negated: negated})
	}
	return out, true
}

// parseHashed reads |1|SALT|SUM.
func parseHashed(host string) (hostPattern, bool) {
	parts := strings.Split(host, "|")
	if len(parts) != 4 || parts[1] != "1" {
		return hostPattern{}, false
	}
	salt, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil {
		return hostPattern{}, false
	}
	sum, err := base64.StdEncoding.DecodeString(parts[3])
	if err != nil || len(sum) != sha1.Size {
		return hostPattern{}, false
	}
	return hostPattern{salt: salt, sum: sum}, true
}

// matches reports whether a line with these names is for a host: one of them is its name,
// and none that is negated.
func matches(patterns []hostPattern, name string) bool {
	found := false
	for _, p := range patterns {
		if !p.matches(name) {
			continue
		}
		if p.negated {
			return false
		}
		found = true
	}
	return found
}

func (p hostPattern) matches(name string) bool {
	if p.sum == nil {
		return wildcard(p.text, name)
	}
	mac := hmac.New(sha1.New, p.salt)
	_, _ = mac.Write([]byte(name))
	return hmac.Equal(mac.Sum(nil), p.sum)
}

// wildcard matches * with any text and ? with any byte. It goes back to the last * only, so
// that its time is at most the product of both lengths.
func wildcard(text, name string) bool {
	t, n, star, from := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case t < len(text) && text[t] == '*':
			star, from = t, n
			t++
		case t < len(text) && (text[t] == '?' || text[t] == name[n]):
			t++
			n++
		case star >= 0:
			from++
			t, n = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(text[t:], "*") == ""
}
