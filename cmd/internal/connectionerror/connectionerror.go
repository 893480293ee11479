// Package connectionerror explains why the API server could not be reached, or refused a request.
//
// It leaves any other error as it is. Start reading at Server.
package connectionerror

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Server is the API server of a command, and how it was chosen.
type Server struct {
	// Address is its URL; empty where none is known, so that no error is explained.
	Address string
	// Context is the kubeconfig's context that it is of; empty for none.
	Context string
}

// Explain returns an error of the API server's, or of the connection to it, with context, server
// and remedy in place of the steps in which client-go failed. Any other error stays as it is.
func (s Server) Explain(err error) error {
	if s.Address == "" || err == nil {
		return err
	}
	if apierrors.IsUnauthorized(err) {
		return s.failed("they may have expired: log in again (for AWS: aws sso login), or renew the kubeconfig (aws eks update-kubeconfig --name CLUSTER)",
			errors.New("the API server does not accept the credentials"))
	}
	var status *apierrors.StatusError
	if apierrors.IsForbidden(err) && errors.As(err, &status) {
		return s.failed("request the permission from whoever administers the cluster, or choose other credentials by --context",
			fmt.Errorf("the API server denies the request: %w", status))
	}
	var request *url.Error
	if !errors.As(err, &request) || !s.isServer(request.URL) {
		return err
	}
	return s.failed(causeOf(request))
}

// causeOf is the remedy where a request got no response, and why it got none.
func causeOf(request *url.Error) (string, error) {
	var (
		name *net.DNSError
		cert *tls.CertificateVerificationError
	)
	switch {
	case errors.As(request, &name):
		return "check the address in the kubeconfig, and the VPN where the endpoint is private", fmt.Errorf("the host %s has no address", name.Name)
	case errors.As(request, &cert):
		return "the kubeconfig has another cluster's CA, or a proxy is in between: renew it (aws eks update-kubeconfig --name CLUSTER)", cert.Err
	case errors.Is(request, syscall.ECONNREFUSED):
		return "check that the API server runs, and the address in the kubeconfig", errors.New("connection refused")
	case request.Timeout() || errors.Is(request, context.DeadlineExceeded):
		return "check the VPN, and that the endpoint's allowed networks have this machine's", errors.New("no response in time")
	}
	return "check the user and the server in the kubeconfig", request.Err
}

func (s Server) failed(remedy string, cause error) error {
	through := ""
	if s.Context != "" {
		through = fmt.Sprintf(" by context %q", s.Context)
	}
	return fmt.Errorf("connecting to %s%s: %w: %s", s.Address, through, cause, remedy)
}

// isServer reports whether a request went to the API server.
func (s Server) isServer(address string) bool {
	to, err := url.Parse(address)
	if err != nil {
		return false
	}
	server, err := url.Parse(s.Address)
	return err == nil && to.Host == server.Host
}
