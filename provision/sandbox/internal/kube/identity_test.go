package kube

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
)

func newTestIdentities(t *testing.T, now time.Time) *identities {
	t.Helper()
	ids, err := newIdentities(filepath.Join(t.TempDir(), "keys"), now)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func certificate(t *testing.T, encoded []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(encoded)
	if block == nil {
		t.Fatal("there is no PEM block")
	}
	out, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (ids *identities) read(t *testing.T, name string) []byte {
	t.Helper()
	out, err := os.ReadFile(ids.path(name))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Each certificate is of one authority and of no other, for the uses that it needs.
func TestACertificateOfOneAuthorityOpensNothingAtAnother(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	ids := newTestIdentities(t, now)
	authorities := []string{"cluster-ca.crt", "front-proxy-ca.crt", "etcd-ca.crt"}
	tests := map[string]struct {
		certificate []byte
		of          string
		user        string
		groups      []string
		serves      bool
	}{
		"the API server":         {ids.read(t, "serving.crt"), "cluster-ca.crt", "kube-apiserver", nil, true},
		"the administrator":      {ids.admin.cert, "cluster-ca.crt", "kubernetes-admin", []string{"system:masters"}, false},
		"the controller manager": {ids.manager.cert, "cluster-ca.crt", "system:kube-controller-manager", nil, false},
		"the scheduler":          {ids.sched.cert, "cluster-ca.crt", "system:kube-scheduler", nil, false},
		"the front proxy":        {ids.read(t, "front-proxy.crt"), "front-proxy-ca.crt", "front-proxy-client", nil, false},
		"etcd":                   {ids.read(t, "etcd.crt"), "etcd-ca.crt", "etcd", nil, true},
		"etcd's client":          {ids.read(t, "etcd-client.crt"), "etcd-ca.crt", "kube-apiserver", nil, false},
	}
	serials := map[string]string{}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cert := certificate(t, tt.certificate)
			for _, authority := range authorities {
				roots := x509.NewCertPool()
				roots.AddCert(certificate(t, ids.read(t, authority)))
				for at, valid := range map[time.Time]bool{now: true, now.Add(-30 * time.Minute): true, now.Add(80 * 24 * time.Hour): true, now.Add(-2 * time.Hour): false, now.Add(100 * 24 * time.Hour): false} {
					for use, granted := range map[x509.ExtKeyUsage]bool{x509.ExtKeyUsageClientAuth: true, x509.ExtKeyUsageServerAuth: tt.serves, x509.ExtKeyUsageCodeSigning: false} {
						_, err := cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{use}})
						if want := valid && granted && authority == tt.of; want != (err == nil) {
							t.Errorf("by %s at %s for use %d: %v", authority, at, use, err)
						}
					}
				}
			}
			if cert.IsCA || cert.Subject.CommonName != tt.user || !slices.Equal(cert.Subject.Organization, tt.groups) {
				t.Errorf("it names %s, of a CA: %t", cert.Subject, cert.IsCA)
			}
			if other := serials[cert.SerialNumber.String()]; other != "" {
				t.Errorf("it has the serial number of %s", other)
			}
			serials[cert.SerialNumber.String()] = name
		})
	}
}

func TestTheAPIServersCertificateIsForTheNamesByWhichPodsReachIt(t *testing.T) {
	ids := newTestIdentities(t, time.Now())
	cert := certificate(t, ids.read(t, "serving.crt"))
	for name, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, serviceAddress: true, "kubernetes": true, "kubernetes.default.svc": true,
		"kubernetes.default.svc.cluster.local": true, "example.com": false, "10.0.0.1": false,
	} {
		if err := cert.VerifyHostname(name); want != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, services, err := net.ParseCIDR(ServiceRange)
	if err != nil || !services.Contains(net.ParseIP(serviceAddress)) {
		t.Errorf("%s is not in %s: %v", serviceAddress, ServiceRange, err)
	}
}

// Keys are nobody else's, and drawn anew at every start.
func TestKeysArePrivateAndNew(t *testing.T) {
	one, two := newTestIdentities(t, time.Now()), newTestIdentities(t, time.Now())
	files, err := os.ReadDir(one.dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		info, err := file.Info()
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %s, %v", file.Name(), info.Mode(), err)
		}
		if string(one.read(t, file.Name())) == string(two.read(t, file.Name())) {
			t.Errorf("%s is the same at two starts", file.Name())
		}
		names = append(names, file.Name())
	}
	want := []string{
		"cluster-ca.crt", "etcd-ca.crt", "etcd-client.crt", "etcd-client.key", "etcd.crt", "etcd.key",
		"front-proxy-ca.crt", "front-proxy.crt", "front-proxy.key", "serving.crt", "serving.key", "tokens.crt", "tokens.key",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	// Every flag that names a file of keys names one that is there.
	for _, flags := range [][]string{etcdFlags(one, "data", ports{}), apiFlags(one, ports{}), managerFlags(one, "kubeconfig", 1), schedulerFlags(one, "kubeconfig", 1)} {
		for _, flag := range flags {
			if _, file, _ := strings.Cut(flag, "="); strings.HasPrefix(file, one.dir) {
				if _, err := os.Stat(file); err != nil {
					t.Errorf("%s: %v", flag, err)
				}
			}
		}
	}
}

// A server that takes clients of the cluster's authority lets the kubeconfig in.
func TestAKubeconfigLogsInAsItsUser(t *testing.T) {
	ids := newTestIdentities(t, time.Now())
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := w.Write([]byte(r.TLS.PeerCertificates[0].Subject.CommonName)); err != nil {
			t.Error(err)
		}
	}))
	serving, err := tls.LoadX509KeyPair(ids.path("serving.crt"), ids.path("serving.key"))
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(ids.cluster.pem)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{serving}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	for user, credentials := range map[string]pair{"kubernetes-admin": ids.admin, "system:kube-scheduler": ids.sched} {
		path := filepath.Join(t.TempDir(), "kubeconfig")
		if err := ids.kubeconfig(path, user, server.URL, credentials); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the kubeconfig has the mode %v, %v", info.Mode(), err)
		}
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			t.Fatal(err)
		}
		probe, err := readyProbe(config)
		if err != nil {
			t.Fatal(err)
		}
		if err := probe(t.Context()); err != nil {
			t.Errorf("%s is not let in: %v", user, err)
		}
	}
	// Without a certificate nobody is.
	if err := get(t.Context(), secureClient(ids.cluster.pem), server.URL); err == nil {
		t.Error("a client without a certificate is let in")
	}
	if err := get(t.Context(), secureClient(ids.read(t, "etcd-ca.crt"), serving), server.URL); err == nil {
		t.Error("the server is trusted by another authority")
	}
}
