package e2e

import (
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/sandbox/signtest"
	"github.com/poolwright/poolwright/provision/sandbox/sshtest"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// commitSigner signs what go-git commits.
type commitSigner struct{ key signtest.Key }

// Sign implements git.Signer.
func (c commitSigner) Sign(message io.Reader) ([]byte, error) {
	content, err := io.ReadAll(message)
	if err != nil {
		return nil, err
	}
	return c.key.Signature(content), nil
}

// TestOnlySignedRevisionsAreApplied: a revision that is not signed deletes nothing, and the last one that is stays,
// also for a process that begins with an empty cache.
func TestOnlySignedRevisionsAreApplied(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "signed")
	ada := signtest.SSH(t, sshtest.NewKey(t, sshtest.ED25519).Signer)
	s.repo.signer = commitSigner{ada}
	s.declare("v1", five...)
	s.repo.commit("Begin")
	first := s.start()
	s.follow()
	s.ready()
	s.requiresSignatures(signtest.Files(ada))
	good := s.ready().Status.LastAppliedRevision
	before := s.census()
	stays := func() {
		t.Helper()
		if applied := s.sync().Status.LastAppliedRevision; applied != good {
			t.Errorf("%s was applied, and %s is", good, applied)
		}
		if diff := cmp.Diff(before, s.census()); diff != "" {
			t.Errorf("the last verified state did not stay (-before +during):\n%s", diff)
		}
	}

	s.repo.signer = nil
	s.declare("v2", five[0])
	for _, name := range five[1:] {
		s.repo.remove("config/" + name + ".yaml")
	}
	s.repo.commit("Delete without a signature")
	unsigned := s.repo.committed
	if message := s.waitForNotReady("InvalidCommitSignature"); !strings.Contains(message, unsigned) || !strings.Contains(message, good+" stays applied") {
		t.Errorf("the message lacks a revision: %s", message)
	}
	if event := s.waitForEvent("InvalidCommitSignature"); !strings.Contains(event, unsigned) {
		t.Errorf("the event is %s", event)
	}
	stays()
	s.edit("a", `{"data":{"value":"by hand"}}`)
	s.holds("a", "v1")

	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	s.deleteLease()
	s.edit("b", `{"data":{"value":"by hand"}}`)
	s.start()
	s.holds("b", "v1")
	stays()

	// A signature on top of it is of no use in this mode.
	s.repo.signer = commitSigner{ada}
	s.declare("v3", five...)
	s.repo.commit("Sign what is above")
	s.eventually("the one below is refused", func() error {
		s.waitForNotReady("InvalidCommitSignature")
		return nil
	})
	stays()
	s.change(func(sync *v1alpha1.Sync) { sync.Spec.Source.Git.Verify.Mode = v1alpha1.GitVerificationHEAD })
	s.ready()
	s.holds("a", "v3")
}

// requiresSignatures follows the how-to guide until the revision is verified, with the files of somebody's public keys.
func (s *syncFixture) requiresSignatures(keys map[string][]byte) {
	s.Helper()
	flags := make([]string, 0, len(keys))
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		s.repo.write(name, string(keys[name]))
		defer s.repo.remove(name)
		flags = append(flags, "--from-file="+name)
	}
	u := newShell(s.fixture, s.repo, "-n poolwright-system", "-n "+s.system, "sync dev", "sync "+s.name, "sync/dev", "sync/"+s.name,
		"--from-file=ada.asc --from-file=rob.sshpub", strings.Join(flags, " "))
	p := newPage(s.T, "howto/verify-signatures.md")
	u.block(p.take("kubectl -n poolwright-system create secret"), exitCode{0})
	u.block(p.take("kubectl -n poolwright-system patch"), exitCode{0})
	u.block(p.take("kubectl -n poolwright-system wait"), exitCode{0})
}
