// Package scaffold writes the first manifests of a folder that a Sync follows: a Cluster, an
// EC2NodeClass, a NodePool for GPUs and a DevicePlugin.
//
// It reads the EKS cluster from AWS on request, and creates only files that do not exist yet. Start reading at Write.
package scaffold

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/cmd/internal/document"
	"github.com/poolwright/poolwright/provision/catalog"
)

//go:embed templates
var templates embed.FS

// Values are what the manifests are made of.
type Values struct {
	// Cluster and Region are the EKS cluster's.
	Cluster, Region string
	// Account is the twelve digits of its AWS account.
	Account string
	// Subnets and SecurityGroups are ids of those in which nodes are launched. Without them the manifests
	// expect the discovery tag on some.
	Subnets, SecurityGroups []string
	// InstanceTypes are those of the pool for GPUs; all have GPUs of NVIDIA and one architecture.
	InstanceTypes []string
	// MaxGPUs is the most GPUs that the pool may have.
	MaxGPUs int
}

// Architecture is that of all InstanceTypes as Kubernetes names it, "amd64" or "arm64".
func (v Values) Architecture() string {
	all, err := catalog.Load()
	if err != nil {
		return ""
	}
	return architecture(all, v.InstanceTypes[0])
}

func architecture(all *catalog.Catalog, name string) string {
	t, _ := all.Lookup(name)
	if slices.Contains(t.Processor.Architectures, "arm64") {
		return "arm64"
	}
	return "amd64"
}

// NodeRole is the IAM role of the nodes: IAM takes 64 characters.
func (v Values) NodeRole() string {
	const suffix = "-karpenter-node"
	return v.Cluster[:min(len(v.Cluster), 64-len(suffix))] + suffix
}

var (
	clusterName = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$`)
	regionName  = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9]+$`)
	accountID   = regexp.MustCompile(`^[0-9]{12}$`)
	subnetID    = regexp.MustCompile(`^subnet-[0-9a-f]{8,17}$`)
	groupID     = regexp.MustCompile(`^sg-[0-9a-f]{8,17}$`)
)

// CheckCluster refuses names that EKS and AWS do not have.
func (v Values) CheckCluster() error {
	var errs []error
	if !clusterName.MatchString(v.Cluster) {
		errs = append(errs, fmt.Errorf("%q is not the name of an EKS cluster: give --cluster as `aws eks list-clusters` prints it", v.Cluster))
	}
	if !regionName.MatchString(v.Region) {
		errs = append(errs, fmt.Errorf("%q is not an AWS region: give --region, such as eu-west-1", v.Region))
	}
	return errors.Join(errs...)
}

// Check refuses values of which no valid manifest can be made, with the flag that corrects each.
func (v Values) Check() error {
	errs := []error{v.CheckCluster()}
	if !accountID.MatchString(v.Account) {
		errs = append(errs, fmt.Errorf("%q is not an AWS account: give --account, twelve digits", v.Account))
	}
	for _, id := range v.Subnets {
		if !subnetID.MatchString(id) {
			errs = append(errs, fmt.Errorf("%q is not the id of a subnet: give --subnets, such as subnet-0123456789abcdef0", id))
		}
	}
	for _, id := range v.SecurityGroups {
		if !groupID.MatchString(id) {
			errs = append(errs, fmt.Errorf("%q is not the id of a security group: give --security-groups, such as sg-0123456789abcdef0", id))
		}
	}
	if (len(v.Subnets) == 0) != (len(v.SecurityGroups) == 0) {
		errs = append(errs, errors.New("--subnets and --security-groups belong together: give both or neither"))
	}
	if v.MaxGPUs < 1 {
		errs = append(errs, fmt.Errorf("--max-gpus %d allows no node: give at least the GPUs of one", v.MaxGPUs))
	}
	return errors.Join(append(errs, v.checkTypes())...)
}

