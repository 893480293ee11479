package manifest

import (
	"bytes"
	"encoding/json"
	"encoding/json/jsontext"
	jsonv2 "encoding/json/v2"
	"strconv"
	"unicode/utf8"
)

// Unmarshal decodes what json.Marshal has written of values that hold objects. Numbers in objects are
// int64 where they are written as integers, as the rest of Kubernetes decodes them. Equal texts of all
// objects are one in memory: names of fields, kinds and labels are most of what a folder's objects take.
func Unmarshal(raw []byte, into any) error {
	known := texts{}
	return jsonv2.Unmarshal(raw, into, json.DefaultOptionsV1(), jsonv2.WithUnmarshalers(jsonv2.UnmarshalFromFunc(known.object)))
}

// maxShared is the length of a text that is shared, in bytes: longer ones are hardly ever equal.
const maxShared = 64

// texts are those that were decoded already.
type texts map[string]string

// object decodes a JSON object, or null.
func (t texts) object(from *jsontext.Decoder, into *map[string]any) error {
	value, err := t.value(from)
	*into, _ = value.(map[string]any)
	return err
}

// value decodes any JSON value.
func (t texts) value(from *jsontext.Decoder) (any, error) {
	if from.PeekKind() == jsontext.KindString {
		return t.text(from)
	}
	token, err := from.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case jsontext.KindBeginObject:
		return t.fields(from)
	case jsontext.KindBeginArray:
		return t.list(from)
	case jsontext.KindNumber:
		return number(token.String())
	case jsontext.KindTrue, jsontext.KindFalse:
		return token.Bool(), nil
	default:
		return nil, nil
	}
}

func (t texts) fields(from *jsontext.Decoder) (map[string]any, error) {
	out := map[string]any{}
	for from.PeekKind() != jsontext.KindEndObject {
		name, err := t.text(from)
		if err != nil {
			return nil, err
		}
		if out[name], err = t.value(from); err != nil {
			return nil, err
		}
	}
	_, err := from.ReadToken()
	return out, err
}

func (t texts) list(from *jsontext.Decoder) ([]any, error) {
	out := []any{}
	for from.PeekKind() != jsontext.KindEndArray {
		value, err := t.value(from)
		if err != nil {
			return nil, err
		}
		out = append(out, value)
	}
	_, err := from.ReadToken()
	return out, err
}

// text decodes a JSON string. One that was decoded already takes no memory.
func (t texts) text(from *jsontext.Decoder) (string, error) {
	quoted, err := from.ReadValue()
	if err != nil {
		return "", err
	}
	plain := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(plain, '\\') >= 0 || !utf8.Valid(plain) {
		if plain, err = jsontext.AppendUnquote(nil, quoted); err != nil {
			return "", err
		}
	}
	if len(plain) > maxShared {
		return string(plain), nil
	}
	if known, ok := t[string(plain)]; ok {
		return known, nil
	}
	text := string(plain)
	t[text] = text
	return text, nil
}

// number is an integer where the text is one that an int64 holds.
func number(text string) (any, error) {
	if whole, err := strconv.ParseInt(text, 10, 64); err == nil {
		return whole, nil
	}
	return strconv.ParseFloat(text, 64)
}
