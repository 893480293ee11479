package operator

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
)

func TestTheCredentialsForHTTPSAreThoseOfTheSecret(t *testing.T) {
	const value = "s3cret"
	for name, c := range map[string]struct {
		data map[string][]byte
		want gogit.Credentials
		text string
	}{
		"a user name and a password":           {map[string][]byte{"username": []byte("me"), "password": []byte(value)}, gogit.Credentials{Username: "me", Password: value}, ""},
		"a token without a user name":          {map[string][]byte{"password": []byte(value)}, gogit.Credentials{Password: value}, ""},
		"a token with an empty user name":      {map[string][]byte{"username": {}, "password": []byte(value)}, gogit.Credentials{Password: value}, ""},
		"an authority for a public repository": {map[string][]byte{"ca.crt": []byte(value)}, gogit.Credentials{CABundle: []byte(value)}, ""},
		"a user name without a password":       {map[string][]byte{"username": []byte(value)}, gogit.Credentials{}, "Secret git has no key password; put the password or token there"},
		"an empty password":                    {map[string][]byte{"username": []byte(value), "password": {}}, gogit.Credentials{}, "Secret git has no key password; put the password or token there"},
		"a bearer token":                       {map[string][]byte{"bearerToken": []byte(value)}, gogit.Credentials{BearerToken: value}, ""},
		"a certificate of the client": {
			map[string][]byte{"tls.crt": []byte("c"), "tls.key": []byte(value)}, gogit.Credentials{Certificate: []byte("c"), PrivateKey: []byte(value)}, "",
		},
		"a certificate of the client and a password": {
			map[string][]byte{"tls.crt": []byte("c"), "tls.key": []byte(value), "password": []byte(value)},
			gogit.Credentials{Password: value, Certificate: []byte("c"), PrivateKey: []byte(value)}, "",
		},
		"a password and a bearer token": {
			map[string][]byte{"password": []byte(value), "bearerToken": []byte(value)}, gogit.Credentials{},
			"Secret git has both keys password and bearerToken, of which one is sent; remove the other",
		},
		"a certificate without its key": {
			map[string][]byte{"tls.crt": []byte("c"), "tls.key": {}}, gogit.Credentials{},
			"Secret git has key tls.crt without tls.key; put the private key of the client's certificate there",
		},
		"a key without its certificate": {
			map[string][]byte{"tls.key": []byte(value)}, gogit.Credentials{},
			"Secret git has key tls.key without tls.crt; put the client's certificate there",
		},
		"the token of a forge, of another name": {map[string][]byte{"token": []byte(value)}, gogit.Credentials{}, "Secret git has no key password; put the password or token there"},
	} {
		t.Run(name, func(t *testing.T) {
			key := client.ObjectKey{Namespace: "poolwright-system", Name: "git"}
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Data: c.data}
			a := &app{direct: reconcilertest.InstalledClient(t, secret)}
			got, err := a.credentials(t.Context(), key, false)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("credentials (-want +got):\n%s", d)
			}
			if c.text == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, gitsource.ErrUnauthorized) || !strings.HasSuffix(err.Error(), c.text) || strings.Contains(err.Error(), value) {
				t.Errorf("error %v, want %s", err, c.text)
			}
		})
	}
}
