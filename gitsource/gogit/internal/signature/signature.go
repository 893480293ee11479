// Package signature verifies the signatures of Git's commits and tags, of OpenPGP and of ssh,
// with public keys that are given.
//
// It accepts less than the tools that make signatures. It refuses what is not signed, keys that
// are not given, expired or revoked, weak algorithms such as SHA-1, signatures that were made for
// another purpose than Git, and more than one signature of an object. It reads no key ring of this
// machine, requests no key of a server, and trusts no time that a commit names. Start reading at
// Parse, OfCommit and Keyring.Verify.
package signature

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

// Why a signature is not accepted. Each error of this package but those of Parse wraps exactly
// one of them.
var (
	// ErrUnsigned: there is no signature.
	ErrUnsigned = errors.New("it is not signed")
	// ErrKeyNotTrusted: it is by a key that is not among the given ones.
	ErrKeyNotTrusted = errors.New("it is signed by a key that is not in the Secret")
	// ErrExpired: the key, or the signature, is not valid any more, or not yet.
	ErrExpired = errors.New("its signature or key has expired, or is not valid yet")
	// ErrRevoked: the key was revoked by its owner.
	ErrRevoked = errors.New("it is signed by a key that was revoked")
	// ErrWeak: the algorithm, or the size of the key, is one that can be forged.
	ErrWeak = errors.New("its signature is of a weak algorithm")
	// ErrInvalid: the signature is not one of the content, or cannot be read.
	ErrInvalid = errors.New("its signature is not valid")
)

// maxBytes is the longest signature that is read: those of all algorithms are far below it.
const maxBytes = 64 << 10

const (
	openPGPBegin = "-----BEGIN PGP SIGNATURE-----"
	sshBegin     = "-----BEGIN SSH SIGNATURE-----"
)

// Verify checks that a signature is one of the payload, by one of the keys, which is valid at a time.
func (k *Keyring) Verify(payload, signature []byte, now time.Time) error {
	signature = bytes.TrimSpace(signature)
	switch {
	case len(signature) == 0:
		return ErrUnsigned
	case len(signature) > maxBytes:
		return fmt.Errorf("%w: it has more than %d KiB", ErrInvalid, maxBytes>>10)
	case bytes.HasPrefix(signature, []byte(openPGPBegin)):
		return k.verifyOpenPGP(payload, signature, now)
	case bytes.HasPrefix(signature, []byte(sshBegin)):
		return k.verifySSH(payload, signature, now)
	}
	return fmt.Errorf("%w: it is neither of OpenPGP nor of ssh", ErrInvalid)
}

// OfCommit separates a commit, as Git stores it, from its signature. The payload is all else, which
// is what was signed.
func OfCommit(commit []byte) (payload, signature []byte, err error) {
	header, rest := commit, []byte(nil)
	if end := bytes.Index(commit, []byte("\n\n")); end >= 0 {
		header, rest = commit[:end+1], commit[end+1:]
	}
	inside := false
	for line := range bytes.Lines(header) {
		switch {
		case inside && line[0] == ' ':
			signature = append(signature, line[1:]...)
			continue
		case bytes.HasPrefix(line, []byte("gpgsig ")) && signature == nil:
			inside, signature = true, append([]byte{}, line[len("gpgsig "):]...)
			continue
		case bytes.HasPrefix(line, []byte("gpgsig")):
			// Git leaves out of the payload what such a header holds: nobody would have signed it.
			return nil, nil, fmt.Errorf("%w: the commit has another signature beside it", ErrInvalid)
		}
		inside = false
		payload = append(payload, line...)
	}
	if signature == nil {
		return nil, nil, ErrUnsigned
	}
	return append(payload, rest...), signature, nil
}

// OfTag separates an annotated tag, as Git stores it, from its signature, which is at its end.
func OfTag(tag []byte) (payload, signature []byte, err error) {
	at, start := -1, 0
	for line := range bytes.Lines(tag) {
		if bytes.HasPrefix(line, []byte(openPGPBegin)) || bytes.HasPrefix(line, []byte(sshBegin)) {
			at = start
		}
		start += len(line)
	}
	if at < 0 {
		return nil, nil, ErrUnsigned
	}
	return tag[:at], tag[at:], nil
}
