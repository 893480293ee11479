package signature

import (
	"bytes"
	"crypto/rsa"
	"encoding/pem"
	"fmt"
	"time"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
)

// namespace is what Git signs for. A signature that was made for something else, such as a file, has
// another.
const namespace = "git"

func (k *Keyring) verifySSH(payload, armored []byte, now time.Time) error {
	block, rest := pem.Decode(armored)
	if block == nil || block.Type != sshsig.PEMType || len(block.Headers) > 0 || len(bytes.TrimSpace(rest)) > 0 || bytes.Count(armored, []byte("-----BEGIN ")) != 1 {
		return fmt.Errorf("%w: it is not one block of armored text", ErrInvalid)
	}
	made, err := sshsig.ParseSignature(block.Bytes)
	if err != nil {
		return fmt.Errorf("%w: it is not one of ssh-keygen, or of SHA-1", ErrInvalid)
	}
	signer, ok := k.signer(made.PublicKey, now)
	if signer == nil {
		return fmt.Errorf("%w: ssh key %s", ErrKeyNotTrusted, ssh.FingerprintSHA256(made.PublicKey))
	}
	if !ok {
		return fmt.Errorf("%w: ssh key %s", ErrExpired, ssh.FingerprintSHA256(signer.key))
	}
	if made.Namespace != namespace {
		return fmt.Errorf("%w: it was not made for Git", ErrInvalid)
	}
	if isSecurityKey(signer.key.Type()) && (len(made.Signature.Rest) == 0 || made.Signature.Rest[0]&userPresent == 0) {
		return fmt.Errorf("%w: nobody touched the security key", ErrInvalid)
	}
	if err := sshsig.Verify(bytes.NewReader(payload), made, signer.key, made.HashAlgorithm, namespace); err != nil {
		return ErrInvalid
	}
	return nil
}

// userPresent is the flag of a signature for which somebody has touched the security key, as in
// OpenSSH's PROTOCOL.u2f.
const userPresent = 1

func isSecurityKey(kind string) bool {
	return kind == ssh.KeyAlgoSKED25519 || kind == ssh.KeyAlgoSKECDSA256
}

// signer finds a key, and whether it is valid at a time by one of the lines that list it; nil where
// none does.
func (k *Keyring) signer(key ssh.PublicKey, now time.Time) (found *allowedSigner, valid bool) {
	for i := range k.ssh {
		s := &k.ssh[i]
		if !bytes.Equal(s.key.Marshal(), key.Marshal()) {
			continue
		}
		if found = s; s.validAt(now) {
			return s, true
		}
	}
	return found, false
}

// allowedSigner is one line of a file of public keys.
type allowedSigner struct {
	key ssh.PublicKey
	// after and before limit when the key is valid; zero where they do not.
	after, before time.Time
}

func (s *allowedSigner) validAt(now time.Time) bool {
	return (s.after.IsZero() || !now.Before(s.after)) && (s.before.IsZero() || now.Before(s.before))
}

// keyProblem is why signatures of a public key are refused; empty where they are not.
func keyProblem(key ssh.PublicKey) string {
	switch key.Type() {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256:
		return ""
	case ssh.KeyAlgoRSA:
		if c, ok := key.(ssh.CryptoPublicKey); ok {
			if r, ok := c.CryptoPublicKey().(*rsa.PublicKey); ok && r.N.BitLen() >= minRSABits {
				return ""
			}
		}
		return fmt.Sprintf("is an RSA key of less than %d bits", minRSABits)
	}
	return "is a key of a type that is not supported; make one with ssh-keygen -t ed25519"
}
