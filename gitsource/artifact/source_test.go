package artifact

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/gitsource"
)

const firstCommit = "main@sha1:0123456789012345678901234567890123456789"

func TestAnArtifactIsReadAsATree(t *testing.T) {
	s := newServer(t)
	executable := file("./hack/run.sh", "echo")
	executable.Mode = 0o755
	s.publish(firstCommit, archive(t, folder("./"), folder("clusters"), file("clusters/a.yaml", "a"), file("clusters/deep/er/b.yaml", "b"), folder("empty"), executable))
	snapshot, err := s.source(t.TempDir()).Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if snapshot.Revision != firstCommit || snapshot.Commit != "0123456789012345678901234567890123456789" {
		t.Errorf("revision %q, commit %q", snapshot.Revision, snapshot.Commit)
	}
	want := map[string]string{"clusters/a.yaml": "a", "clusters/deep/er/b.yaml": "b", "hack/run.sh": "echo"}
	if diff := cmp.Diff(want, contents(t, snapshot.FS)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if err := fstest.TestFS(snapshot.FS, "clusters/a.yaml", "clusters/deep/er/b.yaml", "hack/run.sh"); err != nil {
		t.Error(err)
	}
	ids := snapshot.FS.(gitsource.Identifier)
	a, err := ids.ContentID("clusters/a.yaml")
	b, err2 := ids.ContentID("clusters/deep/er/b.yaml")
	if err != nil || err2 != nil || a == b {
		t.Errorf("ids %q and %q, %v, %v", a, b, err, err2)
	}
	if _, err := ids.ContentID("clusters"); err == nil {
		t.Error("a folder has the id of a content")
	}
}

// Flux's CLI records the revision in Git in the manifest of an OCI artifact, which source-controller has in the metadata.
func TestAnArtifactHasTheRevisionFromWhichItWasMade(t *testing.T) {
	s, dir := newServer(t), t.TempDir()
	s.publish("latest@sha256:1", archive(t, file("a", "1")))
	source := s.source(dir)
	for _, tt := range []struct{ name, recorded, want string }{
		{"none", "", ""},
		{"a commit of a branch", "main@sha1:1", "main@sha1:1"},
		{"another one, of the same files", "main@sha1:2", "main@sha1:2"},
		{"one that cannot be printed", "main\x1b[2K", ""},
		{"one that is no UTF-8", "main\xff", ""},
		{"one without an end", strings.Repeat("x", maxRevision+1), ""},
		{"a tag", "v1.0.0@sha1:3", "v1.0.0@sha1:3"},
	} {
		s.set(func(a *fluxmeta.Artifact) {
			a.Metadata = map[string]string{"org.opencontainers.image.revision": tt.recorded, "org.opencontainers.image.source": "x"}
		})
		got, err := source.Fetch(t.Context())
		if err != nil || got.OriginRevision != tt.want || got.Revision != "latest@sha256:1" {
			t.Errorf("%s: %q of %q, %v", tt.name, got.OriginRevision, got.Revision, err)
		}
	}
	if got, ok := s.source(dir).Last(t.Context()); !ok || got.OriginRevision != "v1.0.0@sha1:3" {
		t.Errorf("after a restart it is %q", got.OriginRevision)
	}
	s.publish("latest@sha256:2", archive(t, file("a", "2")))
	s.set(func(a *fluxmeta.Artifact) {
		a.Metadata = map[string]string{"org.opencontainers.image.revision": "main@sha1:4"}
	})
	if got, err := source.Fetch(t.Context()); err != nil || got.OriginRevision != "main@sha1:4" {
		t.Errorf("of the next artifact it is %q, %v", got.OriginRevision, err)
	}
}

func TestTheTreeIDFollowsNamesModesAndContents(t *testing.T) {
	ids := map[string]string{}
	executable := file("a", "1")
	executable.Mode = 0o700
	for name, entries := range map[string][]entry{
		"a file": {file("a", "1")}, "another content": {file("a", "2")}, "another name": {file("b", "1")}, "another mode": {executable}, "a file more": {file("a", "1"), file("b", "")},
	} {
		s := newServer(t)
		s.publish("r", archive(t, entries...))
		snapshot, err := s.source(t.TempDir()).Fetch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if other := ids[snapshot.TreeID]; other != "" {
			t.Errorf("%s and %s have the same id", name, other)
		}
		ids[snapshot.TreeID] = name
	}
	// The order of the entries, and the folders among them, are no part of the tree.
	var same []string
	for _, entries := range [][]entry{{file("a/b", "1"), file("c", "2")}, {folder("x"), file("c", "2"), folder("a"), file("a/b", "1")}} {
		s := newServer(t)
		s.publish("r", archive(t, entries...))
		snapshot, err := s.source(t.TempDir()).Fetch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		same = append(same, snapshot.TreeID)
	}
	if same[0] != same[1] {
		t.Errorf("ids %q", same)
	}
}

func TestAnArtifactIsDownloadedOnce(t *testing.T) {
	s, dir := newServer(t), t.TempDir()
	first := archive(t, file("a", "1"))
	s.publish("main@sha1:1", first)
	source := s.source(dir)
	fetch := func(want string, requests int) {
		t.Helper()
		snapshot, err := source.Fetch(t.Context())
		if err != nil || snapshot.Revision != want || s.count() != requests {
			t.Errorf("revision %q after %d requests, %v", snapshot.Revision, s.count(), err)
		}
	}
	fetch("main@sha1:1", 1)
	fetch("main@sha1:1", 1)
	s.publish("main@sha1:2", first) // Another commit with the same files.
	fetch("main@sha1:2", 1)
	s.publish("main@sha1:3", archive(t, file("a", "3")))
	fetch("main@sha1:3", 2)
	s.publish("main@sha1:2", first) // And back.
	fetch("main@sha1:2", 2)
	source = s.source(dir)
	fetch("main@sha1:2", 2)
}

func TestWhatWasFetchedOutlivesTheProcessAndItsSource(t *testing.T) {
	s, dir := newServer(t), t.TempDir()
	s.publish("main@sha1:1", archive(t, file("a", "1")))
	source := s.source(dir)
	if _, ok := source.Last(t.Context()); ok {
		t.Error("there is a snapshot before the first fetch")
	}
	if _, err := source.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.publish("main@sha1:2", archive(t, file("a", "2")))
	if _, err := source.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.missing = errors.New("gone")
	s.Close()
	for name, source := range map[string]*Source{"this process": source, "the next one": s.source(dir)} {
		if _, err := source.Fetch(t.Context()); !errors.Is(err, s.missing) {
			t.Errorf("%s: %v", name, err)
		}
		last, ok := source.Last(t.Context())
		if !ok || last.Revision != "main@sha1:2" || contents(t, last.FS)["a"] != "2" {
			t.Errorf("%s has %q, %t", name, last.Revision, ok)
		}
		earlier, ok := source.Earlier(t.Context(), "main@sha1:1", "")
		if !ok || contents(t, earlier.FS)["a"] != "1" {
			t.Errorf("%s: no earlier revision", name)
		}
		if _, ok := source.Earlier(t.Context(), "main@sha1:0", ""); ok {
			t.Errorf("%s: a revision that never was", name)
		}
	}
	other := New(Config{Name: "GitRepository flux-system/other", Resolve: s.resolve, Dir: dir})
	if last, ok := other.Last(t.Context()); ok {
		t.Errorf("another source has %q", last.Revision)
	}
}

func TestTheAppliedRevisionIsKeptAndLittleElse(t *testing.T) {
	s, dir := newServer(t), t.TempDir()
	source := s.source(dir)
	source.config.LastRevisions = func(context.Context) (LastRevisions, error) { return LastRevisions{Attempted: "", Applied: "r1"}, nil }
	var before gitsource.Snapshot
	for _, revision := range []string{"r1", "r2", "r3", "r4", "r5"} {
		s.publish(revision, archive(t, file("a", revision)))
		snapshot, err := source.Fetch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if before.FS != nil && contents(t, before.FS)["a"] != before.Revision {
			t.Errorf("%s cannot be read any more", before.Revision)
		}
		if revision == "r2" {
			before = snapshot // It is removed while it is in use.
		}
	}
	for revision, want := range map[string]bool{"r1": true, "r2": false, "r3": false, "r4": true, "r5": true} {
		if _, ok := source.Earlier(t.Context(), revision, ""); ok != want {
			t.Errorf("%s is kept: %t", revision, ok)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 4 {
		t.Errorf("%v, %v", files, err)
	}
}

func TestAfterARestartOnlyWhatWasFollowedIsUsedWithoutItsSource(t *testing.T) {
	s, dir := newServer(t), t.TempDir()
	for _, revision := range []string{"r1", "r2"} {
		s.publish(revision, archive(t, file("a", revision)))
		if _, err := s.source(dir).Fetch(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		attempted, applied string
		err                error
		want               string
	}{
		"the newest was applied":                  {"r2", "r2", nil, "r2"},
		"the newest was tried":                    {"r2", "r1", nil, "r2"},
		"another replica has tried a newer one":   {"r3", "r1", nil, "r1"},
		"another replica has applied a newer one": {"r3", "r3", nil, ""},
		"nothing was tried":                       {"", "", nil, ""},
		"it cannot be read":                       {"", "", errors.New("the API server is away"), ""},
	} {
		source := s.source(dir)
		source.config.LastRevisions = func(context.Context) (LastRevisions, error) {
			return LastRevisions{Attempted: tt.attempted, Applied: tt.applied}, tt.err
		}
		if last, ok := source.Last(t.Context()); last.Revision != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: %q, %t", name, last.Revision, ok)
		}
		if _, err := source.Fetch(t.Context()); err != nil {
			t.Fatal(err)
		}
		if last, ok := source.Last(t.Context()); last.Revision != "r2" || !ok {
			t.Errorf("%s: after a fetch %q, %t", name, last.Revision, ok)
		}
	}
}

func TestADamagedArtifactIsFetchedAgain(t *testing.T) {
	s, dir := newServer(t), t.TempDir()
	s.publish("r", archive(t, file("a", "content")))
	source := s.source(dir)
	snapshot, err := source.Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found, _ := filepath.Glob(filepath.Join(dir, "content-*.zip"))
	b, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		if string(b[i:min(i+7, len(b))]) == "content" {
			b[i] = 'C'
		}
	}
	if err := os.WriteFile(found[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.source(dir).Last(t.Context()); ok {
		t.Error("the next process takes it for what it was")
	}
	if _, err := snapshot.FS.(interface{ ReadFile(string) ([]byte, error) }).ReadFile("a"); !errors.Is(err, gitsource.ErrCorrupt) {
		t.Errorf("reading it: %v", err)
	}
	if _, ok := source.Last(t.Context()); ok {
		t.Error("this process takes it for what it was")
	}
	again, err := source.Fetch(t.Context())
	if err != nil || contents(t, again.FS)["a"] != "content" || s.count() != 2 {
		t.Errorf("after %d requests: %v", s.count(), err)
	}
}

// budget allows so many bytes.
type budget struct{ left int64 }

func (b *budget) Grant(n int64) error {
	if b.left -= n; b.left < 0 {
		return gitsource.ErrStorage
	}
	return nil
}

func TestAFullDiskKeepsWhatWasFetchedBefore(t *testing.T) {
	s, dir := newServer(t), t.TempDir()
	source := s.source(dir)
	disk := &budget{left: 3 << 20}
	source.config.Disk, source.store.disk = disk, disk
	s.publish("r1", archive(t, file("a", "1")))
	if _, err := source.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.publish("r2", archive(t, file("a", "2")))
	if _, err := source.Fetch(t.Context()); !errors.Is(err, gitsource.ErrStorage) {
		t.Errorf("got %v", err)
	}
	if last, ok := source.Last(t.Context()); !ok || last.Revision != "r1" {
		t.Errorf("kept is %q, %t", last.Revision, ok)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "tmp-*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestRevisionsOfGitHaveACommit(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef01234567"
	for revision, want := range map[string]string{
		"main@sha1:" + id: id, "sha1:" + id: id, "latest@sha256:" + id + id: "", "main@sha1:xyz": "", id: "", "": "",
	} {
		if got := commitOf(revision); got != want {
			t.Errorf("%q: %q", revision, got)
		}
	}
}

func TestAnArtifactWithoutADigestThatHoldsIsRefused(t *testing.T) {
	for name, digest := range map[string]string{
		"another one": digestOf([]byte("other")), "of no known algorithm": "md5:0123", "too short": "sha256:00", "none": "", "of capitals": "sha256:" + string(make([]byte, 64)),
	} {
		s := newServer(t)
		s.publish("r", archive(t, file("a", "1")))
		s.set(func(a *fluxmeta.Artifact) { a.Digest = digest })
		_, err := s.source(t.TempDir()).Fetch(t.Context())
		if !errors.Is(err, gitsource.ErrCorrupt) && !errors.Is(err, gitsource.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
