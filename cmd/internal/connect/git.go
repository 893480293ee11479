package connect

import (
	"github.com/poolwright/poolwright/gitsource/gogit"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// CheckGitURL checks an address as the controller does that follows it, and connects to nothing. The error repeats nothing of the
// address, which may hold a password.
func CheckGitURL(address string) error { return gogit.CheckURL(address) }

// CheckGitRef checks a reference as the controller does that follows it.
func CheckGitRef(ref v1alpha1.GitRef) error {
	return gogit.Ref{Branch: ref.Branch, Tag: ref.Tag, Commit: ref.Commit}.Check()
}
