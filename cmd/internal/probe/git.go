package probe

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/poolwright/poolwright/cmd/internal/check"
	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/gitcredentials"
	"github.com/poolwright/poolwright/reconciler/rollback"
)

// git lists the references of each Sync's repository, with the Sync's own credentials.
func (p *prober) git(ctx context.Context) []check.Result { return p.syncs(ctx, p.repository) }

func (p *prober) repository(ctx context.Context, sync *v1alpha1.Sync) (check.Result, bool) {
	if sync.Spec.SourceRef != nil {
		return check.Result{}, false // It is Flux that reads the repository.
	}
	spec, ref := sync.Spec.Source.Git, rollback.Ref(sync)
	config := gogit.Config{URL: spec.URL, Ref: gogit.Ref{Branch: ref.Branch, Tag: ref.Tag, Commit: ref.Commit}}
	if spec.SecretRef != nil || spec.ProxySecretRef != nil {
		config.Credentials = gitcredentials.New(p.kube, sync, p.now).Read
	}
	revision, err := gogit.Resolve(ctx, config)
	if err != nil {
		return refusedGit(err), true
	}
	message := fmt.Sprintf("%s can be read from here", short(revision))
	if attempted := sync.Status.LastAttemptedRevision; attempted != "" && attempted != revision {
		message += "; the controller fetched " + short(attempted) + " last"
	}
	return check.Result{Status: check.OK, Message: message}, true
}

// refusedGit is the result of a repository that could not be read. No error repeats a credential.
func refusedGit(err error) check.Result {
	r := check.Result{Status: check.Failed, Message: err.Error(), Remedy: "docs/kinds/sync.md#conditions has each reason"}
	switch {
	case apierrors.IsForbidden(err):
		return unread(err)
	case errors.Is(err, gitsource.ErrUnauthorized):
		r.Remedy = "put a token or key into the Secret of spec.source.git.secretRef that may read the repository"
	case errors.Is(err, gitsource.ErrHostKey):
		r.Remedy = "put the server's lines into the key known_hosts of the Secret, as ssh-keyscan prints them"
	case errors.Is(err, gitsource.ErrNotFound):
		r.Remedy = "correct spec.source.git, or use credentials that may read the repository"
	case errors.Is(err, gitsource.ErrUnreachable), errors.Is(err, context.DeadlineExceeded):
		r.Status, r.Remedy = check.Warning, fmt.Sprintf(fromHere, "syncs")
	}
	return r
}
