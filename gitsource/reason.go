package gitsource

import "errors"

// Reason is the reason of a Sync whose source failed with an error, and whether only a person can
// mend it; empty for an error that is none of this package's.
func Reason(err error) (reason string, fix bool) {
	for _, m := range []struct {
		is     error
		reason string
		fix    bool
	}{
		{ErrUnauthorized, "AuthenticationFailed", false},
		{ErrHostKey, "HostKeyVerificationFailed", false},
		{ErrArtifact, "ArtifactFailed", false},
		{ErrNotFound, "ReferenceNotFound", false},
		{ErrEmpty, "RepositoryEmpty", false},
		{ErrLimit, "LimitExceeded", true},
		{ErrInvalid, "InvalidSource", true},
		{ErrRedirected, "Redirected", true},
		{ErrUnsafe, "UnsafeTree", true},
		{ErrCorrupt, "SourceCorrupt", false},
		{ErrUnreachable, "SourceUnavailable", false},
		{ErrStorage, "StorageOperationFailed", false},
		{ErrNotFastForward, "NotFastForward", true},
		{ErrCommitSignature, "InvalidCommitSignature", true},
		{ErrTagSignature, "InvalidTagSignature", true},
		{ErrVerification, "VerificationError", false},
	} {
		if errors.Is(err, m.is) {
			return m.reason, m.fix
		}
	}
	return "", false
}
