// Package yamlvalue has the values of YAML nodes that are read alike by every version of YAML, in
// whatever style they are written. Most nodes of most files are such: the others need the way
// through text, and each reader's own rules. Start reading at Of.
package yamlvalue

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Decode is a node's value in canonical JSON form. It is false where writing the node and reading it
// again may give another, and where YAML 1.1 and 1.2 differ: for these somebody else decides.
func Decode(n *yaml.Node) (any, bool) {
	if n == nil || n.Anchor != "" || n.FootComment != "" || !comment(n.HeadComment) || !comment(n.LineComment) {
		return nil, false
	}
	switch n.Kind {
	case yaml.ScalarNode:
		return scalar(n)
	case yaml.SequenceNode:
		return list(n)
	case yaml.MappingNode:
		return object(n)
	case yaml.DocumentNode, yaml.AliasNode:
	}
	return nil, false
}

func list(n *yaml.Node) (any, bool) {
	if n.Tag != "" && n.Tag != "!!seq" {
		return nil, false
	}
	out := make([]any, len(n.Content))
	for i, c := range n.Content {
		v, ok := Decode(c)
		if !ok {
			return nil, false
		}
		out[i] = v
	}
	return out, true
}

// longestKey is what a key may have to be written without a question mark, in bytes.
const longestKey = 100

func object(n *yaml.Node) (any, bool) {
	if n.Tag != "" && n.Tag != "!!map" {
		return nil, false
	}
	out := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, ok := Decode(n.Content[i])
		name, isText := key.(string)
		if !ok || !isText || len(name) > longestKey || strings.Contains(name, "\n") {
			return nil, false
		}
		if _, twice := out[name]; twice {
			return nil, false
		}
		if out[name], ok = Decode(n.Content[i+1]); !ok {
			return nil, false
		}
	}
	return out, true
}

func scalar(n *yaml.Node) (any, bool) {
	switch n.Style {
	case yaml.DoubleQuotedStyle, yaml.SingleQuotedStyle, yaml.LiteralStyle:
		return n.Value, (n.Tag == "" || n.Tag == "!!str") && lines(n.Value)
	case 0:
	default:
		return nil, false
	}
	switch n.ShortTag() {
	case "!!str":
		return n.Value, lines(n.Value) && alwaysText(n.Value)
	case "!!int":
		return integer(n.Value)
	case "!!bool":
		return n.Value == "true", n.Value == "true" || n.Value == "false"
	case "!!null":
		return nil, n.Value == "null" || n.Value == "~"
	}
	return nil, false
}

// integer is a number that has one way of being written.
func integer(text string) (any, bool) {
	const most = 18
	digits := strings.TrimPrefix(text, "-")
	if digits == "" || len(digits) > most || digits[0] == '0' && text != "0" || strings.Trim(digits, "0123456789") != "" {
		return nil, false
	}
	v, err := strconv.ParseInt(text, 10, 64)
	return v, err == nil
}

// alwaysText reports text without quotes that no version takes for anything else: that begins with a
// letter or a slash and is no word for truth or nothing, or that has a letter which no number or
// time has.
func alwaysText(text string) bool {
	if text == "" {
		return false
	}
	switch first := text[0]; {
	case first >= 'a' && first <= 'z', first >= 'A' && first <= 'Z':
		switch strings.ToLower(text) {
		case "y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf":
			return false
		}
		return true
	case first == '/':
		return true
	case first >= '0' && first <= '9':
		return strings.ContainsAny(text, "ghijklmnpqrsuvwyGHIJKLMNPQRSUVWY")
	}
	return false
}

// lines reports text that is read as it is written, in whatever style: of printable ASCII, in lines
// that neither begin the text with space nor end in it.
func lines(text string) bool {
	if text == "" {
		return true
	}
	if text[0] == ' ' || text[0] == '\n' {
		return false
	}
	for i := range len(text) {
		c := text[i]
		switch {
		case c == '\n':
			if text[i-1] == ' ' {
				return false
			}
		case c < ' ' || c > '~':
			return false
		}
	}
	return true
}

// comment reports a comment that is written as one.
func comment(text string) bool {
	if text == "" {
		return true
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" && !strings.HasPrefix(line, "#") {
			return false
		}
	}
	return true
}
