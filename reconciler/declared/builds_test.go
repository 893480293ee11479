package declared

import (
	"flag"
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/poolwright/poolwright/reconciler/declared/buildcache"
	"github.com/poolwright/poolwright/reconciler/declared/corpustest"
)

var (
	buildsSeed = flag.Uint64("builds.seed", 0, "which random folders are changed; 0 is another one each time")
	buildsSize = flag.Int("builds.size", 12, "how many random folders are changed")
)

// withBuilds loads a folder as a child and its parent do, and returns how many builds were kept.
func withBuilds(fsys fs.FS, folder string, cache *buildcache.Folder, options Options) (Declared, int, error) {
	options.Builds = buildcache.NewBuilds(cache.Valid(fsys)...)
	d, err := Load(fsys, folder, options)
	if err == nil {
		cache.Keep(fsys, options.Builds.Used(), options.Builds.Made())
	}
	return d, len(options.Builds.Used()), err
}

// TestKeptPartsGiveWhatAFreshRenderingDoes changes random folders file by file, and renders each
// revision with what is kept of the one before, and without.
func TestKeptPartsGiveWhatAFreshRenderingDoes(t *testing.T) {
	seed := *buildsSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-builds.seed=%d", seed)
	loaded, used := 0, 0
	for i := range *buildsSize {
		c := corpustest.New(seed, uint64(i))
		c.Folder("x")
		cache := (&buildcache.Cache{}).Folder("x")
		for step := range 6 {
			files := c.Files
			want, wantErr := Load(files, "x", Options{})
			got, kept, err := withBuilds(files, "x", cache, Options{})
			if fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Fatalf("case %d, step %d: got error %v, want %v\n%s", i, step, err, wantErr, c)
			}
			if d := cmp.Diff(want.Set.Items(), got.Set.Items()); d != "" {
				t.Fatalf("case %d, step %d of -builds.seed=%d: kept builds give something else:\n%s\n%s", i, step, seed, d, c)
			}
			if d := cmp.Diff(problemOrigins(want), problemOrigins(got)); d != "" {
				t.Fatalf("case %d, step %d of -builds.seed=%d: kept builds have other problems:\n%s\n%s", i, step, seed, d, c)
			}
			loaded, used = loaded+want.Set.Len(), used+kept
			c.Change("x")
		}
	}
	t.Logf("%d objects of %d folders in 6 revisions each, by %d kept builds", loaded, *buildsSize, used)
	if loaded < 10**buildsSize || used < 4**buildsSize {
		t.Error("too few were compared")
	}
}

// problemOrigins are the places of problems: which of several errors kustomize reports differs from run
// to run.
func problemOrigins(d Declared) (out []string) {
	for _, p := range d.Problems {
		out = append(out, p.Origin.String())
	}
	return out
}

func TestAPartCountsUntilSomethingThatWasReadForItChanges(t *testing.T) {
	const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"
	tree := func() fstest.MapFS {
		files := fstest.MapFS{}
		for name, content := range map[string]string{
			"x/plain.yaml":           fmt.Sprintf(configMap, "plain"),
			"x/k/kustomization.yaml": "resources: [a.yaml, ../../base]\ncomponents: [../../component]\nconfigMapGenerator: [{name: g, files: [v.txt]}]\n",
			"x/k/a.yaml":             fmt.Sprintf(configMap, "a"), "x/k/v.txt": "v",
			"base/kustomization.yaml":      "resources: [b.yaml]\n",
			"base/b.yaml":                  fmt.Sprintf(configMap, "b"),
			"component/kustomization.yaml": "kind: Component\napiVersion: kustomize.config.k8s.io/v1alpha1\nnamePrefix: p-\n",
			"other/kustomization.yaml":     "resources: []\n",
		} {
			files[name] = &fstest.MapFile{Data: []byte(content)}
		}
		return files
	}
	for name, c := range map[string]struct {
		change func(fstest.MapFS)
		kept   int
	}{
		"nothing":                   {func(fstest.MapFS) {}, 2},
		"a file that nothing reads": {func(f fstest.MapFS) { f["other/kustomization.yaml"].Data = []byte("resources: [x]") }, 2},
		"a plain file":              {func(f fstest.MapFS) { f["x/plain.yaml"].Data = []byte(fmt.Sprintf(configMap, "other")) }, 1},
		"a resource":                {func(f fstest.MapFS) { f["x/k/a.yaml"].Data = []byte(fmt.Sprintf(configMap, "c")) }, 1},
		"a resource of a base":      {func(f fstest.MapFS) { f["base/b.yaml"].Data = []byte(fmt.Sprintf(configMap, "c")) }, 1},
		"a component": {func(f fstest.MapFS) {
			f["component/kustomization.yaml"].Data = append(f["component/kustomization.yaml"].Data, "nameSuffix: -s\n"...)
		}, 1},
		"a generator's file":                   {func(f fstest.MapFS) { f["x/k/v.txt"].Data = []byte("w") }, 1},
		"a second kustomization file":          {func(f fstest.MapFS) { f["x/k/Kustomization"] = &fstest.MapFile{Data: []byte("resources: []")} }, 1},
		"a resource that is there no more":     {func(f fstest.MapFS) { delete(f, "x/k/a.yaml") }, 1},
		"another plain file, beside the first": {func(f fstest.MapFS) { f["x/z.yaml"] = &fstest.MapFile{Data: []byte(fmt.Sprintf(configMap, "z"))} }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			cache, files := (&buildcache.Cache{}).Folder("x"), tree()
			if _, kept, err := withBuilds(files, "x", cache, Options{}); err != nil || kept != 0 {
				t.Fatal(kept, err)
			}
			c.change(files)
			got, kept, err := withBuilds(files, "x", cache, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if kept != c.kept {
				t.Errorf("%d builds are kept, want %d", kept, c.kept)
			}
			want, err := Load(files, "x", Options{})
			if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Declared{}), cmp.AllowUnexported(want.Set)); d != "" || err != nil {
				t.Error(d, err)
			}
		})
	}
}

func TestKeptPartsCountTowardsEveryLimit(t *testing.T) {
	const n = 60
	for name, limit := range map[string]func(*Options){
		"files":                 func(o *Options) { o.Files = n / 20 },
		"the bytes of files":    func(o *Options) { o.TotalBytes = 4 << 10 },
		"values of documents":   func(o *Options) { o.TotalNodes = n },
		"objects":               func(o *Options) { o.Objects = n - 1 },
		"the memory of objects": func(o *Options) { o.Rendered = 20 << 10 },
	} {
		for _, kustomize := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, kustomize %v", name, kustomize), func(t *testing.T) {
				files, cache := many(n, kustomize), (&buildcache.Cache{}).Folder("x")
				if _, _, err := withBuilds(files, "x", cache, Options{}); err != nil {
					t.Fatal(err)
				}
				var narrow Options
				limit(&narrow)
				_, wantErr := Load(files, "x", narrow)
				_, kept, err := withBuilds(files, "x", cache, narrow)
				if wantErr == nil && name != "files" {
					t.Fatal("the limit is not exceeded without builds")
				}
				if (err == nil) != (wantErr == nil) || kept == 0 {
					t.Errorf("%d builds are kept, error %v, want %v", kept, err, wantErr)
				}
			})
		}
	}
}
