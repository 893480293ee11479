package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

func TestAGitServerThatIsDownAtTheFirstStartIsAwaited(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "first")
	s.declare("v1", "a", "b")
	s.repo.commit("Begin")
	s.git.hang()
	s.start()
	s.follow()
	message := func(reason, texts string) {
		t.Helper()
		s.eventually("the Sync says "+texts, func() error {
			ready := meta.FindStatusCondition(s.sync().Status.Conditions, "Ready")
			if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != reason || !strings.Contains(ready.Message, texts) {
				return fmt.Errorf("Ready is %+v", ready)
			}
			return nil
		})
	}
	message("Progressing", "Waiting for the source's first response")
	s.git.down()
	message("SourceUnavailable", "connection refused")
	s.waitForEvent("SourceUnavailable")
	s.git.up()
	s.ready()
	s.holds("a", "v1")
}

// sourceFault is one thing that can be wrong with a source.
type sourceFault struct {
	name    string
	inflict func(*syncFixture)
	mend    func(*syncFixture)
	reason  string
	// message is a part of the message.
	message string
}

var five = []string{"a", "b", "c", "d", "e"}

// endure proves for each trouble: the last good state stays and is kept, nothing
// is pruned, condition and event name the cause, and the end of the trouble is
// noticed within the interval.
func endure(t *testing.T, s *syncFixture, failures []sourceFault, mods ...func(*v1alpha1.Sync)) {
	s.declare("v1", five...)
	s.repo.commit("Begin")
	s.start()
	s.follow(mods...)
	s.ready()
	before := s.census()
	for n, one := range failures {
		ok := t.Run(one.name, func(t *testing.T) {
			s := s.in(t)
			good := s.sync().Status.LastAppliedRevision
			one.inflict(s)
			s.waitForNotReady(one.reason)
			// The first failure may have been cut short by what was done to the server.
			s.eventually("the message holds "+one.message, func() error {
				ready := meta.FindStatusCondition(s.sync().Status.Conditions, "Ready")
				if ready == nil || ready.Reason != one.reason || !strings.Contains(ready.Message, one.message) {
					return fmt.Errorf("Ready is %+v", ready)
				}
				return nil
			})
			if applied := s.sync().Status.LastAppliedRevision; applied != good {
				t.Errorf("%s was applied and is now said to be %s", good, applied)
			}
			if diff := cmp.Diff(before, s.census()); diff != "" {
				t.Errorf("the last good state did not stay (-before +during):\n%s", diff)
			}
			// Another one each time: what is edited again and again is left alone.
			s.edit(five[n], `{"data":{"value":"by hand"}}`)
			s.holds(five[n], "v1")
			one.mend(s)
			mended := time.Now()
			s.ready()
			t.Logf("recovered %s after the trouble ended, with an interval of %s", since(mended), interval)
			if diff := cmp.Diff(before, s.census()); diff != "" {
				t.Errorf("not the same objects (-before +after):\n%s", diff)
			}
		})
		if !ok {
			return
		}
	}
}

func TestAFailingServerLeavesTheLastGoodState(t *testing.T) {
	t.Parallel()
	mend := func(s *syncFixture) { s.git.mend() }
	endure(t, newSyncFixture(t, "server"), []sourceFault{
		{"it is down", func(s *syncFixture) { s.git.down() }, func(s *syncFixture) { s.git.up() }, "SourceUnavailable", "connection refused"},
		{"it breaks off", func(s *syncFixture) {
			s.git.respond(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		}, mend, "SourceUnavailable", "closed the connection"},
		{"it fails", func(s *syncFixture) {
			s.git.respond(func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "no database", http.StatusInternalServerError)
			})
		}, mend, "SourceUnavailable", "500"},
		{"it is something else", func(s *syncFixture) {
			s.git.respond(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte("<html>Under construction</html>"))
			})
		}, mend, "SourceCorrupt", "not that of a Git server"},
		{"it repeats the credentials that it got", func(s *syncFixture) {
			s.git.respond(func(w http.ResponseWriter, r *http.Request) {
				user, password, _ := r.BasicAuth()
				http.Error(w, user+":"+password+" "+r.Header.Get("Authorization"), http.StatusForbidden)
			})
		}, mend, "AuthenticationFailed", "forbids"},
	})
}

