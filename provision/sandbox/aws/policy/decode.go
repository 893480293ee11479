package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	// longest bounds what is read; IAM's own bound is 10,240 characters.
	longest = 64 << 10
	deepest = 8 // a document has six levels
)

// decode reads JSON into maps, lists and scalars. Other than encoding/json it
// refuses an object that names a key twice: which one counts is undefined.
func decode(text string) (any, error) {
	if len(text) > longest {
		return nil, fmt.Errorf("it is longer than %d bytes", longest)
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	v, err := value(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the document")
	}
	return v, nil
}

func value(d *json.Decoder, depth int) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, fmt.Errorf("it is no JSON: %w", err)
	}
	delim, ok := t.(json.Delim)
	switch {
	case !ok:
		return t, nil
	case depth == deepest:
		return nil, errors.New("it is nested too deeply")
	case delim == '{':
		return object(d, depth)
	}
	list := []any{}
	for d.More() {
		v, err := value(d, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, closing(d)
}

func object(d *json.Decoder, depth int) (any, error) {
	out := map[string]any{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("it is no JSON: %w", err)
		}
		key, ok := t.(string)
		if !ok {
			return nil, fmt.Errorf("it is no JSON: %v is no key", t)
		}
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("the key %q stands twice in one object", key)
		}
		if out[key], err = value(d, depth+1); err != nil {
			return nil, err
		}
	}
	return out, closing(d)
}

func closing(d *json.Decoder) error {
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("it is no JSON: %w", err)
	}
	return nil
}
