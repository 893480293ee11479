package assets

import (
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// CheckChangelog refuses a final version while something is left under Unreleased, which its notes would lack.
func CheckChangelog(root, version string) error {
	raw, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return fmt.Errorf("reading the release notes: %w", err)
	}
	if strings.Contains(version, "-") || section(string(raw), "Unreleased") == "" {
		return nil
	}
	return fmt.Errorf("CHANGELOG.md has a text below %q, which the notes of %s would lack: move it below %q", "## Unreleased", version, "## "+version)
}

// notes are the release's section of the changelog, with links to the files of its tag. One before the release has those of the version
// that it leads to, or what is not released yet.
func (c Config) notes(out io.Writer) (asset, error) {
	raw, err := os.ReadFile(filepath.Join(c.Root, "CHANGELOG.md"))
	if err != nil {
		return asset{}, fmt.Errorf("reading the release notes: %w", err)
	}
	version := c.Release.Version
	names := []string{version}
	if release, _, before := strings.Cut(version, "-"); before {
		names = append(names, release, "Unreleased")
	}
	for _, name := range names {
		text := section(string(raw), name)
		if text == "" {
			continue
		}
		if name != version {
			fmt.Fprintf(out, "CHANGELOG.md has no section %q: the release notes are those of %q\n", "## "+version, "## "+name)
		}
		head := fmt.Sprintf("Image: `%s:%s@%s`\n\n", c.Repository, version, c.ImageDigest)
		return asset{name: "release-notes.md", content: []byte(head + absolute(text, version) + "\n")}, nil
	}
	return asset{}, fmt.Errorf("CHANGELOG.md has no section %q with a text: add it below %q", "## "+version, "## Unreleased")
}

// section is the text below a heading of the second level that begins with a name, up to the next one.
func section(text, name string) string {
	for part := range strings.SplitSeq("\n"+text, "\n## ") {
		heading, body, _ := strings.Cut(part, "\n")
		if first, _, _ := strings.Cut(heading, " "); first == name {
			return strings.TrimSpace(body)
		}
	}
	return ""
}

// linked finds the targets of links in Markdown, and before them code, in which nothing is one.
var linked = regexp.MustCompile("(?s:```.*?```)|`[^`]*`|\\]\\(([^)\\s]+)\\)")

var scheme = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:|^//`)

// absolute has the links of the changelog lead to the files of a tag: where the notes are published, there are none beside them.
func absolute(text, tag string) string {
	return linked.ReplaceAllStringFunc(text, func(found string) string {
		target := linked.FindStringSubmatch(found)[1]
		if target == "" || scheme.MatchString(target) {
			return found
		}
		file, fragment, _ := strings.Cut(target, "#")
		if file == "" {
			file = "CHANGELOG.md"
		}
		if fragment != "" {
			fragment = "#" + fragment
		}
		return "](" + homepage + "/blob/" + path.Join(tag, file) + fragment + ")"
	})
}
