package pullrequest

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestOtherSyncsDoNotWaitForAReviewThatIsClosed(t *testing.T) {
	name := types.NamespacedName{Namespace: "ns", Name: "slow"}
	for _, end := range []string{"one", "all"} {
		closing, closed, stopped := make(chan struct{}), make(chan struct{}), make(chan struct{})
		slow := &pullRequestState{cancel: func() {}, ForgeAccess: ForgeAccess{Close: func() {
			close(closing)
			<-closed
		}}}
		all := pullRequestStates{open: map[types.NamespacedName]*pullRequestState{name: slow}}
		go func() {
			defer close(stopped)
			if end == "all" {
				all.close()
			} else {
				all.stop(name)
			}
		}()
		<-closing
		if !all.mu.TryLock() {
			t.Errorf("ending %s: a review that is closed holds the lock that every Sync needs", end)
		} else {
			all.mu.Unlock()
		}
		close(closed)
		<-stopped
		if all.has(name) {
			t.Errorf("ending %s: the review is still there", end)
		}
	}
}
