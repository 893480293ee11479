package get

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

func TestAPullRequestHasWhatWasPredictedAndObservedWithoutNamesOfNodes(t *testing.T) {
	reviewed := &v1alpha1.ReviewedDisruption{NodesReplaced: 3, NodesRemoved: 1, MinMinutes: 20, MaxMinutes: 60, Objects: []v1alpha1.ReviewedObject{{Kind: "NodePool", Name: "gpu", Hash: "1"}}}
	rollout := &v1alpha1.RolloutOutcome{NodesReplaced: 2, NodeClaims: []string{"gpu-a", "gpu-b"}}
	status := &v1alpha1.PullRequestsStatus{Items: []v1alpha1.PullRequestStatus{{Number: 41, Reviewed: reviewed}, {Number: 38, Rollout: rollout}}}
	got := pullRequestsOf([]v1alpha1.Sync{{Status: v1alpha1.SyncStatus{PullRequests: status}}})
	want := []PullRequest{
		{Number: 41, NodesReplaced: new(3), NodesRemoved: new(1), Reviewed: reviewed},
		{Number: 38, Rollout: &v1alpha1.RolloutOutcome{NodesReplaced: 2}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(rollout.NodeClaims) != 2 {
		t.Error("the status has been changed")
	}
}
