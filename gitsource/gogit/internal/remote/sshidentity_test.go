package remote

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/poolwright/poolwright/gitsource"
)

// TestAnIdentityIsParsedOnceUntilTheSecretChanges: the derivation of a key from a passphrase is the cost of each parsing, so that
// what is returned again must be the same object.
func TestAnIdentityIsParsedOnceUntilTheSecretChanges(t *testing.T) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	key := pem.EncodeToMemory(block)
	r := New(nil, nil, Limits{})
	first, err := r.sshIdentity(key, secret)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := r.sshIdentity(key, secret); err != nil || again != first {
		t.Errorf("it is parsed again, or %v", err)
	}
	_, wrong := r.sshIdentity(key, "not "+secret)
	if _, again := r.sshIdentity(key, "not "+secret); !errors.Is(wrong, gitsource.ErrUnauthorized) || !errors.Is(again, wrong) {
		t.Errorf("after %v comes another %v", wrong, again)
	}
	if _, moved := r.sshIdentity(append(key, 'x'), secret[1:]); moved == nil || errors.Is(moved, wrong) {
		t.Errorf("the end of the key passes for the beginning of the passphrase: %v", moved)
	}
	if corrected, err := r.sshIdentity(key, secret); err != nil || corrected == first {
		t.Errorf("the corrected Secret gives %v, or the key that was kept before", err)
	}
}
