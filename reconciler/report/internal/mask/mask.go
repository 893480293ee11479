// Package mask keeps secrets out of what is shown of a plan: of its objects, and of texts
// that may quote them.
//
// It shows that a secret changes, and refuses to show anything by which one could be found
// out: neither its value, nor its length or digest. Start reading at Mask.
package mask

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/owner"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// Mask replaces secrets by marks before two objects are compared. Equal
// secrets get equal marks, so that the comparison still reports whether a secret
// changes; the mark itself has nothing of the value, and becomes "(masked)"
// before anything is shown.
//
// Secret is: data, stringData and annotations of every kind called Secret,
// also inside other objects; user data, wherever it stands; kubectl's copy of
// a whole object in an annotation; the value of a field or environment
// variable whose name ends in "token"; and what package sanitize finds by its shape.
type Mask struct {
	marks map[string]string
	// secrets are those of the plans' objects, to be found again in free text,
	// such as an API server's refusal that quotes the value.
	secrets map[string]bool
	// known finds any of them.
	known *strings.Replacer
}

// New returns the Mask of the secrets in all objects that the plans change, or of which they have
// ignored fields.
func New(plans ...plan.Plan) *Mask {
	m := &Mask{marks: map[string]string{}, secrets: map[string]bool{}}
	for _, p := range plans {
		for _, c := range p.Changes {
			m.item(c.Before)
			m.item(c.After)
		}
		for _, i := range p.Ignored {
			m.item(&i.Live)
			m.item(&i.Declared)
		}
	}
	var pairs []string
	for secret := range m.secrets {
		pairs = append(pairs, secret, sanitize.Masked)
	}
	m.known = strings.NewReplacer(pairs...)
	return m
}

// knownFloor is the length in bytes from which a secret is searched for in free text.
// Shorter ones would be found everywhere.
const knownFloor = 4

// markPattern finds marks, also where a path has quoted their edges.
var markPattern = regexp.MustCompile(`(?:\x00|\\x00)m[0-9]+(?:\x00|\\x00)`)

func (m *Mask) mark(secret string) string {
	mark, ok := m.marks[secret]
	if !ok {
		mark = "\x00m" + strconv.Itoa(len(m.marks)) + "\x00"
		m.marks[secret] = mark
	}
	return mark
}

// item returns the object with marks for secrets; nil for a nil item.
func (m *Mask) item(i *state.Item) map[string]any {
	if i == nil || i.Object == nil {
		return nil
	}
	return m.fields(i.Object, i.Key.Kind == "Secret")
}

func (m *Mask) value(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return m.fields(v, false)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = m.value(e)
		}
		return out
	case string:
		return m.inline(v)
	}
	return v
}

// fields masks a map that may be a Secret, or hold secrets under names that give them
// away.
func (m *Mask) fields(in map[string]any, secret bool) map[string]any {
	kind, _ := in["kind"].(string)
	secret = secret || kind == "Secret"
	name, _ := in["name"].(string)
	out := make(map[string]any, len(in))
	for _, k := range slices.Sorted(maps.Keys(in)) {
		v := in[k]
		_, isText := v.(string)
		switch {
		case secret && (k == "data" || k == "stringData"),
			isText && (namesToken(k) || k == "value" && namesToken(name)),
			strings.EqualFold(k, "userData"),
			k == lastApplied:
			v = m.maskAll(v)
		case secret && k == "metadata":
			v = m.secretMetadata(v)
		default:
			v = m.value(v)
		}
		out[m.inline(k)] = v
	}
	return out
}

// lastApplied holds a copy of a whole object, secrets included.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

func (m *Mask) secretMetadata(v any) any {
	meta, ok := v.(map[string]any)
	if !ok {
		return m.maskAll(v)
	}
	meta = maps.Clone(meta)
	annotations, ok := meta["annotations"]
	delete(meta, "annotations")
	out := m.fields(meta, false)
	if ok {
		out["annotations"] = m.maskAll(annotations)
	}
	return out
}

// namesToken reports whether a field or variable of that name holds a token:
// token, HF_TOKEN, sessionToken; not httpTokens, tokenTTL.
func namesToken(name string) bool {
	return strings.HasSuffix(strings.ToLower(name), "token")
}