func TestWrongCredentialsLeaveTheLastGoodState(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "password")
	s.hide("a-wrong-password-0451")
	right := func(s *syncFixture) { s.credentials(s.token) }
	endure(t, s, []sourceFault{
		{"the password is wrong", func(s *syncFixture) { s.credentials("a-wrong-password-0451") }, right, "AuthenticationFailed", "refuses the configured credentials"},
		{"the password is empty", func(s *syncFixture) { s.credentials("") }, right, "AuthenticationFailed", "no key password"},
		{"the Secret is gone", func(s *syncFixture) { s.dropCredentials() }, right, "AuthenticationFailed", "Secret git"},
	})
}

func TestABrokenRepositoryLeavesTheLastGoodState(t *testing.T) {
	t.Parallel()
	restore := func(s *syncFixture) {
		s.declare("v1", five...)
		s.repo.commit("Restore")
	}
	s := newSyncFixture(t, "repository")
	address := s.servesMetrics()
	endure(t, s, []sourceFault{
		{"the branch is deleted", func(s *syncFixture) { s.repo.push(":refs/heads/" + s.repo.branch) }, func(s *syncFixture) {
			s.awaitSeries(s.eventually, address, "PoolwrightSyncNotReady")
			s.awaitSeries(s.eventually, address, "poolwright_sync_failures_total")
			restore(s)
		}, "ReferenceNotFound", "live"},
		{"the path is missing", func(s *syncFixture) {
			s.repo.remove("config")
			s.repo.write("elsewhere/README.md", "moved")
			s.repo.commit("Move everything")
		}, restore, "PathNotFound", `"config" is not in the repository`},
		{"all manifests are removed", func(s *syncFixture) {
			s.repo.remove("config")
			s.repo.write("config/README.md", "empty")
			s.repo.commit("Remove all manifests")
		}, restore, "NoManifests", "declares no object"},
		{"the tree is empty", func(s *syncFixture) {
			s.repo.remove("config", "elsewhere")
			s.repo.commit("Remove everything")
		}, restore, "PathNotFound", "config"},
		{"the repository is made anew and has no commit", func(s *syncFixture) { s.recreate() }, restore, "RepositoryEmpty", "push a commit"},
	})
}

func TestAServerThatSendsNothingDelaysNothing(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "silent")
	s.declare("v1", "a", "b")
	s.repo.commit("Begin")
	s.start()
	s.follow()
	s.ready()
	s.git.hang()
	s.eventually("the controller has sent a request and waits", func() error { return more(s.git.waiting(), 0) })
	hung := s.git.requests()
	s.edit("a", `{"data":{"value":"by hand"}}`)
	s.holds("a", "v1")
	// A fetch is given up after half a minute: what is done by now, was done meanwhile.
	if s.git.waiting() == 0 {
		t.Error("drift was put back only when the fetch had been given up")
	}
	s.change(func(sync *v1alpha1.Sync) { sync.Spec.Suspend = true })
	s.observed()
	if more := s.git.requests() - hung; more > 0 {
		t.Errorf("the suspension was observed only after %d requests more", more)
	}
	s.change(func(sync *v1alpha1.Sync) { sync.Spec.Suspend = false })
	if message := s.waitForNotReady("SourceUnavailable"); !strings.Contains(message, "sent nothing") {
		t.Errorf("the message does not say what happened: %s", message)
	}
	s.repo.write("config/a.yaml", s.configMap("a", "v2"))
	s.repo.commit("Change a")
	s.git.mend()
	s.ready()
	s.holds("a", "v2")
}

func TestASlowServerIsOnlySlow(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "slow")
	forward := s.git.forward
	s.git.respond(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(2 * time.Second):
			forward.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	})
	s.declare("v1", "a")
	s.repo.commit("Begin")
	s.start()
	s.follow()
	s.ready()
	s.repo.write("config/a.yaml", s.configMap("a", "v2"))
	s.repo.commit("Change a")
	s.ready()
	s.holds("a", "v2")
}
