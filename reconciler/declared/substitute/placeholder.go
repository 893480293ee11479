package substitute

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// A placeholder is: prefix, 32 hexadecimal digits of a keyed digest, 4 of the
// expression's length in bytes, the expression in hexadecimal, and what makes
// its length a multiple of four. So it is one plain scalar of YAML and valid base64,
// wherever it stands.
const (
	prefix    = "poolwrightsealed"
	digestLen = 32
	headLen   = len(prefix) + digestLen + 4
)

type placeholder struct {
	from, to   int // in the text
	digest     string
	expression string
}

// seal makes the placeholder that stands for an expression with secret variables.
func (v Values) seal(expression string, names []string) string {
	var b strings.Builder
	b.WriteString(prefix)
	b.WriteString(v.digestOf(expression, names))
	length := strconv.FormatInt(int64(len(expression)), 16)
	b.WriteString(strings.Repeat("0", 4-len(length)) + length)
	b.WriteString(hex.EncodeToString([]byte(expression)))
	b.WriteString(strings.Repeat("0", padding(len(expression))))
	return b.String()
}

func padding(n int) int { return n % 2 * 2 }

// digestOf distinguishes an expression with these values from any other. Only who holds
// the tickets can make it, which keeps authors of repositories from writing
// placeholders.
func (v Values) digestOf(expression string, names []string) string {
	parts := []string{expression}
	var key []byte
	for _, name := range names {
		one, defined := v.get(name)
		switch {
		case !defined:
			parts = append(parts, name, "undefined")
		case one.secret():
			key = append(key, one.ticket...)
			parts = append(parts, name, "secret")
		default:
			parts = append(parts, name, "plain", one.value())
		}
	}
	return digest(key, parts...)
}

// secrets are those of the names whose values are secret.
func (v Values) secrets(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		one, _ := v.get(name)
		return !one.secret()
	})
}

// placeholders finds what has the form of a placeholder.
func placeholders(text string) []placeholder {
	var out []placeholder
	for at := 0; ; {
		i := strings.Index(text[at:], prefix)
		if i < 0 {
			return out
		}
		from := at + i
		m, ok := placeholderAt(text, from)
		if !ok {
			at = from + 1
			continue
		}
		out = append(out, m)
		at = m.to
	}
}

func placeholderAt(text string, from int) (placeholder, bool) {
	rest := text[from:]
	if len(rest) < headLen {
		return placeholder{}, false
	}
	n, err := strconv.ParseUint(rest[headLen-4:headLen], 16, 16)
	if err != nil {
		return placeholder{}, false
	}
	end := headLen + 2*int(n)
	total := end + padding(int(n))
	if len(rest) < total {
		return placeholder{}, false
	}
	expression, err := hex.DecodeString(rest[headLen:end])
	if err != nil {
		return placeholder{}, false
	}
	return placeholder{
		from: from, to: from + total,
		digest: rest[len(prefix) : headLen-4], expression: string(expression),
	}, true
}

// replacePlaceholders returns the text with each placeholder replaced.
func replacePlaceholders(text string, by func(placeholder) (string, error)) (string, error) {
	var b strings.Builder
	at := 0
	for _, m := range placeholders(text) {
		value, err := by(m)
		if err != nil {
			return "", err
		}
		b.WriteString(text[at:m.from])
		b.WriteString(value)
		at = m.to
	}
	b.WriteString(text[at:])
	return b.String(), nil
}
