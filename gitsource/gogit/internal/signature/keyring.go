package signature

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/armor"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
	"golang.org/x/crypto/ssh"
)

// Keyring is the public keys whose signatures are accepted. It is not safe for concurrent use.
type Keyring struct {
	openPGP     openpgp.EntityList
	ssh         []allowedSigner
	fingerprint string
}

// The names of files with public keys. The first two are Flux's, the third is Git's.
const (
	openPGPSuffix  = ".asc"
	sshSuffix      = ".sshpub"
	allowedSigners = "allowed_signers"
)

// Parse reads files of public keys, by their names: NAME.asc is armored keys of OpenPGP, NAME.sshpub
// are lines of an authorized_keys file of ssh, and allowed_signers are those of gpg.ssh.allowedSignersFile.
// Others are ignored. Where there is no key, or one cannot be read, it is an error that names the file
// and line and repeats nothing of it.
func Parse(files map[string][]byte) (*Keyring, error) {
	k := &Keyring{fingerprint: Fingerprint(files)}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		var err error
		switch {
		case strings.HasSuffix(name, openPGPSuffix):
			err = k.addOpenPGP(files[name])
		case strings.HasSuffix(name, sshSuffix):
			err = k.addLines(files[name], parseAuthorizedKey)
		case name == allowedSigners:
			err = k.addLines(files[name], parseAllowedSigner)
		}
		if err != nil {
			return nil, fmt.Errorf("%s %w", name, err)
		}
	}
	if len(k.openPGP) == 0 && len(k.ssh) == 0 {
		return nil, fmt.Errorf("there is no public key; put those of OpenPGP into a key that ends in %s, those of ssh into one that ends in %s, or into %s", openPGPSuffix, sshSuffix, allowedSigners)
	}
	return k, nil
}

// Fingerprint is a digest of files, equal for equal ones.
func Fingerprint(files map[string][]byte) string {
	all := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for _, part := range [][]byte{[]byte(name), files[name]} {
			sum := sha256.Sum256(part)
			all.Write(sum[:])
		}
	}
	return hex.EncodeToString(all.Sum(nil))
}

// Fingerprint is that of the files that it was read from.
func (k *Keyring) Fingerprint() string { return k.fingerprint }

func (k *Keyring) addOpenPGP(text []byte) error {
	const end = "-----END PGP PUBLIC KEY BLOCK-----"
	for _, part := range bytes.SplitAfter(text, []byte(end)) {
		if len(bytes.TrimSpace(part)) == 0 {
			continue
		}
		block, err := armor.Decode(bytes.NewReader(part))
		switch {
		case err != nil:
			return errors.New("is no armored key of OpenPGP; gpg --armor --export writes one")
		case block.Type != openpgp.PublicKeyType:
			return errors.New("is no public key of OpenPGP; replace it by what gpg --armor --export writes")
		}
		keys, err := openpgp.ReadKeyRing(block.Body)
		if err != nil {
			return errors.New("is a key of OpenPGP that cannot be read; gpg --armor --export writes one")
		}
		k.openPGP = append(k.openPGP, keys...)
	}
	return nil
}

// addLines adds the keys of a file with one in each line.
func (k *Keyring) addLines(file []byte, parse func(line []byte) (s *allowedSigner, problem string)) error {
	number := 0
	for line := range bytes.Lines(file) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' {
			continue
		}
		s, problem := parse(line)
		if s != nil && problem == "" {
			problem = keyProblem(s.key)
		}
		switch {
		case problem != "":
			return fmt.Errorf("has a line %d that %s", number, problem)
		case s != nil:
			k.ssh = append(k.ssh, *s)
		}
	}
	return nil
}

func parseAuthorizedKey(line []byte) (*allowedSigner, string) {
	key, _, options, rest, err := ssh.ParseAuthorizedKey(line)
	if err != nil || len(options) > 0 || len(rest) > 0 {
		return nil, "is not of the form TYPE KEY; it is the content of a file that ends in .pub"
	}
	return &allowedSigner{key: key}, ""
}

// parseAllowedSigner reads a line as of ssh-keygen(1), ALLOWED SIGNERS. It returns nil for one that is
// not about Git.
func parseAllowedSigner(line []byte) (*allowedSigner, string) {
	const form = "is not of the form PRINCIPALS TYPE KEY"
	at := bytes.IndexAny(line, " \t")
	if at < 0 || line[0] == '"' {
		return nil, form
	}
	key, _, options, rest, err := ssh.ParseAuthorizedKey(bytes.TrimSpace(line[at:]))
	if err != nil || len(rest) > 0 {
		return nil, form
	}
	s := &allowedSigner{key: key}
	forGit := true
	for _, option := range options {
		name, value, _ := strings.Cut(option, "=")
		value = strings.Trim(value, `"`)
		var ok bool
		switch strings.ToLower(name) {
		case "namespaces":
			names := strings.Split(value, ",")
			forGit, ok = slices.Contains(names, namespace) || slices.Contains(names, "*"), !slices.ContainsFunc(names, isPattern)
		case "valid-after":
			s.after, ok = parseTime(value)
		case "valid-before":
			s.before, ok = parseTime(value)
		}
		if !ok {
			return nil, "has an option that is not supported; list the key of each signer, with namespaces=\"git\", valid-after and valid-before at most"
		}
	}
	if !forGit {
		return nil, ""
	}
	return s, ""
}

// isPattern reports whether a name of a namespace is one of several, by a pattern other than that of all.
func isPattern(name string) bool { return name != "*" && strings.ContainsAny(name, "*?!") }

// parseTime reads a time of ssh-keygen, which is one of UTC here with and without Z.
func parseTime(text string) (time.Time, bool) {
	text = strings.TrimSuffix(text, "Z")
	for _, layout := range []string{"20060102", "200601021504", "20060102150405"} {
		if t, err := time.Parse(layout, text); err == nil && len(text) == len(layout) {
			return t, true
		}
	}
	return time.Time{}, false
}
