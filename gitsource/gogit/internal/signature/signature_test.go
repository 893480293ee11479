package signature

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/google/go-cmp/cmp"
	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"github.com/poolwright/poolwright/provision/sandbox/signtest"
	"github.com/poolwright/poolwright/provision/sandbox/sshtest"
)

// at is a time at which all keys of these tests were made, and the signatures in testdata.
var at = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

const commit = `tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904
parent a9a487ca45e0ab0e33f487502f8c3f1d351df820
author Ada <ada@example.com> 1795827797 +0000
committer Ada <ada@example.com> 1795827797 +0000

change
`

const tag = `object c32c4707680cfd8a39d2cb868c033d961ab42599
type commit
tag v1
tagger Ada <ada@example.com> 1795827797 +0000

release
`

func file(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func keyring(t testing.TB, files map[string][]byte) *Keyring {
	t.Helper()
	k, err := Parse(files)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// verifyCommit is what a commit's signature is, by some keys.
func verifyCommit(k *Keyring, object []byte, now time.Time) error {
	payload, signature, err := OfCommit(object)
	if err != nil {
		return err
	}
	return k.Verify(payload, signature, now)
}

func verifyTag(k *Keyring, object []byte, now time.Time) error {
	payload, signature, err := OfTag(object)
	if err != nil {
		return err
	}
	return k.Verify(payload, signature, now)
}

// TestSignaturesOfGitAreAccepted reads what git has made with gpg and with ssh-keygen: testdata was written by
// "git commit -S" and "git tag -s", of git 2.39, GnuPG 2.2 and OpenSSH 9.2.
func TestSignaturesOfGitAreAccepted(t *testing.T) {
	for name, public := range map[string]string{"gpg": "gpg.asc", "gpg-rsa": "gpg-rsa.asc", "ed25519": "ed25519.sshpub", "rsa": "rsa.sshpub", "ecdsa": "ecdsa.sshpub"} {
		t.Run(name, func(t *testing.T) {
			k := keyring(t, map[string][]byte{public: file(t, public)})
			if err := verifyCommit(k, file(t, name+".commit"), at); err != nil {
				t.Errorf("commit: %v", err)
			}
			if err := verifyTag(k, file(t, name+".tag"), at); err != nil {
				t.Errorf("tag: %v", err)
			}
			for _, c := range []struct{ from, to string }{{"signed by", "Signed by"}, {"Ada", "Adb"}, {"tree 4", "tree 5"}, {"parent ", "parent a"}} {
				if err := verifyCommit(k, bytes.Replace(file(t, name+".commit"), []byte(c.from), []byte(c.to), 1), at); !errors.Is(err, ErrInvalid) {
					t.Errorf("with %q as %q: %v", c.from, c.to, err)
				}
			}
			other := keyring(t, map[string][]byte{"other.asc": file(t, map[bool]string{true: "gpg-rsa.asc", false: "gpg.asc"}[name == "gpg"])})
			if err := verifyCommit(other, file(t, name+".commit"), at); !errors.Is(err, ErrKeyNotTrusted) {
				t.Errorf("with the key of another: %v", err)
			}
		})
	}
	all := map[string][]byte{}
	for _, name := range []string{"gpg.asc", "gpg-rsa.asc", "ed25519.sshpub"} {
		all[name] = file(t, name)
	}
	for _, name := range []string{"gpg", "gpg-rsa", "ed25519"} {
		if err := verifyCommit(keyring(t, all), file(t, name+".commit"), at); err != nil {
			t.Errorf("%s with several keys: %v", name, err)
		}
	}
}

func TestWhatIsNotSignedAsItShouldIsRefused(t *testing.T) {
	ada := signtest.OpenPGP(t, signtest.Options{Made: at})
	rob := signtest.SSH(t, sshtest.NewKey(t, sshtest.ED25519).Signer)
	k := keyring(t, signtest.Files(ada.Key, rob))
	k.openPGP = append(k.openPGP, keyring(t, map[string][]byte{"rob.asc": file(t, "gpg-rsa.asc")}).openPGP...)
	other := signtest.OpenPGP(t, signtest.Options{Made: at})
	foreign := signtest.SSH(t, sshtest.NewKey(t, sshtest.ED25519).Signer)
	signed, signedTag := ada.Commit([]byte(commit)), ada.Tag([]byte(tag))
	for name, c := range map[string]struct {
		object []byte
		want   error
	}{
		"a signed commit":                            {signed, nil},
		"a commit that is signed by ssh":             {rob.Commit([]byte(commit)), nil},
		"an unsigned commit":                         {[]byte(commit), ErrUnsigned},
		"an empty object":                            {nil, ErrUnsigned},
		"an empty signature":                         {[]byte(strings.Replace(commit, "\n\n", "\ngpgsig \n\n", 1)), ErrUnsigned},
		"a signature in the message":                 {append([]byte(commit), signed[bytes.Index(signed, []byte("gpgsig")):]...), ErrUnsigned},
		"another commit's signature":                 {bytes.Replace(signed, []byte("change"), []byte("Change"), 1), ErrInvalid},
		"a key that is not given":                    {other.Commit([]byte(commit)), ErrKeyNotTrusted},
		"an ssh key that is not given":               {foreign.Commit([]byte(commit)), ErrKeyNotTrusted},
		"two signatures":                             {ada.Commit(other.Commit([]byte(commit))), ErrInvalid},
		"a signature of the other hash beside it":    {bytes.Replace(signed, []byte("\n\n"), []byte("\ngpgsig-sha256 x\n tree y\n\n"), 1), ErrInvalid},
		"a hash that has collisions":                 {file(t, "gpg-rsa-sha1.commit"), ErrWeak},
		"a signature in X.509":                       {bytes.ReplaceAll(signed, []byte("PGP SIGNATURE"), []byte("SIGNED MESSAGE")), ErrInvalid},
		"a message of OpenPGP":                       {bytes.ReplaceAll(signed, []byte("PGP SIGNATURE"), []byte("PGP MESSAGE")), ErrInvalid},
		"armor that is cut off":                      {bytes.Replace(signed, []byte("-----END PGP SIGNATURE-----"), nil, 1), ErrInvalid},
		"armor with text behind it":                  {bytes.Replace(signed, []byte("-----END PGP SIGNATURE-----"), []byte("-----END PGP SIGNATURE-----\n x"), 1), ErrInvalid},
		"armor of something else":                    {bytes.Replace(signed, []byte("SIGNATURE-----\n \n "), []byte("SIGNATURE-----\n \n AAAA"), 1), ErrInvalid},
		"a signature that is too long":               {bytes.Replace(signed, []byte("\n \n"), []byte("\n \n "+strings.Repeat("A", maxBytes)+"\n"), 1), ErrInvalid},
		"an ssh signature with a header":             {bytes.Replace(rob.Commit([]byte(commit)), []byte("SIGNATURE-----\n"), []byte("SIGNATURE-----\n A: b\n \n"), 1), ErrInvalid},
		"an ssh signature that is cut off":           {bytes.Replace(rob.Commit([]byte(commit)), []byte("-----END SSH SIGNATURE-----"), nil, 1), ErrInvalid},
		"an ssh signature of another commit":         {bytes.Replace(rob.Commit([]byte(commit)), []byte("change"), []byte("Change"), 1), ErrInvalid},
		"an ssh signature with its end behind a sum": {bytes.Replace(rob.Commit([]byte(commit)), []byte("\n -----END"), []byte("\n AAAA\n -----END"), 1), ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			if err := verifyCommit(k, c.object, at); !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	for name, c := range map[string]struct {
		object []byte
		want   error
	}{
		"a signed tag":                       {signedTag, nil},
		"a tag that is signed by ssh":        {rob.Tag([]byte(tag)), nil},
		"an unsigned tag":                    {[]byte(tag), ErrUnsigned},
		"a tag for another commit":           {bytes.Replace(signedTag, []byte("object c"), []byte("object d"), 1), ErrInvalid},
		"a tag of another name":              {bytes.Replace(signedTag, []byte("tag v1"), []byte("tag v2"), 1), ErrInvalid},
		"a tag with text behind":             {append(bytes.Clone(signedTag), "x"...), ErrInvalid},
		"a tag with a second signature":      {other.Tag(signedTag), ErrKeyNotTrusted},
		"a tag with a signature in its text": {ada.Tag(append([]byte(tag), other.Signature([]byte(tag))...)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if err := verifyTag(k, c.object, at); !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// TestKeysOfOpenPGPHaveToBeValid changes the key that made the signature, and the time.
func TestKeysOfOpenPGPHaveToBeValid(t *testing.T) {
	day := 24 * time.Hour
	for name, c := range map[string]struct {
		options signtest.Options
		revoked packet.ReasonForRevocation
		revoke  bool
		now     time.Time
		want    error
	}{
		"a key without an end":                          {options: signtest.Options{Made: at}, now: at.Add(1000 * day)},
		"a key of RSA":                                  {options: signtest.Options{Made: at, RSABits: 2048}, now: at},
		"a short key of RSA":                            {options: signtest.Options{Made: at, RSABits: 1024}, now: at, want: ErrWeak},
		"a key before its end":                          {options: signtest.Options{Made: at, Lifetime: 10 * day}, now: at.Add(9 * day)},
		"a key after its end":                           {options: signtest.Options{Made: at, Lifetime: 10 * day}, now: at.Add(11 * day), want: ErrExpired},
		"a key that is made later":                      {options: signtest.Options{Made: at}, now: at.Add(-day), want: ErrExpired},
		"a stolen key":                                  {options: signtest.Options{Made: at}, revoke: true, revoked: packet.KeyCompromised, now: at.Add(2 * day), want: ErrRevoked},
		"a key that was given up after it had signed":   {options: signtest.Options{Made: at}, revoke: true, revoked: packet.KeyRetired, now: at.Add(2 * day), want: ErrRevoked},
		"a key that was replaced after it had signed":   {options: signtest.Options{Made: at}, revoke: true, revoked: packet.KeySuperseded, now: at.Add(2 * day), want: ErrRevoked},
		"a signature of text, which has no fixed bytes": {options: signtest.Options{Made: at, Text: true}, now: at, want: ErrInvalid},
		"a longer hash":                                 {options: signtest.Options{Made: at, Hash: crypto.SHA512}, now: at},
	} {
		t.Run(name, func(t *testing.T) {
			key := signtest.OpenPGP(t, c.options)
			object := key.Commit([]byte(commit))
			if c.revoke {
				key.Revoke(at.Add(day), c.revoked)
			}
			if err := verifyCommit(keyring(t, signtest.Files(key.Key)), object, c.now); !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestSignaturesOfSSHAreForGit(t *testing.T) {
	signer := sshtest.NewKey(t, sshtest.RSA).Signer
	good := signtest.SSH(t, signer)
	k := keyring(t, signtest.Files(good))
	for _, namespace := range []string{"file", "git ", "Git"} {
		if err := verifyCommit(k, signtest.SSHFor(t, signer, namespace).Commit([]byte(commit)), at); !errors.Is(err, ErrInvalid) {
			t.Errorf("one for %q: %v", namespace, err)
		}
	}
	if err := verifyCommit(k, good.Commit([]byte(commit)), at); err != nil {
		t.Error(err)
	}
	// As good, but with SHA-1, which is what ssh-rsa stands for.
	data := append([]byte("SSHSIG"), ssh.Marshal(struct{ Namespace, Reserved, Hash, Sum string }{"git", "", "sha512", "x"})...)
	made, err := signer.(ssh.AlgorithmSigner).SignWithAlgorithm(rand.Reader, data, ssh.KeyAlgoRSA)
	if err != nil {
		t.Fatal(err)
	}
	weak := sshsig.Armor(&sshsig.Signature{Version: 1, PublicKey: signer.PublicKey(), Namespace: "git", HashAlgorithm: sshsig.HashSHA512, Signature: made})
	if err := k.Verify([]byte(commit), weak, at); !errors.Is(err, ErrInvalid) {
		t.Errorf("with SHA-1: %v", err)
	}
}

// TestASecurityKeyHasToBeTouched: such a key signs a hash of what it is given, with a flag of its own.
func TestASecurityKeyHasToBeTouched(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.ParsePublicKey(ssh.Marshal(struct {
		Type        string
		Key         []byte
		Application string
	}{ssh.KeyAlgoSKED25519, public, "ssh:"}))
	if err != nil {
		t.Fatal(err)
	}
	k := keyring(t, map[string][]byte{"a.sshpub": ssh.MarshalAuthorizedKey(key)})
	for name, c := range map[string]struct {
		flags, sent byte
		want        error
	}{
		"touched":                        {1, 1, nil},
		"touched, with a PIN":            {5, 5, nil},
		"not touched":                    {0, 0, ErrInvalid},
		"with a flag that is not signed": {0, 1, ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			sum := sha512.Sum512([]byte(commit))
			data := append([]byte("SSHSIG"), ssh.Marshal(struct{ Namespace, Reserved, Hash, Sum string }{"git", "", "sha512", string(sum[:])})...)
			application, content := sha256.Sum256([]byte("ssh:")), sha256.Sum256(data)
			blob := slices.Concat(application[:], []byte{c.flags, 0, 0, 0, 7}, content[:])
			armored := sshsig.Armor(&sshsig.Signature{Version: 1, PublicKey: key, Namespace: "git", HashAlgorithm: sshsig.HashSHA512, Signature: &ssh.Signature{
				Format: ssh.KeyAlgoSKED25519, Blob: ed25519.Sign(private, blob), Rest: []byte{c.sent, 0, 0, 0, 7},
			}})
			if err := k.Verify([]byte(commit), armored, at); !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// TestAllowedSigners are lines as of ssh-keygen(1).
func TestAllowedSigners(t *testing.T) {
	signer := sshtest.NewKey(t, sshtest.ED25519).Signer
	public := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
	object := signtest.SSH(t, signer).Commit([]byte(commit))
	other := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(sshtest.NewKey(t, sshtest.ED25519).Public())))
	for name, c := range map[string]struct {
		lines string
		want  error
	}{
		"the key":                               {"ada@example.com " + public, nil},
		"with a comment":                        {"# signers\n\nada@example.com,*@example.org " + public + " laptop\n", nil},
		"for Git":                               {`ada@example.com namespaces="file,git" ` + public, nil},
		"for everything":                        {`ada@example.com namespaces="*" ` + public, nil},
		"for files alone":                       {`ada@example.com namespaces="file" ` + public + "\nrob@example.com " + other, ErrKeyNotTrusted},
		"not valid yet":                         {`ada@example.com valid-after="20270101" ` + public, ErrExpired},
		"valid since then":                      {`ada@example.com valid-after="20261201Z" ` + public, nil},
		"not valid any more":                    {`ada@example.com valid-before="202612010000" ` + public, ErrExpired},
		"valid until later":                     {`ada@example.com namespaces="git",valid-after="20260101",valid-before="20261201000001Z" ` + public, nil},
		"expired in one line, valid in another": {`ada@example.com valid-before="20200101" ` + public + "\nada@example.com " + public, nil},
		"another key":                           {"ada@example.com " + other, ErrKeyNotTrusted},
	} {
		t.Run(name, func(t *testing.T) {
			k := keyring(t, map[string][]byte{"allowed_signers": []byte(c.lines)})
			if err := verifyCommit(k, object, at); !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestFilesOfKeysThatAreRefused(t *testing.T) {
	key := strings.TrimSpace(string(file(t, "ed25519.sshpub")))
	short := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(shortRSA(t))))
	for name, c := range map[string]struct {
		files map[string][]byte
		text  string
	}{
		"none":                         {nil, "there is no public key"},
		"none with the name of one":    {map[string][]byte{"password": []byte("x"), "identity.pub": []byte(key)}, "there is no public key"},
		"an empty file":                {map[string][]byte{"a.asc": nil, "b.sshpub": []byte("# none\n")}, "there is no public key"},
		"text in place of OpenPGP":     {map[string][]byte{"a.asc": []byte(key)}, "a.asc is no armored key"},
		"a signature as a key":         {map[string][]byte{"a.asc": signtest.OpenPGP(t, signtest.Options{Made: at}).Signature(nil)}, "a.asc is no public key"},
		"a private key":                {map[string][]byte{"a.asc": bytes.ReplaceAll(file(t, "gpg.asc"), []byte("PUBLIC"), []byte("PRIVATE"))}, "a.asc is no public key"},
		"a key that is cut off":        {map[string][]byte{"a.asc": append(file(t, "gpg.asc")[:120], "\n-----END PGP PUBLIC KEY BLOCK-----"...)}, "a.asc is a key of OpenPGP that cannot be read"},
		"text behind a key":            {map[string][]byte{"a.asc": append(file(t, "gpg.asc"), "x"...)}, "a.asc is no armored key"},
		"a private key of ssh":         {map[string][]byte{"a.sshpub": sshtest.NewKey(t, sshtest.ED25519).PEM("")}, "a.sshpub has a line 1 that is not of the form"},
		"a second line of something":   {map[string][]byte{"a.sshpub": []byte(key + "\nx")}, "a.sshpub has a line 2 that is not of the form"},
		"options":                      {map[string][]byte{"a.sshpub": []byte(`command="x" ` + key)}, "a.sshpub has a line 1 that is not of the form"},
		"a short key of RSA":           {map[string][]byte{"a.sshpub": []byte(short)}, "less than 2048 bits"},
		"a line without principals":    {map[string][]byte{"allowed_signers": []byte(key)}, "allowed_signers has a line 1 that is not of the form"},
		"a line of one token":          {map[string][]byte{"allowed_signers": []byte("x")}, "allowed_signers has a line 1 that is not of the form"},
		"an authority":                 {map[string][]byte{"allowed_signers": []byte("*@example.com cert-authority " + key)}, "an option that is not supported"},
		"a time that is none":          {map[string][]byte{"allowed_signers": []byte(`a valid-after="tomorrow" ` + key)}, "an option that is not supported"},
		"a pattern of namespaces":      {map[string][]byte{"allowed_signers": []byte(`a namespaces="!git,*" ` + key)}, "an option that is not supported"},
		"a good file and one that not": {map[string][]byte{"a.sshpub": []byte(key), "b.asc": []byte("x")}, "b.asc is no armored key"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(c.files)
			if err == nil || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "AAAA") {
				t.Errorf("got %v, want %s", err, c.text)
			}
		})
	}
}

// TestSeveralKeysMayBeInOneFile, as gpg exports several, and as a person puts files together.
func TestSeveralKeysMayBeInOneFile(t *testing.T) {
	k := keyring(t, map[string][]byte{"all.asc": append(append([]byte("Ada's:\n"), file(t, "gpg.asc")...), file(t, "gpg-rsa.asc")...), "all.sshpub": append(file(t, "ed25519.sshpub"), file(t, "rsa.sshpub")...)})
	for _, name := range []string{"gpg", "gpg-rsa", "ed25519", "rsa"} {
		if err := verifyCommit(k, file(t, name+".commit"), at); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAFingerprintChangesWithAnyKey(t *testing.T) {
	files := map[string][]byte{"a": []byte("1"), "b": []byte("2")}
	first := Fingerprint(files)
	if diff := cmp.Diff(first, Fingerprint(maps.Clone(files))); diff != "" {
		t.Error(diff)
	}
	for _, other := range []map[string][]byte{nil, {"a": []byte("1")}, {"a": []byte("1"), "b": []byte("3")}, {"a": []byte("1"), "c": []byte("2")}, {"ab": []byte("12")}} {
		if Fingerprint(other) == first {
			t.Errorf("%v has the same", other)
		}
	}
}

// TestThePayloadIsAllButTheSignature compares with the content that was signed.
func TestThePayloadIsAllButTheSignature(t *testing.T) {
	key := signtest.OpenPGP(t, signtest.Options{Made: at})
	for _, text := range []string{commit, strings.Replace(commit, "\n\n", "\nencoding x\nmergetag object y\n type z\n \n gpgsig w\n\n", 1), strings.Replace(commit, "change\n", "change\n\ngpgsig x\n y\n", 1), strings.TrimSuffix(commit, "change\n")} {
		payload, _, err := OfCommit(key.Commit([]byte(text)))
		if err != nil || string(payload) != text {
			t.Errorf("of %q it is %q, %v", text, payload, err)
		}
	}
	payload, _, err := OfTag(key.Tag([]byte(tag)))
	if err != nil || string(payload) != tag {
		t.Errorf("of a tag it is %q, %v", payload, err)
	}
}
