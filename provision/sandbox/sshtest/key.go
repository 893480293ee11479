package sshtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"os"
	"testing"

	"golang.org/x/crypto/ssh"
)

// Type is the type of a key.
type Type int

// The types of keys.
const (
	ED25519 Type = iota
	ECDSA
	RSA
)

// Key is a private key.
type Key struct {
	// Signer signs with it.
	Signer ssh.Signer
	key    crypto.PrivateKey
	t      testing.TB
}

// NewKey makes a key.
func NewKey(t testing.TB, of Type) Key {
	t.Helper()
	var key crypto.PrivateKey
	var err error
	switch of {
	case ED25519:
		_, key, err = ed25519.GenerateKey(rand.Reader)
	case ECDSA:
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case RSA:
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return Key{Signer: signer, key: key, t: t}
}

// Public is the public key.
func (k Key) Public() ssh.PublicKey { return k.Signer.PublicKey() }

// PEM is the private key as ssh-keygen writes it; with a passphrase, where that is not empty.
func (k Key) PEM(passphrase string) []byte {
	k.t.Helper()
	var block *pem.Block
	var err error
	if passphrase == "" {
		block, err = ssh.MarshalPrivateKey(k.key, "")
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(k.key, "", []byte(passphrase))
	}
	if err != nil {
		k.t.Fatal(err)
	}
	return pem.EncodeToMemory(block)
}

func pathVariable() string { return os.Getenv("PATH") }
