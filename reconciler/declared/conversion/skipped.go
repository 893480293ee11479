package conversion

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/poolwright/poolwright/reconciler/state"
)

// skipped are the files that stay as they are because of what could not be converted:
// those that hold it, and those of the pools and classes that belong to it, since a
// pool of v1 beside a class of v1beta1 would be worse than both of v1beta1. Where that
// is unknown, as with patches, all of them do.
func (f *files) skipped() func(file string) bool {
	all := slices.ContainsFunc(f.run.changes, func(c Change) bool { return c.Blocks && c.Object == "" })
	held := map[string]bool{}
	for more := true; more; {
		more = false
		for _, o := range f.run.objects {
			ties := o.ties()
			all = all || o.blocked && (len(ties) == 0 || len(f.patches) > 0)
			if !o.blocked && !slices.ContainsFunc(ties, func(tie string) bool { return held[tie] }) {
				continue
			}
			for _, tie := range ties {
				more = more || !held[tie]
				held[tie] = true
			}
		}
	}
	return func(file string) bool { return all || held["file "+file] }
}

// ties are what a pool or a class shares with what belongs to it: its file, and the
// class by its name. Nothing of other objects is lost where they are renamed alone.
func (o *object) ties() []string {
	switch {
	case o.pool():
		return []string{"file " + o.file, "pool " + o.name(), "class " + className(o)}
	case o.class():
		return []string{"file " + o.file, "class " + o.name()}
	}
	return nil
}

// skipBlocked leaves held files out, and what was reported of changes in them. What is
// to be reviewed in the others is written into them.
func (f *files) skipBlocked(out *Result) {
	held := f.skipped()
	for _, p := range f.pages {
		if _, changes := out.Files[p.name]; changes && held(p.name) {
			delete(out.Files, p.name)
			out.Skipped = append(out.Skipped, p.name)
		}
	}
	slices.Sort(out.Skipped)
	f.run.changes = slices.DeleteFunc(f.run.changes, func(c Change) bool { return c.Grade != Manual && slices.Contains(out.Skipped, c.Origin.File) })
}

// A comment that requires a review, at the head of a file, begins with reviewComment, a key as those of annotations;
// formerReviewComment is how earlier releases began it.
const (
	reviewComment       = "# poolwright.dev/review-required: "
	formerReviewComment = "# poolwright convert, to decide: "
)

// remind puts what a person has to review at the head of a file, for nothing in an
// converted manifest shows it any more. JSON has no comments.
func (f *files) remind(p *page, content []byte) []byte {
	if p.text.JSON() || strings.HasPrefix(string(content), "\ufeff") {
		return content
	}
	end := "\n"
	if strings.Contains(string(content), "\r\n") {
		end = "\r\n"
	}
	var head []string
	for _, review := range f.run.reviews[p.name] {
		if line := reviewComment + inOneLine(review) + end; !slices.Contains(head, line) {
			head = append(head, line)
		}
	}
	return append([]byte(strings.Join(head, "")), content...)
}

// inOneLine is a text without what may end a line, or is not shown.
func inOneLine(s string) string {
	return strings.Map(func(c rune) rune {
		if c == utf8.RuneError || !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, s)
}

// reminders reports again what an earlier conversion reported, until its comment is removed.
func (f *files) reminders(name string, content []byte) {
	line := 0
	for text := range strings.Lines(string(content)) {
		line++
		text = strings.TrimRight(text, "\r\n")
		review, is := strings.CutPrefix(text, reviewComment)
		if !is {
			review, is = strings.CutPrefix(text, formerReviewComment)
		}
		if is {
			f.run.changes = append(f.run.changes, Change{Origin: state.Origin{File: name, Line: line}, Grade: Manual, Text: review + " (remove this comment when that is resolved)"})
		}
	}
}
