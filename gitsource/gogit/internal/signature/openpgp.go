package signature

import (
	"bytes"
	"crypto"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/armor"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
)

// minRSABits is the least size of an RSA key, in bits, that NIST SP 800-131A allows for signatures.
const minRSABits = 2048

// secureHash reports whether a hash has no known collisions.
func secureHash(h crypto.Hash) bool {
	switch h {
	case crypto.SHA256, crypto.SHA384, crypto.SHA512, crypto.SHA3_256, crypto.SHA3_512:
		return true
	default:
		return false
	}
}

func (k *Keyring) verifyOpenPGP(payload, armored []byte, now time.Time) error {
	raw, err := unarmor(armored)
	if err != nil {
		return err
	}
	config := &packet.Config{Time: func() time.Time { return now }, MinRSABits: minRSABits}
	read, err := openpgp.VerifyDetachedSignatureReader(k.openPGP, bytes.NewReader(payload), bytes.NewReader(raw), config)
	if err != nil {
		return openPGPError(err)
	}
	if len(read.SignatureCandidates) != 1 {
		return fmt.Errorf("%w: there are %d signatures", ErrInvalid, len(read.SignatureCandidates))
	}
	made := read.SignatureCandidates[0]
	switch {
	case made.IssuerKeyId == 0:
		// The library takes it for each key: it would be unknown by which one it is made.
		return fmt.Errorf("%w: it does not name its key", ErrInvalid)
	case made.SignedByEntity == nil:
		return fmt.Errorf("%w: OpenPGP key ID %016X", ErrKeyNotTrusted, made.IssuerKeyId)
	case !secureHash(made.HashAlgorithm):
		return fmt.Errorf("%w: hash %v", ErrWeak, made.HashAlgorithm)
	case made.SigType != packet.SigTypeBinary:
		// One of text is the same with other ends of lines, of which Git is not independent.
		return fmt.Errorf("%w: it is not one of a binary document", ErrInvalid)
	}
	if _, err := io.Copy(io.Discard, read.UnverifiedBody); err != nil {
		return openPGPError(err)
	}
	if read.SignatureError != nil {
		return openPGPError(read.SignatureError)
	}
	// Above, the key had to be valid when the signature was made, by a time that its owner chose.
	by := read.SignedBy
	if by == nil {
		return ErrInvalid
	}
	if _, ok := by.Entity.SigningKeyById(now, by.PublicKey.KeyId, config); !ok {
		return keyError(by.Entity, now, config)
	}
	return nil
}

// keyError is why a key that was valid is not any more.
func keyError(by *openpgp.Entity, now time.Time, config *packet.Config) error {
	if _, err := by.VerifyPrimaryKey(now, config); err != nil {
		return openPGPError(err)
	}
	for i := range by.Subkeys {
		if _, err := by.Subkeys[i].Verify(now, config); errors.Is(err, pgperrors.ErrKeyRevoked) {
			return ErrRevoked
		}
	}
	return ErrExpired
}

// openPGPError repeats nothing of the signature, which may be anybody's.
func openPGPError(err error) error {
	_, weak := errors.AsType[pgperrors.WeakAlgorithmError](err)
	switch {
	case errors.Is(err, pgperrors.ErrKeyRevoked):
		return ErrRevoked
	case errors.Is(err, pgperrors.ErrKeyExpired), errors.Is(err, pgperrors.ErrSignatureExpired), errors.Is(err, pgperrors.ErrSignatureOlderThanKey):
		return ErrExpired
	case errors.Is(err, pgperrors.ErrUnknownIssuer):
		return ErrKeyNotTrusted
	case weak:
		return ErrWeak
	}
	return ErrInvalid
}

// unarmor returns the one block of armored text, and accepts nothing beside it.
func unarmor(text []byte) ([]byte, error) {
	const end = "-----END PGP SIGNATURE-----"
	if !bytes.HasSuffix(text, []byte(end)) || bytes.Count(text, []byte("-----BEGIN ")) != 1 {
		return nil, fmt.Errorf("%w: it is not one block of armored text", ErrInvalid)
	}
	block, err := armor.Decode(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%w: its armor cannot be read", ErrInvalid)
	}
	raw, err := io.ReadAll(block.Body)
	if err != nil {
		return nil, fmt.Errorf("%w: its armor cannot be read", ErrInvalid)
	}
	return raw, nil
}
