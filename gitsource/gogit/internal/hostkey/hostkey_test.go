package hostkey

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/poolwright/poolwright/gitsource"
)

func newKey(t testing.TB) ssh.PublicKey {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func authorized(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

func TestAHostHasTheKeysOfTheLinesThatNameIt(t *testing.T) {
	key, other := newKey(t), newKey(t)
	for name, c := range map[string]struct {
		file, address string
		want          bool
	}{
		"its name":                             {"git.example.com " + authorized(key), "git.example.com:22", true},
		"its name in capitals":                 {"Git.Example.Com " + authorized(key), "git.EXAMPLE.com:22", true},
		"one of several names":                 {"a,git.example.com,192.0.2.1 " + authorized(key), "git.example.com:22", true},
		"another name":                         {"git.example.org " + authorized(key), "git.example.com:22", false},
		"a part of its name":                   {"example.com " + authorized(key), "git.example.com:22", false},
		"a wildcard":                           {"*.example.com " + authorized(key), "git.example.com:22", true},
		"a wildcard of one byte":               {"gi?.example.com " + authorized(key), "git.example.com:22", true},
		"a wildcard that excludes it":          {"*.example.com,!git.example.com " + authorized(key), "git.example.com:22", false},
		"an exclusion alone":                   {"!a.example.com " + authorized(key), "git.example.com:22", false},
		"its port":                             {"[git.example.com]:2222 " + authorized(key), "git.example.com:2222", true},
		"another port":                         {"[git.example.com]:2222 " + authorized(key), "git.example.com:2223", false},
		"a name without the port":              {"git.example.com " + authorized(key), "git.example.com:2222", false},
		"an address of IPv6":                   {"2001:db8::1 " + authorized(key), "[2001:db8::1]:22", true},
		"an address of IPv6 with a port":       {"[2001:db8::1]:2222 " + authorized(key), "[2001:db8::1]:2222", true},
		"a hashed name":                        {knownhosts.HashHostname("git.example.com") + " " + authorized(key), "git.example.com:22", true},
		"a hashed name with a port":            {knownhosts.HashHostname("[git.example.com]:2222") + " " + authorized(key), "git.example.com:2222", true},
		"another hashed name":                  {knownhosts.HashHostname("git.example.org") + " " + authorized(key), "git.example.com:22", false},
		"another key":                          {"git.example.com " + authorized(other), "git.example.com:22", false},
		"two keys":                             {"git.example.com " + authorized(other) + "\ngit.example.com " + authorized(key), "git.example.com:22", true},
		"comments and lines that are empty":    {"# git.example.com:22 SSH-2.0\r\n\r\n  git.example.com " + authorized(key) + " a comment\r\n", "git.example.com:22", true},
		"a key that is revoked for every host": {"git.example.com " + authorized(key) + "\n@revoked * " + authorized(key), "git.example.com:22", false},
	} {
		t.Run(name, func(t *testing.T) {
			known, err := Parse([]byte(c.file))
			if err != nil {
				t.Fatal(err)
			}
			err = known.Verify(c.address, key)
			if (err == nil) != c.want || err != nil && (!errors.Is(err, gitsource.ErrHostKey) || !strings.Contains(err.Error(), ssh.FingerprintSHA256(key))) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestLinesThatCannotBeReadAreNamed(t *testing.T) {
	key := authorized(newKey(t))
	for name, c := range map[string]struct{ file, text string }{
		"nothing":                      {"", "lists no host"},
		"comments only":                {"# none\n", "lists no host"},
		"a revoked key only":           {"@revoked * " + key, "lists no host"},
		"a public key without a host":  {"host " + key + "\n" + key + "\n", "line 2"},
		"a key that is cut short":      {"host " + key[:len(key)-10], "line 1"},
		"a type that is not the key's": {"host " + strings.Replace(key, "ssh-ed25519", "ssh-rsa", 1), "line 1"},
		"a marker without a key":       {"host " + key + "\n@revoked\n", "line 2"},
		"a host without a key":         {"host\nhost " + key, "line 1"},
		"a certificate authority":      {"@cert-authority *.example.com " + key, "marker"},
		"a hash that is not one":       {"|1|x|y " + key, "name of a host"},
		"a hash of another kind":       {"|2|AAAA|AAAA " + key, "name of a host"},
		"a negation of nothing":        {"a,! " + key, "name of a host"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(c.file))
			if !errors.Is(err, gitsource.ErrHostKey) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestTheTypesOfListedKeysComeFirst(t *testing.T) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(&private.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	known, err := Parse([]byte("git.example.com " + authorized(key) + "\nother " + authorized(newKey(t))))
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{"git.example.com:22": ssh.KeyAlgoRSASHA512, "other:22": ssh.KeyAlgoED25519, "unknown:22": ssh.KeyAlgoED25519} {
		got := known.Algorithms(address)
		if got[0] != want || len(got) != 6 {
			t.Errorf("%s: %v", address, got)
		}
		for _, weak := range ssh.InsecureAlgorithms().HostKeys {
			if strings.Contains(strings.Join(got, ",")+",", weak+",") {
				t.Errorf("%s: %s is allowed", address, weak)
			}
		}
	}
}

// FuzzKnownHosts gives any file: what is read from it verifies no key that is not in it.
func FuzzKnownHosts(f *testing.F) {
	key := newKey(f)
	f.Add("git.example.com " + authorized(newKey(f)))
	f.Add("*,!x " + authorized(newKey(f)) + "\n" + knownhosts.HashHostname("a") + " ssh-ed25519 AAAA")
	f.Add("@revoked * ssh-rsa AAAA\n|1|a|b x y")
	f.Fuzz(func(t *testing.T, file string) {
		known, err := Parse([]byte(file))
		if err == nil {
			err = known.Verify("git.example.com:22", key)
		}
		if !errors.Is(err, gitsource.ErrHostKey) {
			t.Errorf("got %v", err)
		}
	})
}
