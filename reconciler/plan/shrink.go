package plan

import "strconv"

// shrinks reports whether a number in the map at a path is lower after a change than
// before it. A number that is missing afterwards is not lower: nothing is declared of
// it any more.
func shrinks(path []string, before, after map[string]any) bool {
	was, is := mapAt(before, path), mapAt(after, path)
	for name, value := range is {
		now, ok := integer(value)
		if !ok {
			continue
		}
		if then, ok := integer(was[name]); ok && now < then {
			return true
		}
	}
	return false
}

func mapAt(object map[string]any, path []string) map[string]any {
	for _, step := range path {
		object, _ = object[step].(map[string]any)
	}
	return object
}

func integer(value any) (int64, bool) {
	switch v := value.(type) {
	case int64:
		return v, true
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		return n, err == nil
	}
	return 0, false
}
