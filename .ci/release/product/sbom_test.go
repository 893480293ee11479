package product

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

var stamped = Release{Version: "v1.2.3", Revision: "0123456789abcdef", Created: time.Unix(1_700_000_000, 0).UTC()}

// documentOf is the SBOM of a binary with that build information, read back.
func documentOf(t *testing.T, info *debug.BuildInfo) *spdx.Document {
	t.Helper()
	path := filepath.Join(t.TempDir(), "poolwright")
	if err := os.WriteFile(path, []byte("a binary"), 0o600); err != nil {
		t.Fatal(err)
	}
	content, err := SBOM(Binary{Platform: v1.Platform{OS: "linux", Architecture: "arm64"}, Path: path, Info: info}, stamped)
	if err != nil {
		t.Fatal(err)
	}
	document := &spdx.Document{}
	if err := spdxjson.ReadInto(bytes.NewReader(content), document); err != nil {
		t.Fatal(err)
	}
	return document
}

func buildInfo() *debug.BuildInfo {
	return &debug.BuildInfo{
		GoVersion: "go1.27.4",
		Main:      debug.Module{Path: "example.com/main", Version: "(devel)"},
		Deps: []*debug.Module{
			{Path: "example.com/a_b", Version: "v1.0.0"},
			{Path: "example.com/a/b", Version: "v2.0.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v2.0.1"}},
		},
	}
}

func TestAnSBOMHasEachModuleThatWasCompiled(t *testing.T) {
	type found struct{ Name, Version, URL string }
	var got []found
	for _, p := range documentOf(t, buildInfo()).Packages {
		got = append(got, found{p.PackageName, p.PackageVersion, p.PackageExternalReferences[0].Locator})
	}
	want := []found{
		{"example.com/main", "v1.2.3", "pkg:golang/example.com/main@v1.2.3"},
		{"stdlib", "1.27.4", "pkg:golang/stdlib@1.27.4"},
		{"example.com/a_b", "v1.0.0", "pkg:golang/example.com/a_b@v1.0.0"},
		{"example.com/fork", "v2.0.1", "pkg:golang/example.com/fork@v2.0.1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAnSBOMDescribesTheBinaryByItsDigestAndRelatesItsModulesToIt(t *testing.T) {
	document := documentOf(t, buildInfo())
	if document.CreationInfo.Created != "2023-11-14T22:13:20Z" || document.SPDXVersion != "SPDX-2.3" {
		t.Errorf("created %s, version %s", document.CreationInfo.Created, document.SPDXVersion)
	}
	sums := document.Packages[0].PackageChecksums
	if len(sums) != 1 || sums[0].Algorithm != common.SHA256 || len(sums[0].Value) != 64 {
		t.Errorf("checksums %v", sums)
	}
	ids := map[common.ElementID]bool{}
	for _, p := range document.Packages {
		ids[p.PackageSPDXIdentifier] = true
	}
	if len(ids) != len(document.Packages) {
		t.Errorf("%d identifiers of %d packages", len(ids), len(document.Packages))
	}
	kinds := map[string]int{}
	for _, r := range document.Relationships {
		kinds[r.Relationship]++
		if !ids[r.RefB.ElementRefID] {
			t.Errorf("%v is related, and is no package", r.RefB)
		}
	}
	if diff := cmp.Diff(map[string]int{"DESCRIBES": 1, "DEPENDS_ON": 3}, kinds); diff != "" {
		t.Error(diff)
	}
}
