package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/state"
)

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

// files makes a tree of names and contents; a content of "-> x" is a link to x.
func files(pairs ...string) fstest.MapFS {
	out := fstest.MapFS{}
	for i := 0; i+1 < len(pairs); i += 2 {
		out[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1]), Mode: 0o644}
		if target, ok := strings.CutPrefix(pairs[i+1], "-> "); ok {
			out[pairs[i]] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
		}
	}
	return out
}

// newPipedFS is a tree that a goroutine of this process serves through pipes.
func newPipedFS(tb testing.TB, tree fs.FS) *remoteFS {
	tb.Helper()
	toParent, fromChild := io.Pipe()
	toChild, fromParent := io.Pipe()
	tb.Cleanup(func() { _, _ = fromChild.Close(), fromParent.Close() })
	go func() {
		_, err := serveTree(tree, &writer{to: fromParent, remaining: 1 << 30}, &reader{from: toParent, remaining: 1 << 30}, &returnedBuilds{})
		_ = fromParent.CloseWithError(err)
	}()
	in := &reader{from: toChild, remaining: 1 << 30}
	return &remoteFS{out: &writer{to: fromChild, remaining: 1 << 30}, reply: func() ([]byte, error) { return in.expect(frameReply) }, known: map[string]known{}}
}

func TestARemoteTreeIsAFileSystem(t *testing.T) {
	tree := files("a.yaml", configMap, "b/c.yaml", "c", "b/d/e", "", "odd, name", "x", "link", "-> b/c.yaml", "folder", "-> b")
	if err := fstest.TestFS(linked{newPipedFS(t, tree)}, "a.yaml", "b/c.yaml", "b/d/e", "odd, name", "link", "folder"); err != nil {
		t.Error(err)
	}
}

// failingFS is a tree that refuses in all the ways that a source knows.
type failingFS struct{ fstest.MapFS }

func (o failingFS) refuse(op, name string) error {
	for part, err := range map[string]error{
		"limit": gitsource.ErrLimit, "unsafe": gitsource.ErrUnsafe, "broken": io.ErrUnexpectedEOF, "forbidden": fs.ErrPermission, "invalid": fs.ErrInvalid,
	} {
		if strings.Contains(name, part) {
			return &fs.PathError{Op: op, Path: name, Err: fmt.Errorf("%w: as %s", err, part)}
		}
	}
	return nil
}

func (o failingFS) ReadFile(name string) ([]byte, error) {
	if err := o.refuse("read", name); err != nil {
		return nil, err
	}
	return o.MapFS.ReadFile(name)
}

func (o failingFS) Stat(name string) (fs.FileInfo, error) {
	if strings.HasPrefix(name, "stat") {
		if err := o.refuse("stat", name); err != nil {
			return nil, err
		}
	}
	return o.MapFS.Stat(name)
}

// plainTree hides that a tree knows links.
type plainTree struct{ fs.FS }

