package artifact

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"

	"github.com/poolwright/poolwright/gitsource"
)

// limited is a source whose disk has so many granules.
func (s *server) limited(dir string, granules int64) (*Source, *budget) {
	source, disk := s.source(dir), &budget{left: granules * granule}
	source.config.Disk, source.store.disk = disk, disk
	return source, disk
}

// fetch fetches a revision with a file of the given content.
func (s *server) fetch(t *testing.T, source *Source, revision, content string) error {
	t.Helper()
	s.publish(revision, archive(t, file("a", content)))
	got, err := source.Fetch(t.Context())
	if err == nil && (got.Revision != revision || contents(t, got.FS)["a"] != content) {
		t.Errorf("fetched is %q", got.Revision)
	}
	return err
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestAnArtifactThatCannotBeRecordedLeavesNothingOnDisk(t *testing.T) {
	s, dir := newServer(t), t.TempDir()
	source, _ := s.limited(dir, 5) // Of the second one all but the record.
	if err := s.fetch(t, source, "r1", "1"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.fetch(t, source, "r2", "2"); !errors.Is(err, gitsource.ErrStorage) {
			t.Errorf("got %v", err)
		}
		if left := names(t, dir); len(left) != 2 {
			t.Errorf("left behind: %q", left)
		}
	}
	if last, ok := source.Last(t.Context()); !ok || last.Revision != "r1" || contents(t, last.FS)["a"] != "1" {
		t.Errorf("kept is %q, %t", last.Revision, ok)
	}
}

func TestWhatAnEarlierProcessLeftIsRemovedBeforeAnythingIsWritten(t *testing.T) {
	s, dir := newServer(t), t.TempDir()
	if err := s.fetch(t, s.source(dir), "r1", "1"); err != nil {
		t.Fatal(err)
	}
	leave := func() {
		for _, name := range []string{"tmp-1", "content-1.zip"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	leave()
	if _, ok := s.source(dir).Last(t.Context()); !ok || len(names(t, dir)) != 2 {
		t.Errorf("kept: %t, left: %q", ok, names(t, dir))
	}
	leave()
	other := New(Config{Name: "Bucket flux-system/other", Resolve: s.resolve, Dir: dir})
	if _, ok := other.Last(t.Context()); ok || len(names(t, dir)) != 0 {
		t.Errorf("another source has kept: %t, left: %q", ok, names(t, dir))
	}
}

func TestTheAppliedRevisionIsKeptBesideManyWithTheSameFiles(t *testing.T) {
	s, dir := newServer(t), t.TempDir()
	followed := func(context.Context) (LastRevisions, error) { return LastRevisions{Attempted: "", Applied: "r0"}, nil }
	source := s.source(dir)
	source.config.LastRevisions = followed
	for i, content := range []string{"applied", "1", "2", "2", "2", "2"} {
		if err := s.fetch(t, source, fmt.Sprintf("r%d", i), content); err != nil {
			t.Fatal(err)
		}
	}
	next := s.source(dir)
	next.config.LastRevisions = followed
	if got, ok := next.Earlier(t.Context(), "r0", ""); !ok || contents(t, got.FS)["a"] != "applied" {
		t.Errorf("r0 is kept: %t", ok)
	}
	if kept := len(next.kept); kept > maxKept {
		t.Errorf("%d versions are kept", kept)
	}
}

func TestWhereItIsUnknownWhichIsAppliedAllAreKept(t *testing.T) {
	s, dir := newServer(t), t.TempDir()
	source := s.source(dir)
	away := errors.New("the API server is away")
	source.config.LastRevisions = func(context.Context) (LastRevisions, error) { return LastRevisions{Attempted: "", Applied: ""}, away }
	for i := range 5 {
		if err := s.fetch(t, source, fmt.Sprintf("r%d", i), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := s.source(dir).Earlier(t.Context(), "r0", ""); !ok {
		t.Error("r0 is not kept")
	}
}

func TestAReturnToAnArtifactThatIsKeptNeedsNoDisk(t *testing.T) {
	s, dir := newServer(t), t.TempDir()
	source, disk := s.limited(dir, 6)
	for _, revision := range []string{"a", "b", "a"} {
		if err := s.fetch(t, source, revision, revision); err != nil {
			t.Fatal(err)
		}
	}
	if last, ok := source.Last(t.Context()); !ok || last.Revision != "a" {
		t.Errorf("the last is %q, %t", last.Revision, ok)
	}
	// It is recorded once there is room.
	disk.left = granule
	if err := s.fetch(t, source, "a", "a"); err != nil {
		t.Fatal(err)
	}
	if last, ok := s.source(dir).Last(t.Context()); !ok || last.Revision != "a" {
		t.Errorf("after a restart the last is %q, %t", last.Revision, ok)
	}
}

func TestARefusalIsKeptOnlyOfWhatHasTheDigest(t *testing.T) {
	good, unsafe := archive(t, file("a", "1")), archive(t, file("../a", "1"))
	for name, sent := range map[string][]byte{
		"another archive, which is unsafe": unsafe,
		"more than the limit":              []byte(strings.Repeat("0", 1<<20+1)),
	} {
		s := newServer(t)
		s.publish("r", sent)
		s.set(func(a *fluxmeta.Artifact) { a.Digest = digestOf(good) })
		source := s.source(t.TempDir())
		if _, err := source.Fetch(t.Context()); err == nil {
			t.Errorf("%s: it is taken", name)
		}
		s.publish("r", good)
		if _, err := source.Fetch(t.Context()); err != nil {
			t.Errorf("%s: and then: %v", name, err)
		}
	}
}

func TestARevisionThatCannotBeShownIsRefused(t *testing.T) {
	long := strings.Repeat("r", maxRevision)
	for revision, want := range map[string]error{
		"": gitsource.ErrInvalid, long + "r": gitsource.ErrInvalid, "a\nb": gitsource.ErrInvalid, "a\x1b[2J": gitsource.ErrInvalid, "a\xff": gitsource.ErrInvalid, "a\u202eb": gitsource.ErrInvalid,
		long: nil, "release/ü@sha1:0": nil,
	} {
		s := newServer(t)
		s.publish("r", archive(t, file("a", "1")))
		s.set(func(a *fluxmeta.Artifact) { a.Revision = revision })
		_, err := s.source(t.TempDir()).Fetch(t.Context())
		if !errors.Is(err, want) || want == nil && err != nil || want != nil && s.count() > 0 {
			t.Errorf("%.20q, after %d requests: %v", revision, s.count(), err)
		}
		if err != nil && len(err.Error()) > 2*maxRevision {
			t.Errorf("the message has %d bytes", len(err.Error()))
		}
	}
}

func TestOtherFilesOfOneRevisionAreAnotherArtifact(t *testing.T) {
	s, dir := newServer(t), t.TempDir()
	source, followed := s.source(dir), LastRevisions{Attempted: "r", Applied: "r"}
	source.config.LastRevisions = func(context.Context) (LastRevisions, error) { return followed, nil }
	s.publish("r", archive(t, file("a", "1")))
	applied, err := source.Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	followed.AppliedTreeID = applied.TreeID
	for _, content := range []string{"2", "3", "4", "5"} {
		if err := s.fetch(t, source, "r", content); err != nil {
			t.Fatal(err)
		}
	}
	next := s.source(dir)
	next.config.LastRevisions = source.config.LastRevisions
	if got, ok := next.Earlier(t.Context(), "r", applied.TreeID); !ok || contents(t, got.FS)["a"] != "1" {
		t.Errorf("the applied files are kept: %t", ok)
	}
	if got, ok := next.Earlier(t.Context(), "r", ""); !ok || contents(t, got.FS)["a"] != "5" {
		t.Errorf("the newest files are kept: %t", ok)
	}
	// Without the source only what was applied is known to be so.
	if got, ok := next.Last(t.Context()); !ok || contents(t, got.FS)["a"] != "1" {
		t.Errorf("the last is another one, %t", ok)
	}
	followed.AppliedTreeID = "of another replica"
	if got, ok := next.Last(t.Context()); ok {
		t.Errorf("the last is %q", got.TreeID)
	}
}
