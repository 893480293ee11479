package render

import (
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/kustomize/api/resource"

	"github.com/poolwright/poolwright/reconciler/declared/internal/yamlvalue"
)

// valueOf is a rendered object in canonical JSON form: what reading it gives once it is written, as
// kustomize build does. That way through text takes a fifth of a rendering.
func valueOf(r *resource.Resource) (map[string]any, error) {
	if v, ok := yamlvalue.Decode(r.YNode()); ok {
		if object, isMap := v.(map[string]any); isMap {
			return object, nil
		}
	}
	b, err := r.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var object map[string]any
	err = utiljson.Unmarshal(b, &object)
	return object, err
}
