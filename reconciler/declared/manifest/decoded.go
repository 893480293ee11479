package manifest

// What Go's maps, lists and interfaces take, in bytes, with what the allocator rounds
// up to. A map has room for eight entries at once, and for up to twice as many as it
// holds when it grows.
const (
	mapBytes   = 352
	listBytes  = 48
	valueBytes = 96
)

// Decoded estimates how many bytes of memory a JSON text takes once it is decoded into
// maps and lists, which may be forty times its length. It decodes nothing, takes any
// text, and errs on the large side.
func Decoded(text []byte) int64 {
	total, quoted, escaped := int64(len(text)), false, false
	for _, c := range text {
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped, quoted = c == '\\', c != '"'
		case c == '"':
			quoted = true
		case c == '{':
			total += mapBytes
		case c == '[':
			total += listBytes
		case c == ',':
			total += valueBytes
		}
	}
	return total
}

// DecodedValue is Decoded for a value in canonical JSON form.
func DecodedValue(v any) int64 {
	total := int64(valueBytes)
	switch v := v.(type) {
	case map[string]any:
		total += mapBytes
		for k, e := range v {
			total += int64(len(k)) + DecodedValue(e)
		}
	case []any:
		total += listBytes
		for _, e := range v {
			total += DecodedValue(e)
		}
	case string:
		total += int64(len(v))
	}
	return total
}
