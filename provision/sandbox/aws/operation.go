package aws

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/eks"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/zonalshift"
)

// Operation names what a request is for, by its signature's scope and its service's
// protocol, as the SDK's models do: "ec2" and "CreateFleet". Both are empty where the
// request has no signature.
func Operation(r *http.Request, content []byte) (service, operation string) {
	scope := scopeForm.FindStringSubmatch(r.Header.Get("Authorization"))
	if scope == nil {
		return "", ""
	}
	service = scope[3]
	if _, operation, found := strings.Cut(r.Header.Get("X-Amz-Target"), "."); found {
		return service, operation
	}
	switch service {
	case "eks":
		return service, eks.Route(r.Method, r.URL.EscapedPath())
	case "arc-zonal-shift":
		return service, zonalshift.Route(r.Method, r.URL.EscapedPath())
	}
	form, err := url.ParseQuery(string(content))
	if err != nil {
		return service, ""
	}
	return service, form.Get("Action")
}
