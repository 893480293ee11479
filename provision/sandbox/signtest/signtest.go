// Package signtest signs commits and tags of Git with keys that tests make, of OpenPGP and of ssh.
//
// It runs no program and reads no key of this machine. It is for tests alone: no key is kept. Start
// reading at OpenPGP and SSH.
package signtest

import (
	"bytes"
	"crypto"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
)

// Key is a private key that signs, and its public one.
type Key struct {
	// File is the name of the file with the public key, as Flux has it in a Secret, and Public its content.
	File   string
	Public []byte

	sign func(payload []byte) []byte
}

// Files is the data of a Secret with the public keys of some.
func Files(keys ...Key) map[string][]byte {
	files := map[string][]byte{}
	for _, k := range keys {
		files[k.File] = append(files[k.File], k.Public...)
	}
	return files
}

// Options are those of a key of OpenPGP. The zero value is one that is valid from Made on.
type Options struct {
	// Made is when the key was made, and what it signs is signed.
	Made time.Time
	// Lifetime is how long it is valid; 0 for ever.
	Lifetime time.Duration
	// Hash is what signatures are made with; 0 is SHA-256.
	Hash crypto.Hash
	// RSABits makes it a key of RSA of that size; 0 makes it one of Ed25519.
	RSABits int
	// Text has signatures be of text, and not of a binary document.
	Text bool
}

// OpenPGP makes a key of OpenPGP.
func OpenPGP(t testing.TB, o Options) *PGP {
	t.Helper()
	config := &packet.Config{
		Algorithm: packet.PubKeyAlgoEdDSA, Time: func() time.Time { return o.Made }, KeyLifetimeSecs: uint32(o.Lifetime / time.Second), DefaultHash: crypto.SHA256, MinRSABits: 1,
	}
	if o.RSABits != 0 {
		config.Algorithm, config.RSABits = packet.PubKeyAlgoRSA, o.RSABits
	}
	entity, err := openpgp.NewEntity("Ada", "", "ada@example.com", config)
	if err != nil {
		t.Fatal(err)
	}
	k := &PGP{t: t, entity: entity}
	k.sign = func(payload []byte) []byte {
		signing := *config
		if o.Hash != 0 {
			signing.DefaultHash = o.Hash
		}
		var out bytes.Buffer
		if err := openpgp.ArmoredDetachSign(&out, []*openpgp.Entity{entity}, bytes.NewReader(payload), &openpgp.SignParams{Config: &signing, TextSig: o.Text}); err != nil {
			t.Fatal(err)
		}
		return append(out.Bytes(), '\n')
	}
	k.export()
	return k
}

// PGP is a key of OpenPGP.
type PGP struct {
	Key
	t      testing.TB
	entity *openpgp.Entity
}

// Revoke revokes the key at a time, for a reason of OpenPGP.
func (k *PGP) Revoke(at time.Time, reason packet.ReasonForRevocation) {
	k.t.Helper()
	if err := k.entity.Revoke(reason, "", &packet.Config{Time: func() time.Time { return at }}); err != nil {
		k.t.Fatal(err)
	}
	k.export()
}

func (k *PGP) export() {
	k.t.Helper()
	var out bytes.Buffer
	w, err := armor.Encode(&out, openpgp.PublicKeyType, nil)
	if err != nil {
		k.t.Fatal(err)
	}
	if err := k.entity.Serialize(w); err != nil {
		k.t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		k.t.Fatal(err)
	}
	k.File, k.Public = "ada.asc", append(out.Bytes(), '\n')
}

// SSH makes a key of what signs by ssh.
func SSH(t testing.TB, signer ssh.Signer) Key {
	return SSHFor(t, signer, "git")
}

// SSHFor is SSH with another namespace.
func SSHFor(t testing.TB, signer ssh.Signer, namespace string) Key {
	return Key{File: "rob.sshpub", Public: ssh.MarshalAuthorizedKey(signer.PublicKey()), sign: func(payload []byte) []byte {
		made, err := sshsig.Sign(bytes.NewReader(payload), signer, sshsig.HashSHA512, namespace)
		if err != nil {
			t.Fatal(err)
		}
		return sshsig.Armor(made)
	}}
}

// Signature signs any bytes.
func (k Key) Signature(payload []byte) []byte { return k.sign(payload) }

// Commit signs a commit as Git stores it.
func (k Key) Commit(commit []byte) []byte {
	header, message, _ := bytes.Cut(commit, []byte("\n\n"))
	signature := strings.ReplaceAll(strings.TrimSuffix(string(k.sign(commit)), "\n"), "\n", "\n ")
	return []byte(string(header) + "\ngpgsig " + signature + "\n\n" + string(message))
}

// Tag signs an annotated tag as Git stores it.
func (k Key) Tag(tag []byte) []byte { return append(bytes.Clone(tag), k.sign(tag)...) }
