package simulate

import (
	"fmt"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/simulate/internal/workload"
)

// Reader reads declared objects as the API server would keep them, with the
// defaults of the CRDs that the engine installs. It is made once and safe for
// concurrent use.
type Reader struct {
	schemas map[string]*structural.Structural
}

// NewReader compiles the schemas, in a few milliseconds. An error means that the
// linked Karpenter's CRDs are broken.
func NewReader() (*Reader, error) {
	r := &Reader{schemas: map[string]*structural.Structural{}}
	for _, text := range [][]byte{awsapis.NodePoolCRD, awsapis.EC2NodeClassCRD, awsapis.NodeOverlayCRD} {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(text, &crd); err != nil {
			return nil, fmt.Errorf("reading an embedded CRD: %w", err)
		}
		for _, version := range crd.Spec.Versions {
			var internal apiextensions.JSONSchemaProps
			if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, &internal, nil); err != nil {
				return nil, fmt.Errorf("reading the embedded CRD %s: %w", crd.Name, err)
			}
			tree, err := structural.NewStructural(&internal)
			if err != nil {
				return nil, fmt.Errorf("reading the embedded CRD %s: %w", crd.Name, err)
			}
			r.schemas[crd.Spec.Group+"/"+version.Name+"/"+crd.Spec.Names.Kind] = tree
		}
	}
	return r, nil
}

// Add adds a declared object to the snapshot: a NodePool, EC2NodeClass, NodeOverlay,
// DaemonSet or RuntimeClass, and as its Workloads each Deployment, ReplicaSet,
// StatefulSet, Job, CronJob and Pod. Every other kind is passed over. The object is
// not changed. An error names what cannot be read; the snapshot is then as it was.
func (r *Reader) Add(snapshot *provision.ClusterSnapshot, object map[string]any) error {
	u := unstructured.Unstructured{Object: object}
	kind := u.GetAPIVersion() + "/" + u.GetKind()
	var err error
	switch kind {
	case "karpenter.sh/v1/NodePool":
		err = add(&snapshot.NodePools, r.complete(kind, object), new(karpv1.NodePool))
	case "karpenter.k8s.aws/v1/EC2NodeClass":
		err = add(&snapshot.NodeClasses, r.complete(kind, object), new(awsv1.EC2NodeClass))
	case "karpenter.sh/v1alpha1/NodeOverlay":
		err = add(&snapshot.Overlays, r.complete(kind, object), new(karpv1alpha1.NodeOverlay))
	case "apps/v1/DaemonSet":
		err = add(&snapshot.DaemonSets, object, new(appsv1.DaemonSet))
	case "node.k8s.io/v1/RuntimeClass":
		err = add(&snapshot.RuntimeClasses, object, new(nodev1.RuntimeClass))
	default:
		err = workload.Add(snapshot, kind, object)
	}
	if err != nil {
		return fmt.Errorf("reading %s %q: %w", u.GetKind(), u.GetName(), err)
	}
	return nil
}

// complete fills in what the API server would.
func (r *Reader) complete(kind string, object map[string]any) map[string]any {
	object = runtime.DeepCopyJSON(object)
	defaulting.PruneNonNullableNullsWithoutDefaults(object, r.schemas[kind])
	defaulting.Default(object, r.schemas[kind])
	return object
}

func add[T any](list *[]*T, object map[string]any, into *T) error {
	if err := workload.Decode(object, into); err != nil {
		return err
	}
	*list = append(*list, into)
	return nil
}
