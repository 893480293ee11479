package gogit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/objects"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/signature"
)

// VerificationMode is which objects have to be signed. The first three are Flux's.
type VerificationMode string

// The modes.
const (
	// VerifyHEAD: the commit that is followed.
	VerifyHEAD VerificationMode = "HEAD"
	// VerifyTag: the annotated tag that is followed.
	VerifyTag VerificationMode = "Tag"
	// VerifyTagAndHEAD: both the tag and the commit that it leads to.
	VerifyTagAndHEAD VerificationMode = "TagAndHEAD"
	// VerifyEveryCommit: the commit that is followed, and all that lead to it but not to
	// Followed.Base, those of merged branches included.
	VerifyEveryCommit VerificationMode = "EveryCommit"
)

// Verification is which signatures a Source requires of a revision, and by whom.
type Verification struct {
	// Mode is which objects have to be signed.
	Mode VerificationMode
	// Keys returns the files of public keys, by name: NAME.asc for OpenPGP, NAME.sshpub and
	// allowed_signers for ssh. It is called before every fetch; where they have changed, what is
	// followed is verified anew.
	Keys func(context.Context) (map[string][]byte, error)
	// Now is the time at which keys have to be valid.
	Now func() time.Time
}

// verifier verifies for one Source. A nil one requires no signature.
type verifier struct {
	mode    VerificationMode
	keys    func(context.Context) (map[string][]byte, error)
	now     func() time.Time
	keyring *signature.Keyring
	// verified are the objects that were verified by the keyring, and commits the commits that they lead to.
	verified, commits map[plumbing.Hash]bool
}

func newVerifier(v *Verification, ref Ref) (*verifier, error) {
	if v == nil {
		return nil, nil //nolint:nilnil // A nil one requires no signature.
	}
	invalid := func(message string) (*verifier, error) {
		return nil, fmt.Errorf("reading the mode of verification %q: %w: %s", v.Mode, gitsource.ErrInvalid, message)
	}
	switch v.Mode {
	case VerifyHEAD:
	case VerifyTag, VerifyTagAndHEAD:
		if ref.Tag == "" {
			return invalid("it needs a tag to follow")
		}
	case VerifyEveryCommit:
		if ref.Commit != "" {
			return invalid("it needs a branch or a tag to follow, and not a commit")
		}
	default:
		return invalid("it is none of HEAD, Tag, TagAndHEAD and EveryCommit")
	}
	return &verifier{mode: v.Mode, keys: v.Keys, now: v.Now}, nil
}

// identity is what the cache's identity ends with: one with verified revisions is not used for
// others, nor the other way round.
func (v *verifier) identity() string {
	if v == nil {
		return ""
	}
	return "\nverified " + string(v.mode)
}

// readKeys reads the public keys, which may have changed.
func (v *verifier) readKeys(ctx context.Context) error {
	if v == nil {
		return nil
	}
	files, err := v.keys(ctx)
	if err == nil && v.keyring != nil && v.keyring.Fingerprint() == signature.Fingerprint(files) {
		return nil
	}
	v.keyring, v.verified, v.commits = nil, map[plumbing.Hash]bool{}, map[plumbing.Hash]bool{}
	if err != nil {
		return fmt.Errorf("%w: %w", gitsource.ErrVerification, err)
	}
	if v.keyring, err = signature.Parse(files); err != nil {
		return fmt.Errorf("reading the public keys: %w: %w", gitsource.ErrVerification, err)
	}
	return nil
}

// signatureRefused reports whether a revision is not signed as is required.
func signatureRefused(err error) bool {
	return errors.Is(err, gitsource.ErrCommitSignature) || errors.Is(err, gitsource.ErrTagSignature)
}

// checkAll returns why the first commit that is not signed as is required is not; nil where all are.
func (v *verifier) checkAll(objs *objects.Store, commits []plumbing.Hash, checked map[plumbing.Hash]error) (refused, err error) {
	for _, id := range commits {
		result, done := checked[id]
		if !done {
			if result = v.checkCommit(objs, id); result != nil && !signatureRefused(result) {
				return nil, result
			}
			checked[id] = result
		}
		if refused == nil {
			refused = result
		}
	}
	return refused, nil
}

func (v *verifier) checkCommit(objs *objects.Store, id plumbing.Hash) error {
	raw, err := objs.Read(plumbing.CommitObject, id, objects.MaxCommitBytes)
	if err != nil {
		return err
	}
	payload, made, err := signature.OfCommit(raw)
	if err == nil {
		err = v.keyring.Verify(payload, made, v.now())
	}
	if err == nil {
		err = sameCommit(payload, raw)
	}
	if err != nil {
		return fmt.Errorf("%w: commit %s: %w", gitsource.ErrCommitSignature, id, err)
	}
	return nil
}

// errUnsignedPart is of an object in which something counts that its signer did not sign.
var errUnsignedPart = errors.New("it is not what its signer has signed")

// sameCommit refuses a commit whose tree and parents are others than those that were signed.
func sameCommit(payload, raw []byte) error {
	var signed, used object.Commit
	if signed.Decode(memoryObject(plumbing.CommitObject, payload)) != nil || used.Decode(memoryObject(plumbing.CommitObject, raw)) != nil ||
		signed.TreeHash != used.TreeHash || !slices.Equal(signed.ParentHashes, used.ParentHashes) {
		return errUnsignedPart
	}
	return nil
}

// checkTag checks the signature of an annotated tag, and that it has the name by which it is followed:
// whoever can move tags could pass an older one for it.
func (v *verifier) checkTag(objs *objects.Store, name string, id, head plumbing.Hash) error {
	refuse := func(why error) error {
		return fmt.Errorf("%w: tag %q (%s): %w", gitsource.ErrTagSignature, name, id, why)
	}
	if id == head {
		return refuse(errors.New("it is not annotated, so that it cannot be signed; make it with git tag -s"))
	}
	raw, err := objs.Read(plumbing.TagObject, id, objects.MaxCommitBytes)
	if err != nil {
		return err
	}
	payload, made, err := signature.OfTag(raw)
	if err == nil {
		err = v.keyring.Verify(payload, made, v.now())
	}
	if err != nil {
		return refuse(err)
	}
	var signed, used object.Tag
	if signed.Decode(memoryObject(plumbing.TagObject, payload)) != nil || used.Decode(memoryObject(plumbing.TagObject, raw)) != nil || signed.Target != used.Target {
		return refuse(errUnsignedPart)
	}
	if signed.Name != name {
		return refuse(fmt.Errorf("it was signed as tag %q", signed.Name))
	}
	return nil
}

func memoryObject(t plumbing.ObjectType, content []byte) *plumbing.MemoryObject {
	obj := new(plumbing.MemoryObject)
	obj.SetType(t)
	_, _ = obj.Write(content) // a MemoryObject takes everything
	return obj
}
