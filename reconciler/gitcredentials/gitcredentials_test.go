package gitcredentials

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
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
			sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "dev"}}
			sync.Spec.Source.Git = v1alpha1.GitSource{URL: "https://git.example.com/a/b", SecretRef: &v1alpha1.SecretRef{Name: key.Name}}
			got, err := New(reconcilertest.InstalledClient(t, secret), sync, time.Now).Read(t.Context())
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

func TestAProxyIsThatOfItsSecret(t *testing.T) {
	const value = "s3cret"
	for name, c := range map[string]struct {
		data map[string][]byte
		want string
		ok   bool
	}{
		"an address":                         {map[string][]byte{"address": []byte("http://proxy.example.com:3128")}, "http://proxy.example.com:3128", true},
		"a user name and a password":         {map[string][]byte{"address": []byte("https://proxy.example.com"), "username": []byte("ada"), "password": []byte(value)}, "https://ada:" + value + "@proxy.example.com", true},
		"one of SOCKS":                       {map[string][]byte{"address": []byte("socks5://127.0.0.1:1080")}, "socks5://127.0.0.1:1080", true},
		"no address":                         {map[string][]byte{"username": []byte("ada"), "password": []byte(value)}, "", false},
		"an empty address":                   {map[string][]byte{"address": {}}, "", false},
		"an address that cannot be parsed":   {map[string][]byte{"address": []byte("http://ada:" + value + "@[::1")}, "", false},
		"an address without a scheme":        {map[string][]byte{"address": []byte("proxy.example.com:3128/" + value)}, "", false},
		"an address of a file":               {map[string][]byte{"address": []byte("file:///etc/" + value)}, "", false},
		"an address without a host":          {map[string][]byte{"address": []byte("http:///" + value)}, "", false},
		"the credentials of a repository":    {map[string][]byte{"password": []byte(value)}, "", false},
		"an address with another scheme too": {map[string][]byte{"address": []byte("ssh://" + value + "@proxy.example.com")}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: "poolwright-system", Name: "dev"}}
			sync.Spec.Source.Git = v1alpha1.GitSource{URL: "https://git.example.com/a/b", ProxySecretRef: &v1alpha1.SecretRef{Name: "proxy"}}
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: sync.Namespace, Name: "proxy"}, Data: c.data}
			got, err := New(reconcilertest.InstalledClient(t, secret), sync, time.Now).Read(t.Context())
			if c.ok {
				if err != nil || got.Proxy.String() != c.want {
					t.Errorf("got %v, %v", got.Proxy, err)
				}
				return
			}
			if !errors.Is(err, gitsource.ErrUnauthorized) || !strings.Contains(err.Error(), "Secret proxy has no key address") || strings.Contains(err.Error(), value) {
				t.Errorf("error %v", err)
			}
		})
	}
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: "poolwright-system", Name: "dev"}}
	sync.Spec.Source.Git.ProxySecretRef = &v1alpha1.SecretRef{Name: "proxy"}
	if _, err := New(reconcilertest.InstalledClient(t), sync, time.Now).Read(t.Context()); !errors.Is(err, gitsource.ErrUnauthorized) || !strings.Contains(err.Error(), "proxySecretRef names Secret proxy") {
		t.Errorf("without a Secret: %v", err)
	}
}
