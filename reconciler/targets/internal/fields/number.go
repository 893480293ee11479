package fields

import "math"

// Int64 is the whole number of a JSON value, and whether it is one. 1.0 is; a fraction, a
// text and what is out of range are not.
func Int64(value any) (int64, bool) {
	switch n := value.(type) {
	case int64:
		return n, true
	case float64:
		return int64(n), n == math.Trunc(n) && math.Abs(n) < 1<<63
	}
	return 0, false
}
