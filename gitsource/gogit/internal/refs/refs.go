// Package refs is the syntax of what Git calls references, commit ids and revisions. It refuses
// what git check-ref-format refuses, as full names all references but branches, tags and the
// heads of pull requests, and most of gitrevisions; it reads no repository. Start reading at
// CheckFullName.
package refs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/gitsource"
)

// IsCommitID reports whether s is a full commit id: 40 hexadecimal digits in lower case,
// not all zero.
func IsCommitID(s string) bool {
	return len(s) == 40 && strings.Trim(s, "0123456789abcdef") == "" && s != strings.Repeat("0", 40)
}

// CheckName applies the rules of git check-ref-format to the part after
// refs/heads/ or refs/tags/. Its error is a predicate ("is longer than 255 bytes").
func CheckName(name string) error {
	if len(name) > 255 {
		return fmt.Errorf("is longer than 255 bytes")
	}
	if strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r == 0x7f || r == 0xfffd || strings.ContainsRune(`~^:?*[\`, r)
	}) {
		return fmt.Errorf(`holds a space, a control character or one of ~ ^ : ? * [ \`)
	}
	if strings.Contains(name, "..") || strings.Contains(name, "@{") || name == "@" || strings.HasPrefix(name, "-") {
		return fmt.Errorf(`holds "..", "@{", or starts with "-"`)
	}
	for part := range strings.SplitSeq(name, "/") {
		if !validPart(part) {
			return fmt.Errorf(`has a part that is empty or "@", starts or ends with ".", or ends with ".lock"`)
		}
	}
	return nil
}

func validPart(part string) bool {
	return part != "" && part != "@" && !strings.HasPrefix(part, ".") && !strings.HasSuffix(part, ".") && !strings.HasSuffix(part, ".lock")
}

// CheckFullName accepts the full names of branches, tags and heads of pull requests
// ("refs/pull/7/head", and at GitLab "refs/merge-requests/7/head"). Its error is a
// gitsource.ErrInvalid.
func CheckFullName(name string) error {
	invalid := func(err error) error {
		return fmt.Errorf("reading the reference %q: %w: %w", name, gitsource.ErrInvalid, err)
	}
	for _, prefix := range []string{"refs/heads/", "refs/tags/"} {
		if short, ok := strings.CutPrefix(name, prefix); ok {
			if err := CheckName(short); err != nil {
				return invalid(fmt.Errorf("it %w", err))
			}
			return nil
		}
	}
	for _, prefix := range []string{"refs/pull/", "refs/merge-requests/"} {
		number, of := strings.CutPrefix(name, prefix)
		number, head := strings.CutSuffix(number, "/head")
		if n, err := strconv.ParseUint(number, 10, 63); of && head && err == nil && n > 0 && number == strconv.FormatUint(n, 10) {
			return nil
		}
	}
	return invalid(errors.New("give refs/heads/<branch>, refs/tags/<tag>, refs/pull/<number>/head or refs/merge-requests/<number>/head"))
}

// ShortName is a reference as Revision shows it: branches and tags by their
// short name, as a Source does, anything else in full.
func ShortName(ref string) string {
	for _, prefix := range []string{"refs/heads/", "refs/tags/"} {
		if short, ok := strings.CutPrefix(ref, prefix); ok {
			return short
		}
	}
	return ref
}
