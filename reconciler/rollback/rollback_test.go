package rollback

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

const commit = "0123456789012345678901234567890123456789"

func following(ref v1alpha1.GitRef, annotations map[string]string) *v1alpha1.Sync {
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: "poolwright-system", Name: "edge", Annotations: annotations}}
	sync.Spec.Source.Git = v1alpha1.GitSource{URL: "https://git.example.com/nodes.git", Ref: ref}
	return sync
}

func TestASyncFollowsTheCommitThatItIsRolledBackTo(t *testing.T) {
	back := map[string]string{v1alpha1.RollbackAnnotation: commit}
	for name, tt := range map[string]struct {
		sync     *v1alpha1.Sync
		want     v1alpha1.GitRef
		revision string
	}{
		"not rolled back":        {following(v1alpha1.GitRef{Branch: "dev"}, nil), v1alpha1.GitRef{Branch: "dev"}, ""},
		"an empty annotation":    {following(v1alpha1.GitRef{Tag: "v1"}, map[string]string{v1alpha1.RollbackAnnotation: ""}), v1alpha1.GitRef{Tag: "v1"}, ""},
		"a branch":               {following(v1alpha1.GitRef{Branch: "dev"}, back), v1alpha1.GitRef{Branch: "dev", Commit: commit}, "dev@sha1:" + commit},
		"the branch by default":  {following(v1alpha1.GitRef{}, back), v1alpha1.GitRef{Branch: "main", Commit: commit}, "main@sha1:" + commit},
		"a tag":                  {following(v1alpha1.GitRef{Tag: "v1"}, back), v1alpha1.GitRef{Commit: commit}, "sha1:" + commit},
		"a commit by annotation": {following(v1alpha1.GitRef{Commit: strings.Repeat("a", 40)}, back), v1alpha1.GitRef{Commit: commit}, "sha1:" + commit},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, Ref(tt.sync)); d != "" || Revision(tt.sync) != tt.revision {
				t.Errorf("revision %q, reference %s", Revision(tt.sync), d)
			}
			want := tt.sync.Spec.Source
			want.Git.Ref = tt.want
			if d := cmp.Diff(want, Source(tt.sync)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestWhatASyncIsRolledBackToIsACommitInFull(t *testing.T) {
	branch := v1alpha1.GitRef{Branch: "main"}
	deleted := following(branch, nil)
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	ofFlux := following(v1alpha1.GitRef{}, nil)
	ofFlux.Spec.SourceRef = &v1alpha1.CrossNamespaceSourceReference{Kind: "GitRepository", Name: "infra"}
	signed := func(mode v1alpha1.GitVerificationMode, ref v1alpha1.GitRef) *v1alpha1.Sync {
		out := following(ref, nil)
		out.Spec.Source.Git.Verify = &v1alpha1.GitVerification{Mode: mode}
		return out
	}
	tag := v1alpha1.GitRef{Tag: "v1"}
	for name, tt := range map[string]struct {
		sync *v1alpha1.Sync
		to   string
		// want is the annotation, or what the error has where that is empty.
		want, refused string
	}{
		"a commit":                          {following(branch, nil), commit, commit, ""},
		"a revision of the status":          {following(branch, nil), "main@sha1:" + commit, commit, ""},
		"a revision of a commit":            {following(branch, nil), "sha1:" + commit, commit, ""},
		"a commit in upper case":            {following(branch, nil), strings.Repeat("AB", 20), strings.Repeat("ab", 20), ""},
		"a commit, of a tag":                {following(v1alpha1.GitRef{Tag: "v1"}, nil), commit, commit, ""},
		"the beginning of a commit":         {following(branch, nil), "0123456", "", "git rev-parse 0123456"},
		"a branch":                          {following(branch, nil), "main~1", "", "git rev-parse main~1"},
		"no revision":                       {following(branch, nil), "", "", "--to"},
		"a commit, instead of another":      {following(v1alpha1.GitRef{Commit: commit}, nil), commit, "", "spec.source.git.ref.commit"},
		"a commit, while it is deleted":     {deleted, commit, "", "being deleted"},
		"a commit, of a source of Flux":     {ofFlux, commit, "", "GitRepository/poolwright-system/infra"},
		"a commit that has to be signed":    {signed(v1alpha1.GitVerificationHEAD, branch), commit, commit, ""},
		"a commit, where every one has to":  {signed(v1alpha1.GitVerificationEveryCommit, branch), commit, "", "mode to HEAD"},
		"a commit, where tags have to":      {signed(v1alpha1.GitVerificationTag, tag), commit, "", "ref.tag"},
		"a commit, where both have to":      {signed(v1alpha1.GitVerificationTagAndHEAD, tag), commit, "", "ref.tag"},
		"a commit with something behind it": {following(branch, nil), commit + "0", "", "40 digits"},
	} {
		t.Run(name, func(t *testing.T) {
			change, err := To(tt.sync, tt.to, "")
			if tt.want == "" {
				if !errors.Is(err, ErrRevision) || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			change(tt.sync)
			if got := Of(tt.sync); got != tt.want {
				t.Errorf("rolled back to %q", got)
			}
		})
	}
}

func TestTheReasonOfARollbackIsThatOfTheNewestOne(t *testing.T) {
	sync := following(v1alpha1.GitRef{}, map[string]string{"team": "gpu"})
	for _, reason := range []string{"the driver of 550 hangs\x1b[2J", ""} {
		change, err := To(sync, commit, reason)
		if err != nil {
			t.Fatal(err)
		}
		change(sync)
		if Reason(sync) != strings.ReplaceAll(reason, "\x1b", `\x1b`) || !strings.Contains(Message(sync), Reason(sync)) {
			t.Errorf("the reason is %q in %q", Reason(sync), Message(sync))
		}
	}
	End(sync)
	if d := cmp.Diff(map[string]string{"team": "gpu"}, sync.Annotations); d != "" || Message(sync) != "" || Reason(sync) != "" {
		t.Error(d)
	}
}

func TestASyncHasAConditionWhileItIsRolledBack(t *testing.T) {
	sync := following(v1alpha1.GitRef{}, map[string]string{v1alpha1.RollbackAnnotation: commit, v1alpha1.RollbackReasonAnnotation: "nodes hang"})
	Mark(sync)
	c := conditions.Get(sync, Condition)
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason != "RolledBack" {
		t.Fatalf("condition %+v", c)
	}
	for _, part := range []string{"main@sha1:" + commit, "nodes hang", "poolwright resume edge -n poolwright-system"} {
		if !strings.Contains(c.Message, part) {
			t.Errorf("message %q lacks %q", c.Message, part)
		}
	}
	End(sync)
	Mark(sync)
	if conditions.Has(sync, Condition) {
		t.Error("it has the condition afterwards")
	}
}

// A Sync may have the annotation from the time before it followed a source of Flux, and would be rolled back
// again once it does so no more.
func TestASyncThatFollowsASourceOfFluxIsNotRolledBackAndReportsTheAnnotation(t *testing.T) {
	sync := following(v1alpha1.GitRef{}, map[string]string{v1alpha1.RollbackAnnotation: commit, v1alpha1.RollbackReasonAnnotation: "nodes hang"})
	sync.Spec.SourceRef = &v1alpha1.CrossNamespaceSourceReference{Kind: "GitRepository", Name: "infra"}
	Mark(sync)
	if Of(sync) != "" || Revision(sync) != "" || Reason(sync) != "" || Message(sync) != "" {
		t.Errorf("it is rolled back to %q: %s", Of(sync), Message(sync))
	}
	c := conditions.Get(sync, Condition)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != ReasonUnsupportedSource || c.Message != Refused(sync) {
		t.Fatalf("condition %+v", c)
	}
	for _, part := range []string{v1alpha1.RollbackAnnotation, "GitRepository/poolwright-system/infra", "poolwright resume edge -n poolwright-system"} {
		if !strings.Contains(c.Message, part) {
			t.Errorf("message %q lacks %q", c.Message, part)
		}
	}
	End(sync)
	Mark(sync)
	if conditions.Has(sync, Condition) || Refused(sync) != "" {
		t.Error("it has the condition without the annotation")
	}
}

func TestNoAnnotationIsRefusedOfASyncThatFollowsARepository(t *testing.T) {
	if why := Refused(following(v1alpha1.GitRef{}, map[string]string{v1alpha1.RollbackAnnotation: commit})); why != "" {
		t.Error(why)
	}
}
