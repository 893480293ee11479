package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestOutagesOfDependenciesAreOutlived takes parts of the environment that all tests
// share away, so it runs alone.
func TestOutagesOfDependenciesAreOutlived(t *testing.T) {
	s := newSyncFixture(t, "outage")
	s.declare("v1", five...)
	s.repo.commit("Begin")
	c := s.start()
	s.follow()
	s.ready()
	before := s.census()
	for _, one := range []struct {
		name string
		do   func(*syncFixture)
	}{
		{"the Git server is stopped and started", func(s *syncFixture) {
			if err := sharedEnv.Git.Pause(s.Context()); err != nil {
				s.Fatal(err)
			}
			s.waitForNotReady("SourceUnavailable")
			s.uproot("a")
			s.holds("a", "v1")
			before["a"] = s.census()["a"]
			if err := sharedEnv.Git.Resume(s.Context()); err != nil {
				s.Fatal(err)
			}
			s.ready()
		}},
		{"the API server is killed and started", func(s *syncFixture) {
			if err := sharedEnv.KillAPIServer(); err != nil {
				s.Fatal(err)
			}
			s.repo.write("config/b.yaml", s.configMap("b", "v2"))
			s.repo.commit("Change b while nobody can apply it")
			ctx, cancel := context.WithTimeout(s.Context(), 2*waitTimeout)
			defer cancel()
			if err := sharedEnv.StartAPIServer(ctx); err != nil {
				s.Fatal(err)
			}
			s.holds("b", "v2")
			s.ready()
			s.edit("c", `{"data":{"value":"by hand"}}`)
			s.holds("c", "v1")
		}},
	} {
		t.Run(one.name, func(t *testing.T) {
			s := s.in(t)
			one.do(s)
			if diff := cmp.Diff(before, s.census()); diff != "" {
				t.Errorf("not the same objects (-before +after):\n%s", diff)
			}
		})
	}
	for _, write := range c.api.take() {
		if strings.HasPrefix(write, "DELETE ") {
			t.Errorf("something was deleted: %s", write)
		}
	}
}

// longer is how long an API server must be away so that no controller can keep
// its lease.
const longer = 17 * time.Second

func TestALongOutageOfTheAPIServerLosesNothing(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "blind")
	s.declare("v1", five...)
	s.repo.commit("Begin")
	c := s.start()
	s.follow()
	s.ready()
	c.api.take()
	c.api.away(true)
	away := time.Now()
	s.edit("a", `{"data":{"value":"by hand"}}`)
	s.uproot("b")
	s.repo.write("config/c.yaml", s.configMap("c", "v2"))
	s.repo.remove("config/d.yaml")
	s.repo.commit("Change c and remove d while nobody sees it")
	before := s.census()
	s.eventually("the outage has lasted", func() error {
		if left := longer - time.Since(away); left > 0 {
			return context.DeadlineExceeded
		}
		return nil
	})
	if diff := cmp.Diff(before, s.census()); diff != "" {
		t.Fatalf("somebody else is at work (-before +after):\n%s", diff)
	}
	c.api.away(false)
	s.holds("a", "v1")
	s.holds("b", "v1")
	s.holds("c", "v2")
	s.gone("d")
	s.ready()
	after := s.census()
	for name, uid := range before {
		if name != "d" && after[name] != uid {
			t.Errorf("%s was made anew", name)
		}
	}
	deletes := beyond(c.api.take(), func(w string) bool { return !strings.HasPrefix(w, "DELETE ") })
	if diff := cmp.Diff([]string{"DELETE /api/v1/namespaces/" + s.apps + "/configmaps/d"}, deletes); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}
}
