package convert

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
)

// mask stands for a line that is not shown.
const mask = "***"

// masked is a file as it may be shown: values of Secrets and user data are left
// out, line by line, so that the others keep their numbers. What cannot be read is
// not shown at all.
func masked(name string, content []byte) []byte {
	docs, problems, err := manifest.NewTree(nil, manifest.Limits{}).Parse(name, content)
	if err != nil || len(problems) > 0 {
		return []byte(mask + "\n")
	}
	lines := strings.SplitAfter(string(content), "\n")
	for i, d := range docs {
		end := len(lines)
		if i+1 < len(docs) {
			end = docs[i+1].Line - 1
		}
		hide(lines, d.Node, end)
	}
	return []byte(strings.Join(lines, ""))
}

// hide masks what is secret below a node that ends before a line.
func hide(lines []string, n *yaml.Node, end int) {
	if n.Kind == yaml.SequenceNode {
		for i, item := range n.Content {
			last := end
			if i+1 < len(n.Content) {
				last = max(item.Line, n.Content[i+1].Line-1)
			}
			hide(lines, item, last)
		}
		return
	}
	if n.Kind != yaml.MappingNode {
		return
	}
	isSecret := manifest.Text(manifest.Child(n, "kind")) == "Secret"
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, last := n.Content[i], end
		if i+2 < len(n.Content) {
			last = max(key.Line, n.Content[i+2].Line-1)
		}
		if key.Value == "userData" || isSecret && (key.Value == "data" || key.Value == "stringData") {
			cover(lines, key, last)
		} else {
			hide(lines, n.Content[i+1], last)
		}
	}
}

// cover masks the lines from a key on, the key itself left out.
func cover(lines []string, key *yaml.Node, last int) {
	for i := key.Line - 1; i < last && i < len(lines); i++ {
		text := strings.TrimLeft(lines[i], " -")
		visible := lines[i][:len(lines[i])-len(text)]
		if i == key.Line-1 {
			if at := strings.Index(lines[i], key.Value); at >= 0 {
				visible = lines[i][:at+len(key.Value)] + ": "
			}
		} else if strings.TrimSpace(text) == "" || strings.HasPrefix(text, "---") {
			continue
		}
		lines[i] = visible + mask + ending(lines[i])
	}
}

// ending is a line's line break, if it has one.
func ending(line string) string { return line[len(strings.TrimRight(line, "\r\n")):] }
