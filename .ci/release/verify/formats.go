package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"
)

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// provenance checks the statement by in-toto's types and the predicate by SLSA's, which refuse unknown fields and
// have the rules of what is required, and that each file is a subject by its digest.
func (r release) provenance() error {
	const file = "provenance.intoto.json"
	var s intoto.Statement
	if err := protojson.Unmarshal(r.files[file], &s); err != nil {
		return fmt.Errorf("reading it: %w", err)
	}
	if err := s.Validate(); err != nil {
		return fmt.Errorf("in-toto's rules: %w", err)
	}
	if s.GetPredicateType() != "https://slsa.dev/provenance/v1" {
		return fmt.Errorf("the predicate is one of %s", s.GetPredicateType())
	}
	raw, err := protojson.Marshal(s.GetPredicate())
	if err != nil {
		return fmt.Errorf("reading its predicate: %w", err)
	}
	var predicate slsa.Provenance
	if err := protojson.Unmarshal(raw, &predicate); err != nil {
		return fmt.Errorf("reading its predicate: %w", err)
	}
	if err := predicate.Validate(); err != nil {
		return fmt.Errorf("SLSA's rules: %w", err)
	}
	dependencies := predicate.GetBuildDefinition().GetResolvedDependencies()
	if len(dependencies) == 0 || dependencies[0].GetDigest()["gitCommit"] != r.Revision {
		return fmt.Errorf("it is not of commit %s", r.Revision)
	}
	subjects := map[string]string{}
	for _, subject := range s.GetSubject() {
		subjects[subject.GetName()] = subject.GetDigest()["sha256"]
	}
	var errs []error
	for name, sum := range r.sums {
		if name != file && name != "checksums.txt" && subjects[name] != sum {
			errs = append(errs, fmt.Errorf("%s is no subject by its digest", name))
		}
	}
	return errors.Join(errs...)
}

// krewPlugin has the fields of krew's Plugin, krew.googlecontainertools.github.com/v1alpha2.
type krewPlugin struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string         `json:"version"`
		ShortDescription string         `json:"shortDescription"`
		Description      string         `json:"description"`
		Caveats          string         `json:"caveats"`
		Homepage         string         `json:"homepage"`
		Platforms        []krewPlatform `json:"platforms"`
	} `json:"spec"`
}

type krewPlatform struct {
	URI      string `json:"uri"`
	SHA256   string `json:"sha256"`
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	Files []struct {
		From string `json:"from"`
		To   string `json:"to"`
	} `json:"files"`
	Bin string `json:"bin"`
}

// downloads is where a release's files are published, in a folder of the version.
const downloads = "https://github.com/poolwright/poolwright/releases/download/"

var (
	krewName    = regexp.MustCompile(`^[\w-]+$`)
	krewVersion = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)
	hexDigest   = regexp.MustCompile(`^[a-f0-9]{64}$`)
	// imageLine is a line that names an image. A CRD's property of that name has none.
	imageLine = regexp.MustCompile(`(?m)^[\s-]*image: .*$`)
)

