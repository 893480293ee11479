package checked

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/poolwright/poolwright/reconciler/state"
)

// ObjectProblems are problems by the object that they are about. The JSON form is a list, in the
// order of the keys.
type ObjectProblems map[state.Key][]state.Problem

// objectProblems is an element of the list.
type objectProblems struct {
	Key      state.Key       `json:"key"`
	Problems []state.Problem `json:"problems"`
}

// MarshalJSON implements json.Marshaler.
func (p ObjectProblems) MarshalJSON() ([]byte, error) {
	list := make([]objectProblems, 0, len(p))
	for _, key := range slices.SortedFunc(maps.Keys(p), state.Key.Compare) {
		list = append(list, objectProblems{key, p[key]})
	}
	return json.Marshal(list)
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *ObjectProblems) UnmarshalJSON(raw []byte) error {
	var list []objectProblems
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	*p = make(ObjectProblems, len(list))
	for _, of := range list {
		(*p)[of.Key] = of.Problems
	}
	return nil
}
