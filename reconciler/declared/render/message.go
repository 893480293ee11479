package render

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
)

var (
	// afterthought is what kustomize adds when a file is not also a folder.
	afterthought = regexp.MustCompile(`: must build at directory: '[^']*': file is not directory`)
	// pointer is a Go value that was printed by accident; it differs each time.
	pointer    = regexp.MustCompile(` ?&\{[^}]*\}`)
	registered = regexp.MustCompile(`already registered id: ([^\s']+)`)
)

// unwrapMessage removes what kustomize and the file system wrap around a message.
func unwrapMessage(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Sprintf("%s: %v", pe.Path, pe.Err)
	}
	text := strings.TrimPrefix(err.Error(), "error unmarshaling JSON: while decoding JSON: ")
	text = strings.TrimPrefix(text, "json: ")
	text = pointer.ReplaceAllString(afterthought.ReplaceAllString(text, ""), "")
	if m := registered.FindStringSubmatch(text); m != nil {
		return m[1] + " is declared twice: two of the resources lead to the same object; name it once"
	}
	return strings.Join(strings.Fields(text), " ")
}

// quoting is where kustomize starts to repeat what it was given, which may be a
// patch of a Secret, or a Secret.
var quoting = regexp.MustCompile(`with config:|literal source |utf8 bytes|from \[|\[?patch: "|Patch=|roleRef|for patch|path in \{?|same time|referral targets|for value`)

// longest is the longest message of kustomize that is passed on, in bytes.
const longest = 600

// message is what kustomize reports, without what it quotes: messages reach
// status fields and logs, where a secret must not.
func (s *survey) message(err error) string {
	text := unwrapMessage(err)
	if at := quoting.FindStringIndex(text); at != nil {
		text = text[:at[1]] + " …"
	}
	for _, value := range s.secrets() {
		text = strings.ReplaceAll(text, value, "(hidden)")
	}
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + " …"
	}
	return text
}

// secrets are the values that the tree declares as secret, the longest first.
func (s *survey) secrets() []string {
	var out []string
	add := func(v string) {
		const shortest = 4 // shorter ones would blank out text by chance
		if len(v) < shortest {
			return
		}
		out = append(out, v)
		if plain, err := base64.StdEncoding.DecodeString(v); err == nil && len(plain) >= shortest {
			out = append(out, string(plain))
		}
	}
	for _, k := range s.kustomizations {
		for _, e := range entries(k.doc.Node, "secretGenerator") {
			for _, literal := range entries(e, "literals") {
				_, value, _ := strings.Cut(manifest.Text(literal), "=")
				add(strings.Trim(value, `"'`))
			}
		}
	}
	for _, docs := range s.documents {
		for _, d := range docs {
			if manifest.Text(manifest.Child(d.Node, "kind")) != "Secret" {
				continue
			}
			for _, field := range []string{"data", "stringData"} {
				each(manifest.Child(d.Node, field), func(n *yaml.Node) { add(n.Value) })
			}
		}
	}
	slices.SortFunc(out, func(a, b string) int { return len(b) - len(a) })
	return out
}

// each calls f for every scalar below n.
func each(n *yaml.Node, f func(*yaml.Node)) {
	if n == nil {
		return
	}
	if n.Kind == yaml.ScalarNode {
		f(n)
	}
	for _, c := range n.Content {
		each(c, f)
	}
}