// checkTypes refuses instance types that the pool cannot have.
func (v Values) checkTypes() error {
	all, err := catalog.Load()
	if err != nil {
		return fmt.Errorf("reading the catalog of instance types: %w", err)
	}
	if len(v.InstanceTypes) == 0 {
		return errors.New("the pool needs an instance type: give --instance-types, such as g4dn.xlarge,g5.xlarge")
	}
	var errs []error
	for _, name := range v.InstanceTypes {
		t, ok := all.Lookup(name)
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("%q is not an instance type that the catalog has: give --instance-types, such as g4dn.xlarge,g5.xlarge", name))
		case t.GPU.Manufacturer != "NVIDIA":
			errs = append(errs, fmt.Errorf("%s has no GPU of NVIDIA: give --instance-types, such as g4dn.xlarge,g5.xlarge", name))
		case t.GPU.Count > v.MaxGPUs:
			errs = append(errs, fmt.Errorf("%s has %d GPUs, and --max-gpus is %d: raise it, or leave the type out", name, t.GPU.Count, v.MaxGPUs))
		case architecture(all, name) != architecture(all, v.InstanceTypes[0]):
			errs = append(errs, fmt.Errorf("%s and %s have different architectures: choose one, since container images are of one", v.InstanceTypes[0], name))
		}
	}
	return errors.Join(errs...)
}

// Scaffold is the folder that poolwright init has written.
type Scaffold struct {
	// Folder is its path, as it was given.
	Folder string `json:"folder"`
	// Files are those that were written, by their paths.
	Files []WrittenFile `json:"files"`
}

// WrittenFile is a file that poolwright init has written.
type WrittenFile struct {
	// Path has the folder in it.
	Path string `json:"path"`
	// Object is the one that it declares; absent for a kustomization.
	Object document.ObjectName `json:"object,omitzero"`
}

// Objects are those that the files declare.
func (s Scaffold) Objects() []document.ObjectName {
	var out []document.ObjectName
	for _, file := range s.Files {
		if file.Object != (document.ObjectName{}) {
			out = append(out, file.Object)
		}
	}
	return out
}

// Print prints the paths of the files, a document of them, or the names of the objects that they declare, by document.ObjectFormats.
func (s Scaffold) Print(out io.Writer, output string) error {
	switch output {
	case document.ObjectFormats()[0]:
		for _, file := range s.Files {
			fmt.Fprintln(out, file.Path)
		}
		return nil
	case "name":
		return document.WriteNames(out, s.Objects())
	}
	return document.Value(out, output, document.Scaffold, s)
}

// Write renders the manifests into a folder, which it makes where needed, and returns the files in the order of their
// paths. Where one of them exists, it writes none and returns an error.
func Write(folder string, v Values) (Scaffold, error) {
	out := Scaffold{Folder: folder}
	if err := v.Check(); err != nil {
		return out, err
	}
	files, err := render(v)
	if err != nil {
		return out, err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(folder, name)
		if _, err := os.Lstat(path); err == nil {
			return out, fmt.Errorf("%s exists already: give another folder, or remove it", path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return out, fmt.Errorf("checking for %s: %w", path, err)
		}
		object, err := declaredIn(files[name])
		if err != nil {
			return out, fmt.Errorf("rendering %s: %w", name, err)
		}
		out.Files = append(out.Files, WrittenFile{path, object})
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return out, fmt.Errorf("creating the folder: %w", err)
	}
	for _, file := range out.Files {
		if err := create(file.Path, files[filepath.Base(file.Path)]); err != nil {
			return out, err
		}
	}
	return out, nil
}

// declaredIn is the object of a file; zero for a kustomization.
func declaredIn(content []byte) (document.ObjectName, error) {
	var object metav1.PartialObjectMetadata
	if err := yaml.Unmarshal(content, &object); err != nil || object.Name == "" {
		return document.ObjectName{}, err
	}
	return document.ObjectName{APIVersion: object.APIVersion, Kind: object.Kind, Namespace: object.Namespace, Name: object.Name}, nil
}

// create writes a file that does not exist.
func create(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("creating %s: %w", path, err)
	}
	_, err = file.Write(content)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// render makes the files by name.
func render(v Values) (map[string][]byte, error) {
	parsed, err := template.New("").Funcs(template.FuncMap{"join": strings.Join}).Option("missingkey=error").ParseFS(templates, "templates/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("parsing the templates: %w", err)
	}
	out := map[string][]byte{}
	for _, t := range parsed.Templates() {
		var b bytes.Buffer
		if err := t.Execute(&b, v); err != nil {
			return nil, fmt.Errorf("rendering %s: %w", t.Name(), err)
		}
		out[t.Name()] = b.Bytes()
	}
	return out, nil
}
