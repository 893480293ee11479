package signature

import (
	"bytes"
	"crypto/rsa"
	"errors"
	"math/big"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/poolwright/poolwright/provision/sandbox/signtest"
	"github.com/poolwright/poolwright/provision/sandbox/sshtest"
)

// shortRSA is a public key that nobody may sign with.
func shortRSA(t testing.TB) ssh.PublicKey {
	t.Helper()
	key, err := ssh.NewPublicKey(&rsa.PublicKey{N: new(big.Int).Add(new(big.Int).Lsh(big.NewInt(1), 1023), big.NewInt(1)), E: 65537})
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// classified reports whether an error is exactly one of those that the package has.
func classified(err error) bool {
	n := 0
	for _, kind := range []error{ErrUnsigned, ErrKeyNotTrusted, ErrExpired, ErrRevoked, ErrWeak, ErrInvalid} {
		if errors.Is(err, kind) {
			n++
		}
	}
	return n == 1
}

// FuzzObject gives any commit and tag: what is accepted is, without its signature, what was signed.
func FuzzObject(f *testing.F) {
	ada, rob := signtest.OpenPGP(f, signtest.Options{Made: at}), signtest.SSH(f, sshtest.NewKey(f, sshtest.ED25519).Signer)
	k := keyring(f, signtest.Files(ada.Key, rob))
	for _, key := range []signtest.Key{ada.Key, rob} {
		f.Add(key.Commit([]byte(commit)), true)
		f.Add(key.Tag([]byte(tag)), false)
	}
	f.Add(file(f, "gpg-rsa-sha1.commit"), true)
	f.Fuzz(func(t *testing.T, object []byte, isCommit bool) {
		verify, split, signed := verifyTag, OfTag, tag
		if isCommit {
			verify, split, signed = verifyCommit, OfCommit, commit
		}
		err := verify(k, object, at)
		if err != nil {
			if !classified(err) {
				t.Errorf("unclassified: %v", err)
			}
			return
		}
		if payload, _, _ := split(object); string(payload) != signed {
			t.Errorf("nobody signed %q", payload)
		}
	})
}

// FuzzSignature gives any signature of a commit, which is accepted only if one of the keys made it. What is
// the same in other bytes may be accepted, too.
func FuzzSignature(f *testing.F) {
	ada, rob := signtest.OpenPGP(f, signtest.Options{Made: at}), signtest.SSH(f, sshtest.NewKey(f, sshtest.RSA).Signer)
	k := keyring(f, signtest.Files(ada.Key, rob))
	for _, key := range []signtest.Key{ada.Key, rob} {
		f.Add(key.Signature([]byte(tag)))
	}
	f.Fuzz(func(t *testing.T, signature []byte) {
		// The seeds are signatures of something else.
		if err := k.Verify([]byte(commit), signature, at); err == nil || !classified(err) {
			t.Errorf("it is accepted, or unclassified: %v", err)
		}
	})
}

// FuzzKeys gives any files of keys: an error repeats none, and what is accepted has a key.
func FuzzKeys(f *testing.F) {
	for _, name := range []string{"gpg.asc", "gpg-rsa.asc", "ed25519.sshpub", "rsa.sshpub"} {
		f.Add(name, file(f, name))
	}
	f.Add("allowed_signers", []byte(`ada@example.com namespaces="git",valid-after="20260101Z" `+string(file(f, "ed25519.sshpub"))))
	f.Fuzz(func(t *testing.T, name string, content []byte) {
		k, err := Parse(map[string][]byte{name: content})
		if err != nil {
			if len(content) > 20 && bytes.Contains([]byte(err.Error()), content) && name != string(content) {
				t.Errorf("it is repeated: %v", err)
			}
			return
		}
		if len(k.openPGP)+len(k.ssh) == 0 {
			t.Error("there is no key")
		}
		for _, s := range k.ssh {
			if problem := keyProblem(s.key); problem != "" {
				t.Error(problem)
			}
		}
		if err := verifyCommit(k, file(t, "ecdsa.commit"), at); err == nil {
			t.Error("a commit of another key is accepted")
		}
	})
}
