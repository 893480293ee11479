package pullrequest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

func TestWhatBecomesOfASync(t *testing.T) {
	reported := func(t *testing.T) *stage {
		s := newStage(t)
		s.offer(1, sha("a"))
		s.pass()
		s.calls()
		return s
	}
	t.Run("without pullRequests the status is cleared once, and the forge gets no request", func(t *testing.T) {
		s := reported(t)
		s.change(func(y *v1alpha1.Sync) { y.Spec.PullRequests = nil })
		patches := s.patches
		if after := s.pass(); after != 0 || s.sync().Status.PullRequests != nil {
			t.Errorf("comes back after %s, %+v", after, s.status())
		}
		s.pass()
		s.expect("cleared")
		if s.patches != patches+1 || len(s.r.states.open) > 0 || s.metric("poolwright_pullrequests_open", "") != 0 {
			t.Errorf("%d patches", s.patches-patches)
		}
	})
	t.Run("without pullRequests the status is cleared though the cache does not have it yet", func(t *testing.T) {
		s := newStage(t)
		edited := s.sync()
		edited.Spec.PullRequests = nil
		s.pass()
		s.r.Client = interceptor.NewClient(s.client.(client.WithWatch), interceptor.Funcs{
			Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
				edited.DeepCopyInto(into.(*v1alpha1.Sync))
				return nil
			},
		})
		s.refuse = errBoom
		if _, err := s.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: stageName}); !errors.Is(err, errBoom) {
			t.Errorf("a status that cannot be cleared: %v", err)
		}
		s.refuse = nil
		s.pass()
		patches := s.patches
		s.pass()
		if got := s.sync().Status.PullRequests; got != nil || s.patches != patches || len(s.r.states.open) > 0 {
			t.Errorf("%+v, %d patches more", got, s.patches-patches)
		}
	})
	t.Run("suspended it leaves comments and status alone", func(t *testing.T) {
		s := reported(t)
		s.change(func(y *v1alpha1.Sync) { y.Spec.Suspend = true })
		if after := s.pass(); after != 0 || len(s.status().Items) != 1 || len(s.r.states.open) > 0 {
			t.Errorf("comes back after %s", after)
		}
		s.expect("suspended")
		s.change(func(y *v1alpha1.Sync) { y.Spec.Suspend = false })
		s.pass()
		s.expect("resumed", "list")
	})
	t.Run("deleted it is dropped", func(t *testing.T) {
		s := reported(t)
		if err := s.client.Delete(t.Context(), s.sync()); err != nil {
			t.Fatal(err)
		}
		if after := s.pass(); after != 0 || len(s.r.states.open) > 0 {
			t.Errorf("comes back after %s", after)
		}
		s.expect("deleted")
	})
	t.Run("while it is being deleted nothing is published", func(t *testing.T) {
		s := reported(t)
		s.change(func(y *v1alpha1.Sync) { y.Finalizers = []string{v1alpha1.Finalizer} })
		if err := s.client.Delete(t.Context(), s.sync()); err != nil {
			t.Fatal(err)
		}
		s.pass()
		s.expect("going")
	})
	t.Run("in another namespace it is nobody's", func(t *testing.T) {
		s := reported(t)
		s.r.Namespace = "elsewhere"
		s.pass()
		s.expect("foreign")
	})
	t.Run("a credential that was changed makes a new ForgeAccess, and nothing is published again", func(t *testing.T) {
		s := reported(t)
		s.outdated = true
		s.pass()
		s.pass()
		s.expect("rotated", "list", "list")
		if s.built != 2 {
			t.Errorf("built %d sessions", s.built)
		}
	})
	t.Run("another path has all planned again", func(t *testing.T) {
		s := reported(t)
		s.oracle.plan = s.replacing(9)
		s.change(func(y *v1alpha1.Sync) { y.Spec.Path = "clusters/other" })
		s.pass()
		s.expect("moved", "list", "comment #1", "write #1", "status aaaaaaa poolwright/plan (prod): success")
	})
	t.Run("another repository begins anew", func(t *testing.T) {
		s := reported(t)
		s.board.open[0].Head.SHA = ""
		s.change(func(y *v1alpha1.Sync) { y.Spec.PullRequests.URL = "https://forge/o/other" })
		s.pass()
		if got := s.status(); len(got.Items) != 0 || got.Open != 1 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("the interval is the Sync's, with jitter", func(t *testing.T) {
		s := reported(t)
		s.r.Jitter = func(d time.Duration) time.Duration { return d - time.Second }
		s.change(func(y *v1alpha1.Sync) { y.Spec.PullRequests.Interval.Duration = 5 * time.Minute })
		if after := s.pass(); after != 5*time.Minute-time.Second {
			t.Errorf("comes back after %s", after)
		}
	})
	t.Run("a process that ends writes nothing more", func(t *testing.T) {
		s := reported(t)
		s.board.fail = func(string) error { return &forge.Error{Code: 500} }
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		patches := s.patches
		if _, err := s.r.Reconcile(ctx, ctrl.Request{NamespacedName: stageName}); err != nil || s.patches != patches {
			t.Errorf("%v, %d patches", err, s.patches-patches)
		}
	})
	t.Run("a cluster and a Sync without further names are distinguished by their own", func(t *testing.T) {
		s := newStage(t)
		s.offer(1, sha("a"))
		build := s.r.Build
		s.r.Build = func(ctx context.Context, sync *v1alpha1.Sync) (ForgeAccess, error) {
			access, err := build(ctx, sync)
			access.Cluster, access.Identity, access.Outdated = "", "", nil
			return access, err
		}
		s.pass()
		if _, ok := s.board.statuses["aaaaaaa poolwright/plan (dev)"]; !ok {
			t.Errorf("%v", s.board.statuses)
		}
		if _, ok := s.board.comments[place(1, forge.NewMarker("plan", "poolwright-system/dev", "uid-dev"))]; !ok {
			t.Errorf("%v", s.board.comments)
		}
	})
}

func TestWhatNotifiesTheController(t *testing.T) {
	tests := []struct {
		name string
		do   func(y *v1alpha1.Sync)
		want bool
	}{
		{"its own status does not", func(y *v1alpha1.Sync) { y.Status.PullRequests = &v1alpha1.PullRequestsStatus{Open: 3} }, false},
		{"other annotations do not", func(y *v1alpha1.Sync) { y.Annotations = map[string]string{"a": "b"} }, false},
		{"that a condition was set again does not", func(y *v1alpha1.Sync) {
			y.Status.Conditions[0].LastTransitionTime = metav1.NewTime(dawn.Add(time.Hour))
			y.Status.Conditions[0].ObservedGeneration++
		}, false},
		{"a changed spec does", func(y *v1alpha1.Sync) { y.Generation++ }, true},
		{"a webhook does", func(y *v1alpha1.Sync) { y.Annotations = map[string]string{v1alpha1.WebhookAnnotation: "now"} }, true},
		{"a new revision does", func(y *v1alpha1.Sync) { y.Status.LastAttemptedRevision = "x" }, true},
		{"an applied revision does", func(y *v1alpha1.Sync) { y.Status.LastAppliedRevision = "x" }, true},
		{"drift does", func(y *v1alpha1.Sync) { y.Status.Conditions[0].Status = metav1.ConditionTrue }, true},
		{"another drift does", func(y *v1alpha1.Sync) { y.Status.Pending = []v1alpha1.PendingChange{{Object: "x"}} }, true},
		{"a hold does", func(y *v1alpha1.Sync) {
			y.Status.Conditions = append(y.Status.Conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "NodeReplacementHeld"})
		}, true},
		{"a deletion does", func(y *v1alpha1.Sync) { y.DeletionTimestamp = &metav1.Time{Time: dawn} }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := newSync("dev")
			before.Status.Conditions = []metav1.Condition{{Type: "Drifted", Status: metav1.ConditionFalse, Reason: "InSync"}}
			after := before.DeepCopy()
			tt.do(after)
			if got := isRelevant(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestTheStatusKeepsWhatIsUnfinished(t *testing.T) {
	records := map[int64]*entry{}
	add := func(from, to int64, phase v1alpha1.PullRequestPhase) {
		for n := from; n <= to; n++ {
			records[n] = &entry{item: v1alpha1.PullRequestStatus{Number: n, Phase: phase}}
		}
	}
	add(1, 1, v1alpha1.PullRequestRollingOut)
	add(2, 2, v1alpha1.PullRequestMerged)
	add(3, 50, v1alpha1.PullRequestPlanned)
	add(51, 90, v1alpha1.PullRequestDone)
	add(91, 91, "")
	got := items(records)
	if len(got) != itemsKept || got[0].Number != 50 || got[49].Number != 1 {
		t.Errorf("%d items, from #%d to #%d", len(got), got[0].Number, got[len(got)-1].Number)
	}
}

func TestNothingOfAPullRequestIsRepeatedUnescaped(t *testing.T) {
	s := newStage(t)
	s.offer(1, sha("a"))
	s.board.open[0].Title, s.board.open[0].Author, s.board.open[0].Head.Name = "<img src=x>", "@all", "](x)"
	s.oracle.plan = func(pr forge.PullRequest) (oraclePlan, error) {
		return oraclePlan{}, &forge.Error{Operation: "reading " + pr.Title + "\n" + pr.Head.Name, Message: pr.Author}
	}
	s.pass()
	s.later(limits.MinBackoff)
	result := s.item(1).Headline
	if strings.Contains(result, "\n") || result == "" {
		t.Errorf("verdict %q", result)
	}
	s.oracle.plan = s.replacing(1)
	s.later(time.Minute)
	for at, c := range s.board.comments {
		if strings.Contains(c.Body+c.Footer+at, "<img") || strings.Contains(c.Body, "@all") {
			t.Errorf("it says %s", c.Body)
		}
	}
}
