package lint

import (
	"maps"
	"slices"

	"github.com/poolwright/poolwright/reconciler/state"
)

// texts finds the unquoted true or 1 in the data of a ConfigMap or a Secret,
// which the API server would refuse. Values are in no message.
func (c *schemaValidator) texts(item state.Item) {
	if item.Key.Group != "" {
		return
	}
	var fields []string
	switch item.Key.Kind {
	case "ConfigMap":
		fields = []string{"data", "binaryData"}
	case "Secret":
		fields = []string{"data", "stringData"}
	}
	for _, field := range fields {
		given := item.Object[field]
		if given == nil {
			continue
		}
		values, isMap := given.(map[string]any)
		if !isMap {
			c.report(item, field, codeTypeInvalid, "this must be a map of texts")
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			// The API server reads null as an empty text.
			if _, isText := values[key].(string); !isText && values[key] != nil {
				c.report(item, field+"["+key+"]", codeTypeInvalid, "this must be text; quote it")
			}
		}
	}
}
