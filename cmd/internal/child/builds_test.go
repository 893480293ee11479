package child

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/declared/buildcache"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
)

func TestAChildGetsThePartsOfTheRevisionBefore(t *testing.T) {
	files := inKustomizations(400)
	cache := &buildcache.Cache{}
	r := &Runner{Builds: cache.Folder("f")}
	valid := func() int { return len(r.Builds.Valid(files)) }
	for step, change := range []func(){
		func() {},
		func() { files["x/u0/f0.yaml"] = manifestsOf(0, "changed") },
		func() { files["x/plain.yaml"] = &fstest.MapFile{Data: []byte(manifestOf(9999, "v"))} },
	} {
		change()
		if kept, want := valid(), []int{0, 1, 2}[step]; kept != want {
			t.Fatalf("step %d: %d builds are kept, want %d", step, kept, want)
		}
		got, err := r.Load(t.Context(), files, "x", substitute.Values{})
		if err != nil {
			t.Fatal(err)
		}
		want, err := load(files, "x", substitute.Values{})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want.Set.Items(), got.Set.Items()); d != "" {
			t.Errorf("step %d: %s", step, d)
		}
	}
	if valid() != 3 {
		t.Errorf("%d builds are kept in the end, want 3", valid())
	}
	broken := fstest.MapFS{"x/a.yaml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: [\n")}}
	if _, err := r.Load(t.Context(), broken, "gone", substitute.Values{}); err == nil || valid() != 3 {
		t.Errorf("a rendering that failed left %d builds, error %v", valid(), err)
	}
	for name, other := range map[string]*buildcache.Folder{"of another Sync": cache.Folder("g"), "of a pull request": nil} {
		if n := len(other.Valid(files)); n != 0 {
			t.Errorf("what is rendered %s gets %d builds", name, n)
		}
	}
}

// TestBuildsCountApartFromTheResult has a child return builds of more bytes than its result may have.
func TestBuildsCountApartFromTheResult(t *testing.T) {
	made, err := encodeBuild(buildcache.Build{Name: "a", Content: bytes.Repeat([]byte("x"), 1000)})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		builds int64
		frames []frame
		fails  bool
	}{
		"a build within its limit":    {2000, []frame{{frameMade, made}, {frameResult, []byte("{}")}}, false},
		"builds beyond their limit":   {2000, []frame{{frameMade, made}, {frameMade, made}, {frameResult, []byte("{}")}}, true},
		"a result of a build's size":  {2000, []frame{{frameResult, made}}, true},
		"a build that is cut off":     {2000, []frame{{frameMade, made[:3]}, {frameResult, []byte("{}")}}, true},
		"a build with a false length": {2000, []frame{{frameMade, []byte("\xff\xff\xff\xff{}")}, {frameResult, []byte("{}")}}, true},
		"names that are no list":      {2000, []frame{{frameUsed, []byte("{}")}, {frameResult, []byte("{}")}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var sent bytes.Buffer
			out := &writer{to: &sent, remaining: 1 << 20}
			for _, f := range c.frames {
				if err := out.send(f.kind, f.payload); err != nil {
					t.Fatal(err)
				}
			}
			var builds returnedBuilds
			_, err := serveTree(fstest.MapFS{}, &writer{to: io.Discard, remaining: 1 << 10}, &reader{from: &sent, remaining: 100, builds: c.builds}, &builds)
			if (err != nil) != c.fails {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestAChildReturnsThePartsThatFitIntoTheirLimit(t *testing.T) {
	builds := buildcache.NewBuilds()
	for _, name := range []string{"a", "b", "c"} {
		builds.Make(buildcache.Build{Name: name, Content: bytes.Repeat([]byte("x"), maxBuildBytes/2-1000)})
	}
	var sent bytes.Buffer
	if err := sendBuilds(&writer{to: &sent, remaining: 1 << 30}, builds); err != nil {
		t.Fatal(err)
	}
	in, got := &reader{from: &sent, remaining: 1 << 20, builds: maxBuildBytes}, &returnedBuilds{}
	for {
		kind, payload, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the parent refuses what the child returns: %v", err)
		}
		if _, err := got.add(kind, payload); err != nil {
			t.Fatal(err)
		}
	}
	if len(got.made) != 2 {
		t.Errorf("%d builds were returned, of which two fit", len(got.made))
	}
}
