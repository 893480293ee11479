package pullrequest

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// cluster is how statuses name this cluster. Where several of its Syncs comment on the
// pull requests of one repository, all but the oldest add their own names: that the
// others cannot be listed is an error, for it would write over their statuses.
func (p *pullRequestRun) cluster(ctx context.Context) (string, error) {
	name := p.s.Cluster
	if name == "" {
		return p.sync.Name, nil
	}
	var list v1alpha1.SyncList
	if err := p.AllSyncs.List(ctx, &list, client.InNamespace(p.sync.Namespace)); err != nil {
		return "", fmt.Errorf("listing Syncs: %w", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.Spec.PullRequests != nil && Address(other) == p.s.address && isOlder(other, p.sync) {
			return name + "/" + p.sync.Name, nil
		}
	}
	return name, nil
}

// isOlder orders Syncs by their age, and those of one second by their names.
func isOlder(a, b *v1alpha1.Sync) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// scope drops the pull requests that are none of the Sync's any more. It counts those
// that are open into its branch, and returns those that were merged into it, the oldest
// merge first.
func (p *pullRequestRun) scope() (open int, merged []forge.PullRequest) {
	listed, ours := map[int64]bool{}, map[int64]bool{}
	for _, pr := range p.s.listing.Open {
		listed[int64(pr.Number)] = true
		if pr.Base.Name == p.branch() {
			open++
			ours[int64(pr.Number)] = p.ours(pr)
		}
	}
	for _, pr := range p.s.listing.Merged {
		listed[int64(pr.Number)] = true
		if pr.Base.Name == p.branch() && p.ours(pr) {
			ours[int64(pr.Number)] = true
			merged = append(merged, pr)
		}
	}
	for number, rec := range p.s.records {
		switch {
		case ours[number]:
		case !listed[number] && rec.unfinished(p.now):
			merged = append(merged, rec.unlisted())
		default:
			delete(p.s.records, number)
		}
	}
	slices.SortFunc(merged, func(a, b forge.PullRequest) int {
		return cmp.Or(a.Merged.Compare(b.Merged), cmp.Compare(a.Number, b.Number))
	})
	return open, merged
}

// ours reports whether the pull request may be commented on.
func (p *pullRequestRun) ours(pr forge.PullRequest) bool {
	return !pr.Fork || p.sync.Spec.PullRequests.Forks
}

// branch is the one that the Sync follows.
func (p *pullRequestRun) branch() string {
	return cmp.Or(p.sync.Spec.Source.Git.Ref.FollowedBranch(), "main")
}

// withinLimits are the open pull requests that are planned, and the limit that keeps each
// other one from it.
func (p *pullRequestRun) withinLimits() (planned []forge.PullRequest, refused map[int]int) {
	return limits.Admit(slices.DeleteFunc(slices.Clone(p.s.listing.Open), func(pr forge.PullRequest) bool { return !p.isPlannable(pr) }))
}

// isPlannable reports whether an open pull request is one to plan.
func (p *pullRequestRun) isPlannable(pr forge.PullRequest) bool {
	return pr.Base.Name == p.branch() && p.ours(pr) && pr.Head.SHA != ""
}
