package gitlab_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	server "github.com/poolwright/poolwright/provision/sandbox/gitlab"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

var plan = forge.Status{Context: "poolwright/plan (one)", State: forge.Failure, Description: "held"}

const first = "0000000000000000000000000000000000000001"

// set sets the status of a commit.
func set(t *testing.T, f forge.Forge, sha string, s forge.Status) {
	t.Helper()
	if err := f.Status(t.Context(), sha, s); err != nil {
		t.Fatal(err)
	}
}

// states are the references, sources and states of the newest statuses of all pipelines of a commit.
func (l *lab) states(sha string) (out []string) {
	l.Change(func(time.Time) {
		for _, p := range l.Pipelines {
			state := "none"
			for _, s := range l.Statuses {
				if s.PipelineID == p.ID {
					state = s.State
				}
			}
			if p.SHA == sha {
				out = append(out, fmt.Sprintf("%s by %s: %s", p.Ref, p.Source, state))
			}
		}
	})
	return out
}

func (l *lab) pipeline(sha, ref, source string) {
	l.Change(func(time.Time) { l.AddPipeline(sha, ref, source) })
}

func TestAPipelineThatStartsLaterGetsTheStatus(t *testing.T) {
	const ref = "refs/merge-requests/1/head"
	for source, at := range map[string]string{"push": "change-1", "merge_request_event": ref, "web": "change-1"} {
		t.Run(source, func(t *testing.T) {
			l := newLab(t, 2)
			f := l.forge(t)
			before := list(t, f, forge.Listing{})
			set(t, f, first, plan)
			l.pipeline(first, at, source)
			after := list(t, f, before)
			if p := after.Open[0]; after.Unchanged || !p.Updated.After(before.Open[0].Updated) || !slices.Equal(after.Open[1:], before.Open[1:]) {
				t.Errorf("the pipeline is no change of its merge request: %+v", after)
			}
			set(t, f, first, plan)
			want := []string{"change-1 by external: failed", at + " by " + source + ": failed"}
			if diff := cmp.Diff(want, l.states(first)); diff != "" {
				t.Error(diff)
			}
			if at == ref { // a retry of the branch's pipeline
				l.pipeline(first, "change-1", "push")
				set(t, l.forge(t), first, plan)
			}
			l.Counted()
			again := list(t, f, after)
			for _, by := range []forge.Forge{f, f} {
				set(t, by, first, plan)
			}
			if got := writes(l.Counted()); len(got) > 1 || at != ref && len(got) != 0 {
				t.Errorf("it wrote %q", got)
			}
			if rest := list(t, f, again); !rest.Unchanged {
				t.Error("one pipeline is two changes")
			}
		})
	}
}

func TestTheStatusIsSetInThePipelinesOfTheMergeRequest(t *testing.T) {
	for _, tt := range []struct {
		name      string
		pipelines [][2]string // a reference and a source
		edit      func(l *lab)
		want      []string
	}{
		{"there is none", nil, nil, []string{"change-1 by external: failed"}},
		{"duplicate pipelines", [][2]string{{"refs/merge-requests/1/head", "merge_request_event"}, {"change-1", "push"}}, nil,
			[]string{"refs/merge-requests/1/head by merge_request_event: failed", "change-1 by push: failed"}},
		{"a newer one of the same branch", [][2]string{{"change-1", "push"}, {"change-1", "web"}}, nil,
			[]string{"change-1 by push: none", "change-1 by web: failed"}},
		{"a child", [][2]string{{"change-1", "push"}, {"change-1", "parent_pipeline"}}, nil,
			[]string{"change-1 by push: failed", "change-1 by parent_pipeline: none"}},
		{"another branch with the commit", [][2]string{{"copy", "push"}}, nil, []string{"copy by push: none", "change-1 by external: failed"}},
		{"a fork's with the same head", [][2]string{{"refs/merge-requests/2/head", "merge_request_event"}}, func(l *lab) {
			l.mergeRequest(2, func(m *server.MergeRequest) { m.SourceProject, m.SHA = 200, first })
		}, []string{"refs/merge-requests/2/head by merge_request_event: none", "change-1 by external: failed"}},
		{"a fork's that had the head, closed", nil, func(l *lab) {
			l.mergeRequest(2, func(m *server.MergeRequest) { m.SourceProject, m.SHA, m.State = 200, first, "closed" })
		}, []string{"change-1 by external: failed"}},
		{"a fork", [][2]string{{"refs/merge-requests/1/head", "merge_request_event"}}, func(l *lab) {
			l.mergeRequest(1, func(m *server.MergeRequest) { m.SourceProject = 200 })
		}, []string{"refs/merge-requests/1/head by merge_request_event: failed"}},
		{"a fork, merged by a squash", nil, func(l *lab) {
			l.mergeRequest(1, func(m *server.MergeRequest) {
				m.SourceProject, m.State, m.Merged, m.SquashSHA = 200, "merged", m.Updated, strings.Repeat("e", 40)
			})
		}, []string{"refs/merge-requests/1/head by external: failed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, 2)
			if tt.edit != nil {
				tt.edit(l)
			}
			f := l.forge(t)
			listing := list(t, f, forge.Listing{})
			for _, p := range tt.pipelines {
				l.pipeline(first, p[0], p[1])
			}
			list(t, f, listing)
			set(t, f, first, plan)
			set(t, f, first, plan)
			if diff := cmp.Diff(tt.want, l.states(first)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAForkWhoseHeadIsInABranchGetsTheBranchsStatus(t *testing.T) {
	l := newLab(t, 2)
	f := l.forge(t)
	l.mergeRequest(2, func(m *server.MergeRequest) { m.SourceProject, m.SHA = 200, first })
	listing := list(t, f, forge.Listing{})
	l.mergeRequest(1, func(m *server.MergeRequest) { m.State = "closed" }) // its branch stays
	list(t, f, listing)
	set(t, f, first, plan)
	if diff := cmp.Diff([]string{"change-1 by external: failed"}, l.states(first)); diff != "" {
		t.Error(diff)
	}
}

func TestWherePipelinesCannotBeReadTheRestGoesOn(t *testing.T) {
	l := newLab(t, 1)
	l.Change(func(time.Time) {
		l.Before = func(w http.ResponseWriter, r *http.Request) bool {
			refused := strings.HasSuffix(r.URL.Path, "/pipelines")
			if refused {
				server.Refuse(w, http.StatusForbidden, "403 Forbidden")
			}
			return refused
		}
	})
	for range 2 {
		f := l.forge(t)
		if got := list(t, f, forge.Listing{}); len(got.Open) != 1 {
			t.Errorf("got %+v", got)
		}
		set(t, f, first, plan)
	}
	if diff := cmp.Diff([]string{"change-1 by external: failed"}, l.states(first)); diff != "" || len(l.Statuses) != 1 {
		t.Errorf("%d statuses: %s", len(l.Statuses), diff)
	}
}
