package remote

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/poolwright/poolwright/gitsource"
)

// tlsConfig trusts the CABundle beside the system's certificates, and has the certificate of the
// client where there is one.
func (c Credentials) tlsConfig() (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(c.CABundle) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(c.CABundle) {
			return nil, fmt.Errorf("reading the certificate authority: %w: it holds no PEM certificate", gitsource.ErrInvalid)
		}
		out.RootCAs = pool
	}
	var pair tls.Certificate
	if len(c.Certificate) > 0 || len(c.PrivateKey) > 0 {
		var err error
		if pair, err = tls.X509KeyPair(c.Certificate, c.PrivateKey); err != nil {
			// What crypto/tls found is not repeated: it is of the private key.
			return nil, fmt.Errorf("reading the client's certificate: %w: tls.crt and tls.key must be a certificate and its private key in PEM", gitsource.ErrInvalid)
		}
	}
	out.GetClientCertificate = func(request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		t, _ := request.Context().Value(errorRecorderKey{}).(*errorRecorder)
		t.recordCertificateRequest()
		return &pair, nil // An empty one sends none.
	}
	return out, nil
}

// clientSum is equal for credentials with the same certificates, key and proxy.
func (c Credentials) clientSum() [sha256.Size]byte {
	hash := sha256.New()
	var proxy []byte
	if c.Proxy != nil {
		proxy = []byte(c.Proxy.String())
	}
	for _, part := range [][]byte{c.CABundle, c.Certificate, c.PrivateKey, proxy} {
		sum := sha256.Sum256(part)
		hash.Write(sum[:])
	}
	return [sha256.Size]byte(hash.Sum(nil))
}
