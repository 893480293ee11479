package bootstrap

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/poolwright/poolwright/cmd/internal/connect"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// fetchableAddress matches what the Sync's kind takes.
var fetchableAddress = regexp.MustCompile(`^((https|http)://[^@\s]+|ssh://[^@:/\s]+@[^@\s]+)$`)

// checkAddress checks what the controller and the Sync's kind refuse of an address. The error names what has it, and repeats
// nothing of it: it may hold a password.
func checkAddress(what, address string) error {
	err := connect.CheckGitURL(address)
	if err == nil && !fetchableAddress.MatchString(address) {
		err = errors.New("it holds an @ that is not behind the user of ssh")
	}
	if err != nil {
		return fmt.Errorf("%s: %w; name it with --url https://HOST/PATH or --url ssh://git@HOST/PATH, and a Secret with the token or private key with --secret", what, err)
	}
	return nil
}

// checkRef checks what the controller and the Sync's kind refuse of a reference.
func checkRef(what string, ref v1alpha1.GitRef) error {
	err := connect.CheckGitRef(ref)
	if err == nil && ref.Commit != "" && ref.Branch != "" {
		err = errors.New("set only one of branch, tag and commit")
	}
	if err != nil {
		return fmt.Errorf("%s: %w; name a branch that the repository has with --branch", what, err)
	}
	return nil
}
