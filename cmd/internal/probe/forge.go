package probe

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/poolwright/poolwright/cmd/internal/check"
	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/forgeclient"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// forges lists the pull requests of each Sync that has spec.pullRequests, with the Sync's own token.
func (p *prober) forges(ctx context.Context) []check.Result { return p.syncs(ctx, p.pullRequests) }

func (p *prober) pullRequests(ctx context.Context, sync *v1alpha1.Sync) (check.Result, bool) {
	spec := sync.Spec.PullRequests
	if spec == nil {
		return check.Result{}, false
	}
	secret, err := p.secret(ctx, sync, spec.SecretRef.Name)
	if err != nil {
		return unread(err), true
	}
	client, err := forgeclient.New(sync, secret, p.now, func(t http.RoundTripper) http.RoundTripper { return t })
	if err != nil {
		return check.Result{Status: check.Failed, Message: err.Error(), Remedy: "correct the Secret or spec.pullRequests (docs/pull-requests.md)"}, true
	}
	listing, err := client.PullRequests(ctx, forge.Listing{})
	if err != nil {
		return refusedForge(err), true
	}
	// A permission to write is known by writing, which a check does not do.
	return check.Result{Status: check.OK, Message: fmt.Sprintf("the token lists %s; whether it may comment is in the check pull-requests",
		plural.Count(len(listing.Open), "open pull request"))}, true
}

// refusedForge is the result of a forge that did not list pull requests. No error repeats a credential.
func refusedForge(err error) check.Result {
	r := check.Result{Status: check.Warning, Message: err.Error(), Remedy: fmt.Sprintf(fromHere, "pull-requests")}
	if refused, ok := errors.AsType[*forge.Error](err); ok && refused.Permanent() {
		r.Status, r.Remedy = check.Failed, "put a token into the Secret of spec.pullRequests.secretRef that has the permissions of docs/pull-requests.md"
	}
	return r
}
