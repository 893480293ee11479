package syncpolicy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
)

const (
	here  = "1111111111111111111111111111111111111111"
	there = "2222222222222222222222222222222222222222"
)

func TestWhatABranchWasFollowedTo(t *testing.T) {
	main := v1alpha1.GitRef{Branch: "main"}
	tests := map[string]struct {
		attempted, from string
		ref             v1alpha1.GitRef
		want            string
	}{
		"the commit of the status":               {"main@sha1:" + here, "https://host/a", main, here},
		"without a reference it is main":         {"main@sha1:" + here, "https://host/a", v1alpha1.GitRef{}, here},
		"a branch may be called like a revision": {"a@sha1:b@sha1:" + here, "https://host/a", v1alpha1.GitRef{Branch: "a@sha1:b"}, here},
		"an older version noted no address":      {"main@sha1:" + here, "", main, here},
		"nothing before the first":               {"", "", main, ""},
		"nothing when the repository is another": {"main@sha1:" + here, "https://host/b", main, ""},
		"nothing when the branch is another":     {"other@sha1:" + here, "https://host/a", main, ""},
		"nothing when a commit was followed":     {"sha1:" + here, "https://host/a", main, ""},
		"nothing when a tag is followed":         {"v1@sha1:" + here, "https://host/a", v1alpha1.GitRef{Tag: "v1"}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			sync := &v1alpha1.Sync{Status: v1alpha1.SyncStatus{LastAttemptedRevision: tt.attempted, LastAttemptedURL: tt.from}}
			sync.Spec.Source.Git = v1alpha1.GitSource{URL: "https://host/a", Ref: tt.ref}
			if diff := cmp.Diff(tt.want, LastFollowedCommit(sync)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNothingIsFollowedByASourceOfFlux(t *testing.T) {
	sync := &v1alpha1.Sync{Status: v1alpha1.SyncStatus{LastAttemptedRevision: "main@sha1:" + here}}
	sync.Spec.SourceRef = &v1alpha1.CrossNamespaceSourceReference{Kind: "GitRepository", Name: "nodes"}
	if got := LastFollowedCommit(sync); got != "" {
		t.Errorf("followed is %q", got)
	}
	// And back to Git, which has another address.
	sync.Status.LastAttemptedURL = sync.Address()
	sync.Spec.SourceRef, sync.Spec.Source.Git.URL = nil, "https://host/a"
	if got := LastFollowedCommit(sync); got != "" {
		t.Errorf("followed is %q", got)
	}
}

func TestWhatAllowsAForcePush(t *testing.T) {
	in := func(from, to string, binding confirm.Binding) string { return ForcePushToken(from, to).Encode(binding) }
	token := in(here, there, confirm.Binding{UID: "a"})
	tests := map[string]struct {
		only      *bool
		confirmed string
		want      bool
	}{
		"nobody, by default":                 {nil, "", false},
		"nobody, where the Sync declares so": {new(true), "", false},
		"the Sync":                           {new(false), "", true},
		"who quotes the token":               {nil, token, true},
		"who quotes it among others":         {nil, "abc, " + token, true},
		"not who quotes another":             {nil, "abc", false},
		"not who accepted the way back":      {nil, in(there, here, confirm.Binding{UID: "a"}), false},
		"not who quotes a part of it":        {nil, token[:11], false},
		"not who quotes another Sync's":      {nil, in(here, there, confirm.Binding{UID: "b"}), false},
		"not who quotes it once more":        {nil, in(here, there, confirm.Binding{UID: "a", Handled: token}), false},
		"not who names the commit instead":   {nil, there, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{UID: "a", Annotations: map[string]string{v1alpha1.ConfirmAnnotation: tt.confirmed}}}
			sync.Spec.Source.Git.FastForwardOnly = tt.only
			if got := AllowsForcePush(sync, here, there); got != tt.want {
				t.Errorf("allowed: %v", got)
			}
		})
	}
}
