package kube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// lifetime is longer than any sandbox is kept, and short enough that a copied
// key is not worth much.
const lifetime = 90 * 24 * time.Hour

// authority signs the certificates of one purpose: the cluster, its front
// proxy and etcd each have their own, so that a certificate for one opens
// nothing at another.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// pair is a certificate and its key, PEM encoded.
type pair struct {
	cert, key []byte
}

func newAuthority(name string, now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating the key of authority %s: %w", name, err)
	}
	template, err := blank(pkix.Name{CommonName: name}, now)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing authority %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading back authority %s: %w", name, err)
	}
	return &authority{cert: cert, key: key, pem: block("CERTIFICATE", der)}, nil
}

// blank carries what all certificates have. It starts an hour early, because
// containers' clocks differ from their hosts'.
func blank(subject pkix.Name, now time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("drawing a serial number: %w", err)
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: subject,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(lifetime),
	}, nil
}

// client issues a certificate that names a user and its groups.
func (a *authority) client(user string, now time.Time, groups ...string) (pair, error) {
	template, err := blank(pkix.Name{CommonName: user, Organization: groups}, now)
	if err != nil {
		return pair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

// server issues a certificate for loopback and the further names. It may be
// shown as a client certificate too: an etcd member is both to itself.
func (a *authority) server(name string, now time.Time, names []string, addresses ...net.IP) (pair, error) {
	template, err := blank(pkix.Name{CommonName: name}, now)
	if err != nil {
		return pair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.DNSNames = append([]string{"localhost"}, names...)
	template.IPAddresses = append([]net.IP{net.IPv4(127, 0, 0, 1)}, addresses...)
	return a.issue(template)
}

func (a *authority) issue(template *x509.Certificate) (pair, error) {
	template.KeyUsage = x509.KeyUsageDigitalSignature
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("generating the key of %s: %w", template.Subject.CommonName, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return pair{}, fmt.Errorf("signing %s: %w", template.Subject.CommonName, err)
	}
	encoded, err := encodeKey(key)
	if err != nil {
		return pair{}, err
	}
	return pair{cert: block("CERTIFICATE", der), key: encoded}, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return block("EC PRIVATE KEY", der), nil
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// signer makes the key pair that service account tokens are signed with.
func signer() (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("generating the service account key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return pair{}, fmt.Errorf("encoding the service account key: %w", err)
	}
	encoded, err := encodeKey(key)
	if err != nil {
		return pair{}, err
	}
	return pair{cert: block("PUBLIC KEY", public), key: encoded}, nil
}

// write stores the pair as <dir>/<name>.crt and .key, for us alone.
func (p pair) write(dir, name string) error {
	if err := writePrivate(filepath.Join(dir, name+".crt"), p.cert); err != nil {
		return err
	}
	return writePrivate(filepath.Join(dir, name+".key"), p.key)
}

func writePrivate(path string, content []byte) error {
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("writing key material: %w", err)
	}
	return nil
}
