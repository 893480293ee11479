package child

import (
	"fmt"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/poolwright/poolwright/reconciler/declared/checked"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Decode implements rendercache.Renderer: it decodes what a child wrote of a folder, which it
// does not trust. Nothing is an empty folder.
func (*Runner) Decode(encoded []byte) (checked.Folder, error) {
	var found result
	if len(encoded) > 0 {
		if err := utiljson.Unmarshal(encoded, &found); err != nil {
			return checked.Folder{}, fmt.Errorf("reading what was rendered: %w", err)
		}
	}
	for i, f := range found.Items {
		// What a declaration does not fill is for targets to set, never for a child.
		found.Items[i] = state.Item{Key: f.Key, Version: f.Version, Object: f.Object, Origin: f.Origin}
	}
	found.Folder.Set = state.NewSet(found.Items...)
	return limited(found.Folder), nil
}
