package signature

import (
	"bytes"
	"crypto"
	"errors"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
)

// armored is text of one block.
func armored(t *testing.T, kind string, write func(*bytes.Buffer) error) []byte {
	t.Helper()
	var raw, out bytes.Buffer
	if err := write(&raw); err != nil {
		t.Fatal(err)
	}
	w, err := armor.Encode(&out, kind, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(raw.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestASubkeyCannotOutliveItselfByAnotherName: a signature names its time and its key, and the library takes the key ID 0 for
// any key of the owner. The primary key and another subkey are still valid.
func TestASubkeyCannotOutliveItselfByAnotherName(t *testing.T) {
	config := func(lifetime time.Duration) *packet.Config {
		return &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA, Time: func() time.Time { return at }, KeyLifetimeSecs: uint32(lifetime / time.Second), DefaultHash: crypto.SHA256}
	}
	entity, err := openpgp.NewEntity("Ada", "", "ada@example.com", config(0))
	if err != nil {
		t.Fatal(err)
	}
	for _, lifetime := range []time.Duration{time.Hour, 0} {
		if err := entity.AddSigningSubkey(config(lifetime)); err != nil {
			t.Fatal(err)
		}
	}
	short := entity.Subkeys[len(entity.Subkeys)-2]
	keys := keyring(t, map[string][]byte{"ada.asc": armored(t, openpgp.PublicKeyType, func(b *bytes.Buffer) error { return entity.Serialize(b) })})
	var zero uint64
	for name, c := range map[string]struct {
		issuer *uint64
		after  time.Duration
		want   error
	}{
		"its own, in its time": {&short.PublicKey.KeyId, time.Minute, nil},
		"its own, too late":    {&short.PublicKey.KeyId, 2 * time.Hour, ErrExpired},
		"0, in its time":       {&zero, time.Minute, ErrInvalid},
		"0, too late":          {&zero, 2 * time.Hour, ErrInvalid},
		"that of the primary":  {&entity.PrimaryKey.KeyId, 2 * time.Hour, ErrInvalid},
	} {
		made := &packet.Signature{Version: 4, SigType: packet.SigTypeBinary, PubKeyAlgo: short.PublicKey.PubKeyAlgo, Hash: crypto.SHA256, CreationTime: at.Add(time.Second), IssuerKeyId: c.issuer}
		hash := crypto.SHA256.New()
		hash.Write([]byte(commit))
		signer := *short.PrivateKey
		signer.Fingerprint = nil // It would name the key, too.
		if err := made.Sign(hash, &signer, config(0)); err != nil {
			t.Fatal(err)
		}
		text := armored(t, openpgp.SignatureType, func(b *bytes.Buffer) error { return made.Serialize(b) })
		if err := keys.Verify([]byte(commit), text, at.Add(c.after)); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
