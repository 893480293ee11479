package variables

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
)

// Input are the variables that a command is given: values on the command line, and a
// file that holds a Sync's manifest and, beside it, the ConfigMaps and Secrets that the
// Sync takes variables from. The zero value has none.
type Input struct {
	// Values are by name, and win over all others.
	Values map[string]string
	// SyncFile is the path of a file with a Sync's manifest; empty for none.
	SyncFile string
}

// Empty reports whether no variables are given.
func (i Input) Empty() bool { return len(i.Values) == 0 && i.SyncFile == "" }

// File is what a file holds. The zero value holds nothing.
type File struct {
	// Sync is nil where there is none.
	Sync    *v1alpha1.Sync
	sources map[v1alpha1.SubstituteReference]substitute.Source
}

// Read reads the file, if one is named. One that does not hold exactly one Sync is an error.
func (i Input) Read() (File, error) {
	if i.SyncFile == "" {
		return File{}, nil
	}
	in, err := os.Open(i.SyncFile)
	if err != nil {
		return File{}, fmt.Errorf("reading the Sync: %w", err)
	}
	defer in.Close()
	out, err := read(in)
	if err != nil {
		return File{}, fmt.Errorf("%s: %w", i.SyncFile, err)
	}
	return out, nil
}

// maxFile is how much of a file is read, in bytes.
const maxFile = 4 << 20

func read(in io.Reader) (File, error) {
	out := File{sources: map[v1alpha1.SubstituteReference]substitute.Source{}}
	beside := map[v1alpha1.SubstituteReference]string{}
	documents := yaml.NewYAMLOrJSONDecoder(io.LimitReader(in, maxFile), 4096)
	for n := 1; ; n++ {
		var object unstructured.Unstructured
		err := documents.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && object.Object != nil {
			err = out.add(object, beside)
		}
		if err != nil {
			return File{}, fmt.Errorf("document %d: %w", n, err)
		}
	}
	if out.Sync == nil {
		return File{}, errors.New("this holds no Sync (apiVersion: poolwright.dev/v1alpha1)")
	}
	for ref, namespace := range beside {
		if namespace != "" && out.Sync.Namespace != "" && namespace != out.Sync.Namespace {
			delete(out.sources, ref) // As in a cluster, a Sync reads nothing of other namespaces.
		}
	}
	return out, nil
}

// add takes in one document. Kinds that give no variables may lie in the file, too.
func (f *File) add(object unstructured.Unstructured, beside map[v1alpha1.SubstituteReference]string) error {
	ref := v1alpha1.SubstituteReference{Kind: object.GetKind(), Name: object.GetName()}
	name := ref.Kind + " " + ref.Name
	switch object.GroupVersionKind() {
	case v1alpha1.GroupVersion.WithKind("Sync"):
		if f.Sync != nil {
			return errors.New("this is a second Sync; name a file with one")
		}
		f.Sync = &v1alpha1.Sync{}
		return convert(object, f.Sync)
	case corev1.SchemeGroupVersion.WithKind("ConfigMap"):
		var found corev1.ConfigMap
		if err := convert(object, &found); err != nil {
			return err
		}
		f.sources[ref], beside[ref] = substitute.Public(name, found.Data), found.Namespace
	case corev1.SchemeGroupVersion.WithKind("Secret"):
		values, err := secret(object)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		f.sources[ref], beside[ref] = substitute.Secret(name, values), object.GetNamespace()
	}
	return nil
}

// convert fills in a typed object, and refuses fields that it does not have.
func convert(object unstructured.Unstructured, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
		return fmt.Errorf("reading %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// secret are the values of a Secret, by name. No error repeats one.
func secret(object unstructured.Unstructured) (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, field := range []string{"data", "stringData"} {
		values, _, err := unstructured.NestedStringMap(object.Object, field)
		if err != nil {
			return nil, fmt.Errorf("%s must be a map of texts", field)
		}
		for name, value := range values {
			out[name] = []byte(value)
			if field == "stringData" {
				continue
			}
			if out[name], err = base64.StdEncoding.DecodeString(value); err != nil {
				return nil, fmt.Errorf("data[%s] is not base64; put text into stringData", name)
			}
		}
	}
	return out, nil
}

// Lookup finds what variables come from in the file, and otherwise with the rest, which
// may be nil.
func (f File) Lookup(rest Lookup) Lookup {
	return func(ctx context.Context, ref v1alpha1.SubstituteReference) (substitute.Source, bool, error) {
		if source, ok := f.sources[v1alpha1.SubstituteReference{Kind: ref.Kind, Name: ref.Name}]; ok {
			return source, true, nil
		}
		if rest == nil {
			return substitute.Source{}, false, nil
		}
		return rest(ctx, ref)
	}
}

// Apply is a Sync with the input: as that of the file, where there is one, and with the
// values over its own. An SSM parameter whose variable is given is not read.
func (i Input) Apply(sync *v1alpha1.Sync, file File) *v1alpha1.Sync {
	out := sync.DeepCopy()
	if file.Sync != nil {
		out.Spec = *file.Sync.Spec.DeepCopy()
		if file.Sync.Name != "" {
			out.Name = file.Sync.Name
		}
		out.Status.Parameters = file.Sync.Status.Parameters
	}
	out.Spec.SubstituteFrom = slices.DeleteFunc(out.Spec.SubstituteFrom, func(ref v1alpha1.SubstituteReference) bool {
		_, given := i.Values[ref.Variable]
		return given && ref.Kind == v1alpha1.SubstituteSSMParameter
	})
	if out.Spec.Substitute == nil {
		out.Spec.Substitute = map[string]string{}
	}
	maps.Copy(out.Spec.Substitute, i.Values)
	return out
}
