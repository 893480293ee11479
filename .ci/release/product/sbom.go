package product

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/types"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// SPDXMediaType is that of an SPDX document in JSON.
const SPDXMediaType types.MediaType = "application/spdx+json"

// SBOM is an SPDX 2.3 document in JSON of the modules that a binary was built from, by its own
// build information.
func SBOM(b Binary, r Release) ([]byte, error) {
	content, err := os.ReadFile(b.Path)
	if err != nil {
		return nil, fmt.Errorf("reading the binary for %s: %w", b.Platform, err)
	}
	digest := sha256.Sum256(content)
	sum := hex.EncodeToString(digest[:])
	main := module(b.Info.Main.Path, r.Version, "Apache-2.0")
	main.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: sum}}
	main.PrimaryPackagePurpose = "APPLICATION"
	document := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName:      "poolwright " + r.Version + " " + b.Platform.String(),
		DocumentNamespace: "https://poolwright.dev/spdx/" + sum,
		CreationInfo: &spdx.CreationInfo{
			Created:  r.Created.Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Organization", Creator: "The Poolwright Authors"}},
		},
		Packages:      []*spdx.Package{main},
		Relationships: []*spdx.Relationship{relationship("DOCUMENT", "DESCRIBES", main.PackageSPDXIdentifier)},
	}
	dependencies := []*spdx.Package{module("stdlib", strings.TrimPrefix(b.Info.GoVersion, "go"), "BSD-3-Clause")}
	for _, d := range b.Info.Deps {
		dependencies = append(dependencies, module(used(d).Path, used(d).Version, "NOASSERTION"))
	}
	for _, p := range dependencies {
		document.Packages = append(document.Packages, p)
		document.Relationships = append(document.Relationships, relationship(main.PackageSPDXIdentifier, "DEPENDS_ON", p.PackageSPDXIdentifier))
	}
	var out bytes.Buffer
	if err := spdxjson.Write(document, &out, spdxjson.Indent(" ")); err != nil {
		return nil, fmt.Errorf("writing the SBOM for %s: %w", b.Platform, err)
	}
	return out.Bytes(), nil
}

// used is the module that was compiled.
func used(d *debug.Module) *debug.Module {
	if d.Replace != nil {
		return d.Replace
	}
	return d
}

// notInID are the characters that an SPDX identifier cannot have.
var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

func module(path, version, licence string) *spdx.Package {
	return &spdx.Package{
		PackageName: path, PackageVersion: version,
		PackageSPDXIdentifier:   common.ElementID("Package-" + notInID.ReplaceAllString(path+"-"+version, "-")),
		PackageDownloadLocation: "NOASSERTION",
		PackageLicenseConcluded: licence, PackageLicenseDeclared: licence, PackageCopyrightText: "NOASSERTION",
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: "pkg:golang/" + path + "@" + version,
		}},
	}
}

func relationship(from common.ElementID, kind string, to common.ElementID) *spdx.Relationship {
	return &spdx.Relationship{RefA: common.MakeDocElementID("", string(from)), RefB: common.MakeDocElementID("", string(to)), Relationship: kind}
}
