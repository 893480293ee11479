package child

import (
	"fmt"

	"github.com/poolwright/poolwright/reconciler/declared/checked"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/state"
)

// encodeFolder is a folder as a frame has it: a list of it and of the Items of its Set. A Set that
// encoded itself would be scanned three times more when it is decoded.
func encodeFolder(found checked.Folder) ([]byte, error) {
	items := found.Set.Items()
	for i, item := range items {
		items[i].Object, _ = state.Fractional(item.Object).(map[string]any)
	}
	return encoded([]any{limited(found), items})
}

// Decode implements rendercache.Renderer: it decodes what a child wrote of a folder, which it
// does not trust. Nothing is an empty folder.
func (*Runner) Decode(encoded []byte) (checked.Folder, error) {
	var found checked.Folder
	var items []state.Item
	if len(encoded) > 0 {
		if err := manifest.Unmarshal(encoded, &[]any{&found, &items}); err != nil {
			return checked.Folder{}, fmt.Errorf("reading what was rendered: %w", err)
		}
	}
	for i, f := range items {
		// What a declaration does not fill is for targets to set, never for a child.
		items[i] = state.Item{Key: f.Key, Version: f.Version, Object: f.Object, Origin: f.Origin}
	}
	found.Set = state.NewSet(items...)
	return limited(found), nil
}
