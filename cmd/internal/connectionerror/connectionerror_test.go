package connectionerror

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What a command wraps around an error of client-go does not keep it from being explained.
func TestEachCauseKeepsItsError(t *testing.T) {
	server := Server{Address: "https://cluster.example.com", Context: "dev"}
	to := func(host string, err error) error {
		return fmt.Errorf("reading Syncs: %w", &url.Error{Op: "Get", URL: "https://" + host + "/api", Err: err})
	}
	certificate := &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}
	pods := schema.GroupResource{Resource: "pods"}
	for name, tt := range map[string]struct {
		server    Server
		err       error
		explained bool
	}{
		"no error":                             {server, nil, false},
		"an error of another kind":             {server, os.ErrNotExist, false},
		"a host without an address":            {server, to("cluster.example.com", &net.DNSError{Name: "cluster.example.com"}), true},
		"a certificate of another authority":   {server, to("cluster.example.com", certificate), true},
		"a port that nothing listens at":       {server, to("cluster.example.com", syscall.ECONNREFUSED), true},
		"no response in time":                  {server, to("cluster.example.com", context.DeadlineExceeded), true},
		"a connection that was cut":            {server, to("cluster.example.com", syscall.ECONNRESET), true},
		"the same of another host":             {server, to("eks.amazonaws.com", syscall.ECONNREFUSED), false},
		"the same where no server was loaded":  {Server{}, to("cluster.example.com", syscall.ECONNREFUSED), false},
		"credentials that are not accepted":    {server, apierrors.NewUnauthorized("expired"), true},
		"a permission that is missing":         {server, apierrors.NewForbidden(pods, "a", errors.New("no rule")), true},
		"an object that does not exist at all": {server, apierrors.NewNotFound(pods, "a"), false},
	} {
		t.Run(name, func(t *testing.T) {
			got := tt.server.Explain(tt.err)
			if !tt.explained {
				if !errors.Is(got, tt.err) || tt.err != nil && got.Error() != tt.err.Error() {
					t.Errorf("%v became %v", tt.err, got)
				}
				return
			}
			if got.Error() == tt.err.Error() {
				t.Error("it is not explained: ", got)
			}
		})
	}
}
