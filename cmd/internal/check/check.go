// Package check checks a cluster: before an installation whether one can succeed there, and
// after it whether the controller, its engine and its Syncs work. Its results are data; who
// prints them chooses the form.
//
// It refuses to write anything, to read a Secret, and to connect to AWS or Git: of these it
// reports what the controller wrote into the status of its objects, and what the checks of
// cmd/internal/probe find, where a request has them. A check that could not be made is no success.
// Start reading at Run.
package check

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// Report is what Run found, in a fixed order.
type Report struct {
	// Pre is true for the checks before an installation.
	Pre bool `json:"pre"`
	// Namespace is the controller's.
	Namespace string `json:"namespace"`
	// Version is that of the program that checked.
	Version string   `json:"version"`
	Results []Result `json:"results"`
}

// Count is how many results have the status.
func (r Report) Count(status Status) int {
	n := 0
	for _, result := range r.Results {
		if result.Status == status {
			n++
		}
	}
	return n
}

// Request is what to check.
type Request struct {
	// Kube reads the cluster past any cache. Its scheme has our kinds, CRDs and client-go's.
	Kube client.Client
	// ServerVersion requests the API server's version, such as "v1.36.2".
	ServerVersion func(context.Context) (string, error)
	// Server is the API server's address.
	Server string
	// Explain adds to an error of a connection what a person can do about it.
	Explain func(error) error
	// Namespace is the controller's.
	Namespace string
	// Pre is for the checks before an installation.
	Pre bool
	// Version is that of this program.
	Version string
	// Timeout bounds each check.
	Timeout time.Duration
	// Now is the time.
	Now func() time.Time
	// LeaseRecheck is the time between two reads of a lease that seems to be old.
	LeaseRecheck time.Duration
	// Further are made after the others.
	Further []NamedCheck
}

// NamedCheck is one check. Its results get its name; none mean that there was nothing to check.
type NamedCheck struct {
	Name string
	Run  func(context.Context) []Result
}

// Run makes the checks, each within the request's timeout. Where the API server does not
// respond, nothing else is checked.
func Run(ctx context.Context, req Request) Report {
	report := Report{Pre: req.Pre, Namespace: req.Namespace, Version: req.Version}
	c := &checker{req}
	checks := append(c.checks(), req.Further...)
	reachable := true
	for i, s := range checks {
		results := []Result{skipped("the API server does not respond", "")}
		if reachable {
			results = c.bounded(ctx, s)
		}
		for _, result := range results {
			result.Name = s.Name
			result.Object, result.Message, result.Remedy = sanitize.Text(result.Object), sanitize.Text(result.Message), sanitize.Text(result.Remedy)
			report.Results = append(report.Results, result)
		}
		if i == 0 {
			reachable = results[0].Status != Failed
		}
	}
	return report
}

// checker makes the checks of a request.
type checker struct{ Request }

// checks are in the order of their report. The first is of the API server.
func (c *checker) checks() []NamedCheck {
	first := []NamedCheck{{"api-server", c.apiServer}, {"kubernetes-version", c.kubernetesVersion}}
	others := []NamedCheck{
		{"karpenter", c.karpenter},
		{"flux", c.flux},
		{"argo-cd", c.argoCD},
		{"cluster-autoscaler", c.clusterAutoscaler},
		{"nvidia-plugins", c.nvidiaPlugins},
	}
	if c.Pre {
		return append(append(first, NamedCheck{"permissions", c.permissions}, NamedCheck{"installation", c.otherInstallation}, NamedCheck{"system-nodes", c.systemNodes}), others...)
	}
	first = append(first,
		NamedCheck{"crds", c.crds},
		NamedCheck{"controller", c.controller},
		NamedCheck{"controller-version", c.controllerVersion},
		NamedCheck{"former-names", c.formerNames},
		NamedCheck{"system-nodes", c.systemNodes},
		NamedCheck{"leader", c.leader},
		NamedCheck{"engine", c.engine},
		NamedCheck{"aws", c.aws},
		NamedCheck{"node-classes", c.nodeClasses},
		NamedCheck{"syncs", c.syncs},
		NamedCheck{"pull-requests", c.pullRequests},
		NamedCheck{"device-plugins", c.devicePlugins})
	return append(first, others...)
}

// bounded makes a check within the timeout. One that found nothing to report on was skipped.
func (c *checker) bounded(ctx context.Context, s NamedCheck) []Result {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if results := s.Run(ctx); len(results) > 0 {
		return results
	}
	return []Result{skipped("there is nothing to check", "")}
}

// unreadable is the result of what could not be read.
func (c *checker) unreadable(err error) []Result {
	switch {
	case meta.IsNoMatchError(err):
		return one(skipped("the cluster does not have the kind: "+err.Error(), ""))
	case apierrors.IsForbidden(err):
		return one(skipped("not permitted: "+err.Error(), "request the permission to read it, or run this with the credentials of an administrator"))
	case errors.Is(err, context.DeadlineExceeded):
		return one(failed("try again, or allow more time with --timeout", "no response within %s", c.Timeout))
	}
	return one(failed("", "%v", c.Explain(err)))
}