// krew checks the manifest by the rules of krew's own validation, and against the archives.
func (r release) krew() error {
	var p krewPlugin
	if err := yaml.UnmarshalStrict(r.files["krew.yaml"], &p); err != nil {
		return fmt.Errorf("reading it: %w", err)
	}
	var errs []error
	if p.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || p.Kind != "Plugin" || !krewName.MatchString(p.Metadata.Name) {
		errs = append(errs, fmt.Errorf("it is %s %s %q", p.APIVersion, p.Kind, p.Metadata.Name))
	}
	if !krewVersion.MatchString(p.Spec.Version) || p.Spec.Version != r.Version {
		errs = append(errs, fmt.Errorf("spec.version is %q", p.Spec.Version))
	}
	// The index of krew's plugins refuses a longer one.
	if p.Spec.ShortDescription == "" || len(p.Spec.ShortDescription) > 50 || strings.ContainsAny(p.Spec.ShortDescription, "\r\n") {
		errs = append(errs, fmt.Errorf("spec.shortDescription is %q", p.Spec.ShortDescription))
	}
	if len(p.Spec.Platforms) != len(Platforms) {
		errs = append(errs, fmt.Errorf("it has %d platforms", len(p.Spec.Platforms)))
	}
	known := map[string]bool{}
	for _, platform := range p.Spec.Platforms {
		name := strings.Join([]string{platform.Selector.MatchLabels["os"], platform.Selector.MatchLabels["arch"]}, "/")
		if known[name] {
			errs = append(errs, fmt.Errorf("spec.platforms has %s twice", name))
		}
		known[name] = true
		if err := r.krewPlatform(platform); err != nil {
			errs = append(errs, fmt.Errorf("spec.platforms of %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// krewPlatform checks that a platform names an archive of the release by its digest, and files that are in it.
func (r release) krewPlatform(platform krewPlatform) error {
	name := platform.URI[strings.LastIndex(platform.URI, "/")+1:]
	if platform.URI != downloads+r.Version+"/"+name {
		return fmt.Errorf("uri is %q", platform.URI)
	}
	suffix := "_" + platform.Selector.MatchLabels["os"] + "_" + platform.Selector.MatchLabels["arch"] + ".tar.gz"
	if !hexDigest.MatchString(platform.SHA256) || r.sums[name] != platform.SHA256 || !strings.HasSuffix(name, suffix) {
		return fmt.Errorf("sha256 and uri are not those of the archive *%s", suffix)
	}
	members, err := unpack(r.files[name])
	if err != nil {
		return err
	}
	for _, f := range platform.Files {
		if _, there := members[f.From]; !there || f.To == "" {
			return fmt.Errorf("files has %q to %q", f.From, f.To)
		}
	}
	if _, there := members[platform.Bin]; !there {
		return fmt.Errorf("bin is %q", platform.Bin)
	}
	return nil
}

// installation checks that install.yaml has objects, whose images are one of the release by its digest.
func (r release) installation() error {
	kinds := map[string]int{}
	for document := range strings.SplitSeq(string(r.files["install.yaml"]), "\n---\n") {
		var object struct {
			APIVersion, Kind string
			Metadata         struct{ Name string }
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return fmt.Errorf("reading it: %w", err)
		}
		if object.Kind == "" || object.Metadata.Name == "" || object.APIVersion == "" {
			return fmt.Errorf("an object has no kind, version or name:\n%s", document)
		}
		kinds[object.Kind]++
	}
	if kinds["Deployment"] != 1 || kinds["CustomResourceDefinition"] == 0 || kinds["ServiceAccount"] == 0 || kinds["Namespace"] != 1 {
		return fmt.Errorf("it has %v", kinds)
	}
	released := regexp.MustCompile(`^[\s-]*image: \S+:` + regexp.QuoteMeta(r.Version) + `@sha256:[a-f0-9]{64}$`)
	images := imageLine.FindAllString(string(r.files["install.yaml"]), -1)
	if len(images) == 0 || slices.ContainsFunc(images, func(line string) bool { return !released.MatchString(line) }) {
		return errors.New("the image is not one of this release by its digest")
	}
	return nil
}

// chart checks that a chart's archive is of the release's version.
func (r release) chart(name string) error {
	version := strings.TrimPrefix(r.Version, "v")
	file := name + "-" + version + ".tgz"
	if r.files[file] == nil {
		return fmt.Errorf("%s is missing", file)
	}
	members, err := unpack(r.files[file])
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	var about struct{ APIVersion, Name, Version, AppVersion, Type string }
	if err := yaml.Unmarshal(members[name+"/Chart.yaml"].content, &about); err != nil {
		return fmt.Errorf("%s: reading Chart.yaml: %w", file, err)
	}
	if about.APIVersion != "v2" || about.Name != name || about.Version != version || about.AppVersion != r.Version {
		return fmt.Errorf("%s: Chart.yaml is %+v", file, about)
	}
	decoder := json.NewDecoder(bytes.NewReader(members[name+"/values.schema.json"].content))
	var schema map[string]any
	if err := decoder.Decode(&schema); err != nil && !errors.Is(err, io.EOF) || schema["type"] != "object" {
		return fmt.Errorf("%s: values.schema.json is no schema of values: %w", file, err)
	}
	return nil
}
