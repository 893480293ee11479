package assets

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// notes are the release's section of the changelog, or what is not released yet where it has none.
func (c Config) notes(out io.Writer) (asset, error) {
	raw, err := os.ReadFile(filepath.Join(c.Root, "CHANGELOG.md"))
	if err != nil {
		return asset{}, fmt.Errorf("reading the release notes: %w", err)
	}
	text := section(string(raw), c.Release.Version)
	if text == "" {
		if text = section(string(raw), "Unreleased"); text == "" {
			return asset{}, fmt.Errorf("CHANGELOG.md has neither a section %q nor one %q: add the first", "## "+c.Release.Version, "## Unreleased")
		}
		fmt.Fprintf(out, "CHANGELOG.md has no section %q: the release notes are those of %q\n", "## "+c.Release.Version, "## Unreleased")
	}
	head := fmt.Sprintf("Image: `%s:%s@%s`\n\n", c.Repository, c.Release.Version, c.ImageDigest)
	return asset{name: "release-notes.md", content: []byte(head + text + "\n")}, nil
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