func TestRefusalsLinksAndLimitsAreAsInThisProcess(t *testing.T) {
	big := configMap + "# " + strings.Repeat("x", 4<<20)
	bomb := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 10; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10))
	}
	var growth []string
	for i := range 11 {
		growth = append(growth, fmt.Sprintf("d%d/a/kustomization.yaml", i), fmt.Sprintf("namePrefix: a-\nresources: [../../d%d/both]\n", i+1),
			fmt.Sprintf("d%d/b/kustomization.yaml", i), fmt.Sprintf("namePrefix: b-\nresources: [../../d%d/both]\n", i+1),
			fmt.Sprintf("d%d/both/kustomization.yaml", i), "resources: [../a, ../b]\n")
	}
	growth = append(growth, "d11/both/kustomization.yaml", "resources: [x.yaml]\n", "d11/both/x.yaml", configMap)
	rendered := func(resource string) fstest.MapFS {
		return files("k/kustomization.yaml", "resources: ["+resource+"]\n", "k/a.yaml", configMap, "b/b.yaml", strings.Replace(configMap, "name: a", "name: b", 1))
	}
	with := func(tree fstest.MapFS, pairs ...string) fstest.MapFS {
		maps.Copy(tree, files(pairs...))
		return tree
	}
	for name, c := range map[string]struct {
		tree   fs.FS
		folder string
		want   string
	}{
		"a file beside the folder":           {rendered("../b/b.yaml"), "k", ""},
		"a path out of the tree":             {rendered("../../etc/passwd"), "k", "leads out"},
		"a link inside the tree":             {with(rendered("l.yaml"), "k/l.yaml", "-> ../b/b.yaml"), "k", ""},
		"a link out of the tree":             {with(rendered("l.yaml"), "k/l.yaml", "-> ../../etc/passwd"), "k", "leads out"},
		"an absolute link":                   {with(rendered("l.yaml"), "k/l.yaml", "-> /etc/passwd"), "k", "leads out"},
		"links in a circle":                  {with(rendered("l.yaml"), "k/l.yaml", "-> m.yaml", "k/m.yaml", "-> l.yaml"), "k", "loop"},
		"the folder itself is a link":        {with(rendered("a.yaml"), "l", "-> k"), "l", ""},
		"a tree without links":               {plainTree{rendered("../b/b.yaml")}, "k", ""},
		"a folder that is not there":         {rendered("a.yaml"), "elsewhere", "is not in the repository"},
		"a folder that is a file":            {rendered("a.yaml"), "b/b.yaml", "name its folder"},
		"a folder above the tree":            {rendered("a.yaml"), "..", "stay inside it"},
		"a folder without manifests":         {files("k/README.md", "x"), "k", "declares no object"},
		"a file that is not there":           {rendered("gone.yaml"), "k", "does not exist"},
		"a file that is too large":           {files("k/a.yaml", big), "k", "larger than 4096 KiB"},
		"a large file that is not read":      {with(rendered("a.yaml"), "k/b.bin", big+big), "k", ""},
		"an alias bomb":                      {files("k/a.yaml", bomb), "k", "once its aliases are written out"},
		"an alias bomb in a kustomization":   {files("k/kustomization.yaml", bomb), "k", "once its aliases are written out"},
		"kustomizations that double":         {files(growth...), "d0/both", "limit exceeded"},
		"a remote base":                      {rendered("https://example.com/x"), "k", "another machine"},
		"values of all kinds":                {files("k/a.yaml", configMap+"x: [1, 1.0, 1.5, -0.0, 1e3, 1e300, 9007199254740993, 9223372036854775807, true, null, \"1\", \"<&>\\u2028\", {}, [], ~]\n"), "k", ""},
		"text that is not UTF-8":             {files("k/a.yaml", configMap+"x: !!binary /w==\n"), "k", ""},
		"a source that limits a file":        {failingFS{files("k/limit.yaml", configMap)}, "k", "as limit"},
		"a source that finds a file unsafe":  {failingFS{files("k/unsafe.yaml", configMap)}, "k", "as unsafe"},
		"a source that breaks":               {failingFS{files("k/broken.yaml", configMap)}, "k", "as broken"},
		"a source that breaks for kustomize": {failingFS{with(rendered("a.yaml, broken.yaml"), "k/broken.yaml", configMap)}, "k", "as broken"},
		"a source that forbids":              {failingFS{files("k/forbidden.yaml", configMap)}, "k", "as forbidden"},
		"a source that finds a name invalid": {failingFS{files("k/invalid.yaml", configMap)}, "k", "as invalid"},
		"a source that refuses the folder":   {failingFS{files("stat-unsafe/a.yaml", configMap)}, "stat-unsafe", "as unsafe"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, wantErr := load(c.tree, c.folder, substitute.Values{})
			got, err := (&Runner{}).Load(t.Context(), c.tree, c.folder, substitute.Values{})
			if d := cmp.Diff(classed(wantErr), classed(err)); d != "" {
				t.Fatal(d)
			}
			if d := cmp.Diff(want.Set.Items(), got.Set.Items()); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(want, got, cmpopts.IgnoreFields(declared.Declared{}, "Set", "Converted"), cmpopts.IgnoreUnexported(declared.Declared{}), cmpopts.EquateEmpty()); d != "" {
				t.Error(d)
			}
			if message := fmt.Sprint(got.Problems, err); !strings.Contains(message, c.want) || c.want == "" && (err != nil || got.Set.Len() == 0) {
				t.Errorf("%d objects and %s", got.Set.Len(), message)
			}
		})
	}
}

func TestServeEndsWithItsInput(t *testing.T) {
	for name, send := range map[string]func(in *writer, close func()){
		"before anything":       func(_ *writer, end func()) { end() },
		"after the request":     func(in *writer, end func()) { _ = in.send(frameRequest, []byte(`{"folder":"a"}`)); end() },
		"in a frame":            func(in *writer, end func()) { _, _ = in.to.Write([]byte{byte(frameRequest), 0, 0}); end() },
		"with what is no frame": func(in *writer, _ func()) { _, _ = in.to.Write(bytes.Repeat([]byte{0xff}, frameHead)) },
	} {
		t.Run(name, func(t *testing.T) {
			in, theirs := io.Pipe()
			done := make(chan error, 1)
			go func() { done <- Serve(t.Context(), verbLoad, in, io.Discard) }()
			send(&writer{to: theirs, remaining: 1 << 20}, func() { _ = theirs.Close() })
			select {
			case err := <-done:
				// The last frame may have been its response.
				if err != nil && !errors.Is(err, errInputEnded) {
					t.Error(err)
				}
			case <-time.After(time.Minute):
				t.Error("it goes on")
			}
		})
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	in, _ := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, verbLoad, in, io.Discard) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestConfineRefusesWhatIsNoLimit(t *testing.T) {
	for _, args := range [][2]string{{"", "1"}, {"1", ""}, {"x", "1"}, {"1", "x"}, {"0", "1"}, {"-1", "1"}, {"1048576", "0"}, {"1048576", "99999999999"}} {
		if err := Confine(args[0], args[1]); err == nil {
			t.Fatalf("%q is a limit", args)
		}
	}
}

func TestFailuresKeepTheirClass(t *testing.T) {
	for _, err := range []error{
		errors.New("a"), state.Fail(state.Stalled, "R", errors.New("a")), state.WaitFor(time.Minute, "R", errors.New("a")),
		fmt.Errorf("b: %w", state.Fail(state.Stalled, "R", errors.New("a"))),
	} {
		if d := cmp.Diff(errorObjectOf(err), errorObjectOf(errorObjectOf(err).err())); d != "" {
			t.Error(d)
		}
	}
}
