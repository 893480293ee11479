package operator

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/forecasting"
)

func TestTheCacheOfPullRequestsIsDeletedWithThem(t *testing.T) {
	tests := map[string]struct {
		edit func(*v1alpha1.Sync)
		gone bool
		want bool
	}{
		"it stays while only the session is built anew":     {func(s *v1alpha1.Sync) { s.Spec.PullRequests = &v1alpha1.PullRequests{} }, false, true},
		"it goes when the Sync has pull requests no more":   {nil, false, false},
		"it stays where it is unknown, until it is dropped": {nil, true, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: "poolwright"}}
			if tt.edit != nil {
				tt.edit(sync)
			}
			direct := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(sync).Build()
			if tt.gone {
				if err := direct.Delete(t.Context(), sync.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
			cache := newCaches(Config{CacheDir: t.TempDir()}).pullRequestsDir(sync)
			if err := os.MkdirAll(filepath.Join(cache, "gen-1"), 0o700); err != nil {
				t.Fatal(err)
			}
			a := &app{direct: direct, cfg: Config{Logger: logr.Discard()}}
			a.removeCache(sync, cache)
			_, err := os.Stat(cache)
			if diff := cmp.Diff(tt.want, err == nil); diff != "" {
				t.Errorf("there is a cache (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnApplyDoesNotWaitForTheChildrenOfPullRequests(t *testing.T) {
	c := newChildren()
	if c.ahead.Limits.Deadline != forecasting.Timeout {
		t.Errorf("a child that forecasts before an apply may run %s, not %s", c.ahead.Limits.Deadline, forecasting.Timeout)
	}
	if c.followed.Proposed || c.ahead.Proposed || !c.proposed.Proposed {
		t.Error("pull requests may take every slot, or an apply may not")
	}
	if of := c.forPullRequests("https://forge/o/r"); of.Repository != "https://forge/o/r" || !of.Proposed || c.proposed.Repository != "" {
		t.Errorf("the children of a repository's pull requests: %+v", of)
	}
	if c.followed.Semaphore != nil || c.ahead.Semaphore != nil || c.proposed.Semaphore != nil {
		t.Error("not all children share the slots of the process")
	}
}
