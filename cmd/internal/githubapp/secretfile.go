package githubapp

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"github.com/fluxcd/pkg/runtime/secrets"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// secretFile is a file that only its owner can read, with the manifest of a Secret.
type secretFile struct {
	path            string
	namespace, name string
	// next is the file that the first content is written to, before it takes the path.
	next *os.File
	// written is set once the path has a key.
	written bool
}

// newSecretFile makes an empty file and the one that takes its place, and refuses those that exist: once there is a key, neither
// may be missing.
func newSecretFile(path, namespace, name string) (*secretFile, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("writing %s: it exists: it may hold the key of another App; give another --output-file", path)
	}
	if err != nil {
		return nil, fmt.Errorf("writing the Secret's manifest: %w", err)
	}
	if err := file.Close(); err != nil {
		return nil, fmt.Errorf("writing the Secret's manifest: %w", err)
	}
	f := &secretFile{path: path, namespace: namespace, name: name}
	f.next, err = f.create()
	switch {
	case errors.Is(err, fs.ErrExist):
		err = fmt.Errorf("writing %s: it exists: it may hold the key of another App; remove it, or give another --output-file", f.temporary())
	case err != nil:
		err = fmt.Errorf("writing the Secret's manifest: %w", err)
	default:
		return f, nil
	}
	f.discard()
	return nil, err
}

func (f *secretFile) temporary() string { return f.path + ".new" }

// create makes the file that takes the place of the one at the path.
func (f *secretFile) create() (*os.File, error) {
	return os.OpenFile(f.temporary(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// discard removes what was made and has no key.
func (f *secretFile) discard() {
	if f.next != nil {
		_, _ = f.next.Close(), os.Remove(f.temporary())
	}
	if !f.written {
		_ = os.Remove(f.path)
	}
}

// write replaces the content. Without an installation it lacks the key for it.
func (f *secretFile) write(id int64, key string, installation int64) error {
	secret := corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: f.name},
		StringData: map[string]string{
			secrets.KeyGitHubAppID: strconv.FormatInt(id, 10), secrets.KeyGitHubAppPrivateKey: key,
		},
	}
	if installation > 0 {
		secret.StringData[secrets.KeyGitHubAppInstallationID] = strconv.FormatInt(installation, 10)
	}
	content, err := yaml.Marshal(secret)
	if err != nil {
		return fmt.Errorf("making the Secret's manifest: %w", err)
	}
	// Below a name of its own first: a full disk must not take the key that is there.
	file := f.next
	if f.next = nil; file == nil {
		if file, err = f.create(); err != nil {
			return err
		}
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(f.temporary(), f.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.temporary()))
	}
	f.written = true
	return nil
}
