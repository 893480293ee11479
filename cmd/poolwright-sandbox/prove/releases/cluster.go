package releases

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/config/crd"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// Destination is where a release is installed, or frozen.
type Destination struct {
	// Admin may do everything in the cluster.
	Admin client.Client
	// System is the controller's namespace, Apps that of the applied objects.
	System, Apps string
	// Name, URL and Revision take the place of the placeholders.
	Name, URL, Revision string
}

// placeholders of the objects of a release, for what is another in each fixture: the fixture's name,
// which names of namespaces and NodePools contain, the URL of the Git server, and the revision.
const (
	fixtureName = "${fixture}"
	gitURL      = "${git}"
	revision    = "${revision}"
)

var (
	definitions = apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")
	syncs       = v1alpha1.GroupVersion.WithKind("Sync")
	nodePools   = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}
)

// Install makes the cluster what the release left, in the namespaces of a destination that has Karpenter's
// kinds. It returns the UIDs of the objects.
func (r Release) Install(ctx context.Context, in Destination) (uids []string, err error) {
	for _, text := range r.Definitions {
		if _, err := in.install(ctx, text, nil); err != nil {
			return nil, err
		}
	}
	// An object may name one before it by its UID.
	replaced := []string{fixtureName, in.Name, gitURL, in.URL, revision, in.Revision}
	for _, text := range r.Objects {
		pair, err := in.install(ctx, text, replaced)
		if err != nil {
			return nil, err
		}
		replaced, uids = append(replaced, pair...), append(uids, pair[1])
	}
	return uids, in.setStatus(ctx, r.Objects[0], replaced)
}

// decode reads an object of a release, with old and new texts in turn.
func decode(text string, replaced []string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.NewReplacer(replaced...).Replace(text)), &object.Object); err != nil {
		return nil, fmt.Errorf("reading an object of a release: %w", err)
	}
	return object, nil
}

// install creates an object as its manager did, and returns its old and its new UID. A definition
// takes the place of today's.
func (in Destination) install(ctx context.Context, text string, replaced []string) ([]string, error) {
	object, err := decode(text, replaced)
	if err != nil {
		return nil, err
	}
	uid, writer := object.GetUID(), object.GetManagedFields()[0]
	object.SetUID("")
	object.SetManagedFields(nil)
	if writer.Operation == metav1.ManagedFieldsOperationApply {
		err = in.Admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(writer.Manager), client.ForceOwnership)
	} else {
		err = in.Admin.Create(ctx, object, client.FieldOwner(writer.Manager))
	}
	return []string{string(uid), string(object.GetUID())}, err
}

// setStatus gives the Sync its status, which its creation drops.
func (in Destination) setStatus(ctx context.Context, text string, replaced []string) error {
	sync, err := decode(text, replaced)
	if err != nil {
		return err
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(syncs)
	if err := in.Admin.Get(ctx, client.ObjectKeyFromObject(sync), live); err != nil {
		return err
	}
	live.Object["status"] = sync.Object["status"]
	return in.Admin.Status().Update(ctx, live)
}

// Outdated is an error for each definition of our own kinds that is not today's.
func Outdated(ctx context.Context, reader client.Reader) error {
	all, err := list(ctx, reader, definitions, "")
	for _, d := range all {
		if serial, ours := d.GetAnnotations()[crd.SerialAnnotation]; ours && serial != strconv.Itoa(crd.Serial) {
			err = errors.Join(err, fmt.Errorf("%s has the serial %s", d.GetName(), serial))
		}
	}
	return err
}

// Freeze returns what a release has left in the cluster. It has ended.
func Freeze(ctx context.Context, in Destination) (Release, error) {
	var out Release
	all, err := list(ctx, in.Admin, definitions, "")
	if err != nil {
		return Release{}, err
	}
	all = slices.DeleteFunc(all, func(d unstructured.Unstructured) bool { return d.GetAnnotations()[crd.SerialAnnotation] == "" })
	if out.Definitions, err = in.texts(all); err != nil {
		return Release{}, err
	}
	core := func(kind string) schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind(kind) }
	for _, of := range []struct {
		kind      schema.GroupVersionKind
		namespace string
	}{
		{syncs, in.System}, {core("ConfigMap"), in.Apps}, {core("Secret"), in.Apps}, {core("ServiceAccount"), in.Apps}, {nodePools, ""}, {core("ConfigMap"), in.System},
	} {
		objects, err := list(ctx, in.Admin, of.kind, of.namespace)
		if err != nil {
			return Release{}, err
		}
		texts, err := in.texts(slices.DeleteFunc(objects, madeByCluster))
		if err != nil {
			return Release{}, err
		}
		out.Objects = append(out.Objects, texts...)
	}
	return out, nil
}

func list(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, namespace string) ([]unstructured.Unstructured, error) {
	objects := &unstructured.UnstructuredList{}
	objects.SetGroupVersionKind(kind)
	err := reader.List(ctx, objects, client.InNamespace(namespace))
	return objects.Items, err
}

// madeByCluster reports whether a new namespace has the object.
func madeByCluster(o unstructured.Unstructured) bool {
	return slices.Contains([]string{"kube-root-ca.crt", "default"}, o.GetName())
}

// texts are objects with placeholders.
func (in Destination) texts(objects []unstructured.Unstructured) ([]string, error) {
	placeholders := strings.NewReplacer(in.URL, gitURL, in.Revision, revision, in.Name, fixtureName)
	var out []string
	for _, object := range objects {
		text, err := frozenText(object)
		if err != nil {
			return nil, err
		}
		out = append(out, placeholders.Replace(text))
	}
	return out, nil
}

// frozenText is an object without what the API server sets, but for its UID and who wrote it.
func frozenText(o unstructured.Unstructured) (string, error) {
	managers := o.GetManagedFields()
	writer := managers[0]
	if i := slices.IndexFunc(managers, func(m metav1.ManagedFieldsEntry) bool { return m.Operation == metav1.ManagedFieldsOperationApply }); i >= 0 {
		writer = managers[i]
	}
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: writer.Manager, Operation: writer.Operation}})
	for _, field := range []string{"resourceVersion", "creationTimestamp", "generation"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	if o.GroupVersionKind() != syncs {
		unstructured.RemoveNestedField(o.Object, "status")
	}
	text, err := yaml.Marshal(o.Object)
	return string(text), err
}