// maskAll masks every leaf of a value. Names of fields stay.
func (m *Mask) maskAll(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out[m.inline(k)] = m.maskAll(v[k])
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = m.maskAll(e)
		}
		return out
	case nil:
		return nil
	case string:
		m.add(v)
		if plain, err := base64.StdEncoding.DecodeString(v); err == nil && utf8.Valid(plain) {
			m.add(string(plain))
		}
		return m.mark("s" + v)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return m.mark("")
	}
	m.add(string(b))
	return m.mark(string(b))
}

func (m *Mask) add(secret string) {
	quoted := strconv.Quote(secret)
	for _, s := range []string{secret, strings.TrimSpace(secret), quoted[1 : len(quoted)-1]} {
		if len(s) >= knownFloor {
			m.secrets[s] = true
		}
	}
}

// inline marks the secret parts of a string that is otherwise no secret.
func (m *Mask) inline(s string) string {
	return sanitize.RedactFunc(s, func(secret string) string { return m.mark("i" + secret) })
}

// Text masks free text: secrets known from the plan's objects, and those with
// a shape of their own.
func (m *Mask) Text(s string) string {
	// The replacer only finds out whether there is anything to do: where two secrets
	// overlap, it would leave the end of the second.
	if m.known.Replace(s) != s {
		s = m.hideKnown(s)
	}
	return sanitize.Redact(s)
}

// hideKnown masks every byte that belongs to an occurrence of any secret.
func (m *Mask) hideKnown(s string) string {
	secret := make([]bool, len(s))
	for known := range m.secrets {
		end := 0
		for from := 0; ; from++ {
			at := strings.Index(s[from:], known)
			if at < 0 {
				break
			}
			from += at
			for end = max(end, from); end < from+len(known); end++ {
				secret[end] = true
			}
		}
	}
	var out strings.Builder
	for i := range len(s) {
		switch {
		case !secret[i]:
			out.WriteByte(s[i])
		case i == 0 || !secret[i-1]:
			out.WriteString(sanitize.Masked)
		}
	}
	return out.String()
}

// Object is an object as it is shown, with "(masked)" for each secret; empty for none.
func (m *Mask) Object(i *state.Item) map[string]any {
	out, _ := unmark(m.item(i)).(map[string]any)
	return out
}

// unmark turns marks into "(masked)".
func unmark(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[markPattern.ReplaceAllString(k, sanitize.Masked)] = unmark(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = unmark(e)
		}
		return out
	case string:
		return markPattern.ReplaceAllString(v, sanitize.Masked)
	}
	return v
}

// Field is one field's difference. A side on which the field is absent has no
// value.
type Field struct {
	// Path is as in plan.FieldChange.
	Path string `json:"path"`
	// Before and After are the values; both absent when Masked is set.
	Before any `json:"before,omitempty"`
	After  any `json:"after,omitempty"`
	// Masked is "added", "changed" or "removed" when the difference lies in a
	// secret, of which neither value nor length is shown.
	Masked string `json:"masked,omitempty"`
}

// Diff is what a change makes of the fields of its object, sorted by path.
func (m *Mask) Diff(c plan.Change) []Field {
	var out []Field
	for _, f := range c.Diff(m.item(c.Before), m.item(c.After)) {
		if o, ok := f.Before.(owner.Fields); ok {
			f.Before = m.Text(o.String())
		}
		out = append(out, visible(f))
	}
	return out
}

// visible unmarks one difference. Where the sides differ in nothing that may be shown,
// it states that instead of showing them.
func visible(f plan.FieldChange) Field {
	out := Field{Path: markPattern.ReplaceAllString(f.Path, sanitize.Masked), Before: unmark(f.Before), After: unmark(f.After)}
	before, after := out.Before == sanitize.Masked, out.After == sanitize.Masked
	switch {
	case before && f.After == nil:
		return Field{Path: out.Path, Masked: "removed"}
	case after && f.Before == nil:
		return Field{Path: out.Path, Masked: "added"}
	case !state.Equal(f.Before, f.After) && state.Equal(out.Before, out.After):
		return Field{Path: out.Path, Masked: "changed"}
	}
	return out
}
