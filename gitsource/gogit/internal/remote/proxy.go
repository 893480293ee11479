package remote

import (
	"context"
	"net/http"
	"net/url"

	"github.com/poolwright/poolwright/gitsource"
)

// proxy is by what a request is sent: the proxy that the Secret names, or else HTTPS_PROXY and NO_PROXY of
// the environment, which whoever deploys this decides. A proxy forwards what is encrypted for the server; plain
// http goes to this machine only, and never by a proxy.
func (c Credentials) proxy(request *http.Request) (*url.URL, error) {
	if c.Proxy == nil {
		return http.ProxyFromEnvironment(request)
	}
	if request.URL.Scheme == "http" {
		return nil, nil //nolint:nilnil // It stands for none, as of http.Transport.
	}
	return c.Proxy, nil
}

// proxyResponse refuses a connection that a proxy does not make, and repeats nothing of its response.
func proxyResponse(_ context.Context, _ *url.URL, _ *http.Request, response *http.Response) error {
	switch {
	case response.StatusCode == http.StatusOK:
		return nil
	case response.StatusCode == http.StatusProxyAuthRequired:
		return refuse(gitsource.ErrUnauthorized, "the proxy requires a user name and a password, or refuses those that are configured; put them as username and password into the Secret that proxySecretRef names")
	}
	return refuse(gitsource.ErrUnreachable, "the proxy does not connect to the server, with status %d %s", response.StatusCode, http.StatusText(response.StatusCode))
}
