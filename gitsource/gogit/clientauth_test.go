package gogit

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/gitsource"
)

// keyPair is a certificate that signs itself, for a client, and its private key, both in PEM.
func keyPair(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

func using(cred Credentials) func(*Config) {
	return func(c *Config) { c.Credentials = func(context.Context) (Credentials, error) { return cred, nil } }
}

func TestABearerTokenIsSentAsOne(t *testing.T) {
	srv := newGitServer(t)
	commit := srv.push("a.yaml", "one\n")
	srv.during(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Header.Get("Authorization") != "Bearer "+password {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, r.Header.Get("Authorization"), http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
	if snap := mustFetch(t, srv.source(Ref{}, using(Credentials{BearerToken: password}))); snap.Commit != commit {
		t.Error(snap.Commit)
	}
	fails(t, srv.source(Ref{}, using(Credentials{BearerToken: "wrong-" + password})), gitsource.ErrUnauthorized)
	fails(t, srv.source(Ref{}, login("git", password)), gitsource.ErrUnauthorized)
}

// TestAServerMayRequireACertificateOfTheClient runs both versions of TLS, whose servers refuse a
// certificate at different times.
func TestAServerMayRequireACertificateOfTheClient(t *testing.T) {
	certificate, key := keyPair(t, "poolwright")
	otherCertificate, otherKey := keyPair(t, "other")
	for name, version := range map[string]uint16{"TLS 1.2": tls.VersionTLS12, "TLS 1.3": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			srv := newGitServer(t)
			commit := srv.push("a.yaml", "one\n")
			secure := httptest.NewUnstartedServer(srv.Config.Handler)
			clients := x509.NewCertPool()
			clients.AppendCertsFromPEM(certificate)
			secure.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients, MinVersion: version, MaxVersion: version}
			secure.StartTLS()
			defer secure.Close()
			ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
			there := func(c *Config) { c.URL = secure.URL + "/repo.git" }

			if snap := mustFetch(t, srv.source(Ref{}, there, using(Credentials{CABundle: ca, Certificate: certificate, PrivateKey: key}))); snap.Commit != commit {
				t.Error(snap.Commit)
			}
			for name, cred := range map[string]Credentials{
				"none":                {CABundle: ca},
				"one of another":      {CABundle: ca, Certificate: otherCertificate, PrivateKey: otherKey},
				"none and a password": {CABundle: ca, Username: "git", Password: password},
			} {
				if msg := fails(t, srv.source(Ref{}, there, using(cred)), gitsource.ErrUnauthorized); !strings.Contains(msg, "tls.crt") {
					t.Errorf("%s: the message does not name the key: %s", name, msg)
				}
			}
			for name, cred := range map[string]Credentials{
				"the key of another": {CABundle: ca, Certificate: certificate, PrivateKey: otherKey},
				"no PEM":             {CABundle: ca, Certificate: []byte(password), PrivateKey: []byte(password)},
			} {
				if msg := fails(t, srv.source(Ref{}, there, using(cred)), gitsource.ErrInvalid); !strings.Contains(msg, "tls.key") {
					t.Errorf("%s: the message does not name the key: %s", name, msg)
				}
			}
		})
	}
}

// TestARotatedClientCertificateIsUsedAtOnce changes only the certificate of the client.
func TestARotatedClientCertificateIsUsedAtOnce(t *testing.T) {
	certificate, key := keyPair(t, "new")
	oldCertificate, oldKey := keyPair(t, "old")
	srv := newGitServer(t)
	srv.push("a.yaml", "one\n")
	secure := httptest.NewUnstartedServer(srv.Config.Handler)
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(certificate)
	secure.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients, MinVersion: tls.VersionTLS12}
	secure.StartTLS()
	defer secure.Close()
	cred := Credentials{
		CABundle:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}),
		Certificate: oldCertificate, PrivateKey: oldKey,
	}
	source := srv.source(Ref{}, func(c *Config) {
		c.URL = secure.URL + "/repo.git"
		c.Credentials = func(context.Context) (Credentials, error) { return cred, nil }
	})
	fails(t, source, gitsource.ErrUnauthorized)
	cred.Certificate, cred.PrivateKey = certificate, key
	mustFetch(t, source)
}

// TestAServerMayRefuseAMissingClientCertificateByAStatus is nginx, which asks for a certificate, accepts
// none, and answers with 400.
func TestAServerMayRefuseAMissingClientCertificateByAStatus(t *testing.T) {
	srv := newGitServer(t)
	srv.push("a.yaml", "one\n")
	secure := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, password, http.StatusBadRequest)
	}))
	secure.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	secure.StartTLS()
	defer secure.Close()
	there := func(c *Config) { c.URL = secure.URL + "/repo.git" }
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	if msg := fails(t, srv.source(Ref{}, there, using(Credentials{CABundle: ca})), gitsource.ErrUnauthorized); !strings.Contains(msg, "tls.crt") {
		t.Errorf("the message does not name the key: %s", msg)
	}
}
