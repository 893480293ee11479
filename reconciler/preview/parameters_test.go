package preview

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/report"
)

const gpuParameter = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/nvidia/recommended/image_id"

// Who reads the comment of a pull request sees which image its merge takes.
func TestACommentListsTheValuesOfParameters(t *testing.T) {
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: "dev", Namespace: "poolwright"}}
	sync.Spec.SubstituteFrom = []v1alpha1.SubstituteReference{{Kind: v1alpha1.SubstituteSSMParameter, Name: gpuParameter, Variable: "GPU"}}
	sync.Status.Parameters = []v1alpha1.PinnedParameter{
		{Variable: "GPU", Name: gpuParameter, Value: "ami-1", PinnedAt: metav1.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC), Latest: "ami-2"},
		{Variable: "LEFT", Name: gpuParameter, Value: "ami-0"},
	}
	was := poolItem("gpu", 1)
	p := steps{mergeBase: loaded(was), base: loaded(was), head: loaded(poolItem("gpu", 2)), live: liveItems(was)}.proposer()
	got, _, err := p.Preview(t.Context(), RevisionRange{Comparison: between(), BaseName: "main", Path: "p", Sync: sync})
	if err != nil {
		t.Fatal(err)
	}
	var comment strings.Builder
	if err := got.Markdown(&comment, report.Options{HoursPerDay: 24}); err != nil {
		t.Fatal(err)
	}
	for _, texts := range []string{"Notes (1)", "${GPU} is ami-1, from SSM parameter " + gpuParameter + " on 2026-11-22", "the newest is ami-2"} {
		if !strings.Contains(strings.ReplaceAll(comment.String(), `\`, ""), texts) {
			t.Errorf("the comment does not say %q:\n%s", texts, comment.String())
		}
	}
}
