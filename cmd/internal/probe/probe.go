// Package probe connects from this machine to what the controller connects to, AWS, Git and the forges, with the
// credentials of whoever runs the command and the Secrets of the Syncs. Its results are those of checks.
//
// It refuses to write anything, and no result repeats a value of a Secret. What only the cluster can reach is a
// warning, since the controller may have what this machine has not. Start reading at Checks.
package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/check"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// Checks are the checks of a request that connect to AWS, Git and forges. Before an installation they are of AWS
// alone: there is no Sync yet.
func Checks(req check.Request) []check.NamedCheck {
	p := &prober{kube: req.Kube, namespace: req.Namespace, now: req.Now, perSync: req.Timeout / 2}
	if req.Pre {
		return []check.NamedCheck{{Name: "aws-identity", Run: p.identity}, {Name: "aws-spot-role", Run: p.spotRole}}
	}
	return []check.NamedCheck{
		{Name: "aws-identity", Run: p.identity}, {Name: "aws-permissions", Run: p.permissions},
		{Name: "git", Run: p.git}, {Name: "forge", Run: p.forges},
	}
}

// prober makes the checks.
type prober struct {
	kube      client.Client
	namespace string
	now       func() time.Time
	// perSync bounds the connection for one Sync, so that a server that does not respond leaves time for others.
	perSync time.Duration
}

// fromHere is what to do about what this machine cannot reach.
const fromHere = "where only the cluster reaches it, the check %s has what the controller found"

// syncs checks each Sync of the controller's namespace that is not suspended, with a time for each; a check of one
// returns false where there is nothing to connect to.
func (p *prober) syncs(ctx context.Context, connect func(context.Context, *v1alpha1.Sync) (check.Result, bool)) []check.Result {
	var list v1alpha1.SyncList
	if err := p.kube.List(ctx, &list, client.InNamespace(p.namespace)); err != nil {
		return []check.Result{unread(err)}
	}
	var out []check.Result
	for i := range list.Items {
		sync := &list.Items[i]
		if sync.Spec.Suspend {
			continue
		}
		untried := ctx.Err() != nil
		bounded, cancel := context.WithTimeout(ctx, p.perSync)
		r, made := connect(bounded, sync)
		cancel()
		switch {
		case untried:
			r = check.Result{Status: check.Skipped, Message: "it was not tried: the Syncs before it took all the time", Remedy: "raise --timeout"}
		case ctx.Err() != nil && r.Status != check.OK:
			r = check.Result{Status: check.Skipped, Message: "it was not tried to its end: the time of all checks was over", Remedy: "raise --timeout"}
		}
		if made {
			r.Object = "Sync " + sync.Namespace + "/" + sync.Name
			out = append(out, r)
		}
	}
	return out
}

// secret reads a Secret of a Sync's namespace.
func (p *prober) secret(ctx context.Context, sync *v1alpha1.Sync, name string) (map[string][]byte, error) {
	var secret corev1.Secret
	if err := p.kube.Get(ctx, client.ObjectKey{Namespace: sync.Namespace, Name: name}, &secret); err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	return secret.Data, nil
}

// unread is the result of what the API server does not return.
func unread(err error) check.Result {
	status, remedy := check.Failed, "try again; where it stays, run poolwright check without --probe"
	var denied apierrors.APIStatus
	switch {
	case meta.IsNoMatchError(err):
		status, remedy = check.Skipped, ""
	case errors.As(err, &denied) && apierrors.IsForbidden(err):
		status, remedy = check.Skipped, "request the permission to read it, or run this with the credentials of an administrator"
	}
	return check.Result{Status: status, Message: err.Error(), Remedy: remedy}
}

// short is a revision with its commit at seven digits.
func short(revision string) string {
	const digits = 7
	if i := strings.LastIndexByte(revision, ':'); i >= 0 && len(revision) > i+1+digits {
		return revision[:i+1+digits]
	}
	return revision
}
