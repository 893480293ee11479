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
	// written is set once it has a key.
	written bool
}

// newSecretFile makes an empty file, and refuses one that exists.
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
	return &secretFile{path: path, namespace: namespace, name: name}, nil
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
	f.written = true
	// Below a name of its own first: a full disk must not take the key that is there.
	next := f.path + ".new"
	file, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(next, f.path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(next))
	}
	return err
}
