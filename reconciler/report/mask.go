package report

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/owner"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// masked is what stands where a secret was.
const masked = sanitize.Masked

// mask replaces secrets by marks before two objects are compared. Equal
// secrets get equal marks, so that the comparison still reports whether a secret
// changes; the mark itself says nothing of the value, and becomes "(masked)"
// before anything is shown.
//
// Secret is: data, stringData and annotations of every kind called Secret,
// also inside other objects; user data, wherever it stands; kubectl's copy of
// a whole object in an annotation; the value of a field or environment
// variable whose name ends in "token"; and what redact.go knows by its shape.
type mask struct {
	marks map[string]string
	// secrets are those of the plans' objects, to be found again in free text,
	// such as an API server's refusal that quotes the value.
	secrets map[string]bool
	// known finds any of them.
	known *strings.Replacer
}

func newMask(plans ...plan.Plan) *mask {
	m := &mask{marks: map[string]string{}, secrets: map[string]bool{}}
	for _, p := range plans {
		for _, c := range p.Changes {
			m.item(c.Before)
			m.item(c.After)
		}
	}
	var pairs []string
	for secret := range m.secrets {
		pairs = append(pairs, secret, masked)
	}
	m.known = strings.NewReplacer(pairs...)
	return m
}

// knownFloor is the length in bytes from which a secret is looked for in free
// text. Shorter ones would be found in every other word.
const knownFloor = 4

// marked finds marks, also where a path has quoted their edges.
var marked = regexp.MustCompile(`(?:\x00|\\x00)m[0-9]+(?:\x00|\\x00)`)

func (m *mask) mark(secret string) string {
	mark, ok := m.marks[secret]
	if !ok {
		mark = "\x00m" + strconv.Itoa(len(m.marks)) + "\x00"
		m.marks[secret] = mark
	}
	return mark
}

// item returns the object with marks for secrets; nil for a nil item.
func (m *mask) item(i *state.Item) map[string]any {
	if i == nil || i.Object == nil {
		return nil
	}
	return m.fields(i.Object, i.Key.Kind == "Secret")
}

func (m *mask) value(v any) any {
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

// fields masks a map that may be a Secret, or hold secrets under telling names.
func (m *mask) fields(in map[string]any, secret bool) map[string]any {
	kind, _ := in["kind"].(string)
	secret = secret || kind == "Secret"
	name, _ := in["name"].(string)
	out := make(map[string]any, len(in))
	for _, k := range slices.Sorted(maps.Keys(in)) {
		v := in[k]
		text, isText := v.(string)
		switch {
		case secret && (k == "data" || k == "stringData"),
			isText && (namesToken(k) || k == "value" && namesToken(name)),
			strings.EqualFold(k, "userData"),
			k == lastApplied:
			v = m.whole(v)
		case secret && k == "metadata":
			v = m.secretMetadata(v)
		case isText && isAPIMessage(k):
			v = m.apiMessage(text)
		default:
			v = m.value(v)
		}
		out[m.inline(k)] = v
	}
	return out
}

// isAPIMessage reports whether a text of that name is no field, but what a target
// reports about the comparison.
func isAPIMessage(name string) bool { return name == "managedFields" }

// apiMessage masks what an API server may have quoted from any field. Secrets are
// known once all objects have been observed; before that nothing is shown.
func (m *mask) apiMessage(s string) string {
	if m.known == nil {
		return s
	}
	return m.text(s)
}

// lastApplied holds a copy of a whole object, secrets included.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

func (m *mask) secretMetadata(v any) any {
	meta, ok := v.(map[string]any)
	if !ok {
		return m.whole(v)
	}
	meta = maps.Clone(meta)
	annotations, ok := meta["annotations"]
	delete(meta, "annotations")
	out := m.fields(meta, false)
	if ok {
		out["annotations"] = m.whole(annotations)
	}
	return out
}

// namesToken reports whether a field or variable of that name holds a token:
// token, HF_TOKEN, sessionToken; not httpTokens, tokenTTL.
func namesToken(name string) bool {
	return strings.HasSuffix(strings.ToLower(name), "token")
}

// whole masks every leaf of a value. Names of fields stay.
func (m *mask) whole(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out[m.inline(k)] = m.whole(v[k])
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = m.whole(e)
		}
		return out
	case nil:
		return nil
	case string:
		m.remember(v)
		if plain, err := base64.StdEncoding.DecodeString(v); err == nil && utf8.Valid(plain) {
			m.remember(string(plain))
		}
		return m.mark("s" + v)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return m.mark("")
	}
	m.remember(string(b))
	return m.mark(string(b))
}

func (m *mask) remember(secret string) {
	quoted := strconv.Quote(secret)
	for _, s := range []string{secret, strings.TrimSpace(secret), quoted[1 : len(quoted)-1]} {
		if len(s) >= knownFloor {
			m.secrets[s] = true
		}
	}
}

// inline marks the secret parts of a string that is otherwise no secret.
func (m *mask) inline(s string) string {
	return sanitize.RedactFunc(s, func(secret string) string { return m.mark("i" + secret) })
}

// text masks free text: secrets known from the plan's objects, and those with
// a shape of their own.
func (m *mask) text(s string) string {
	// The replacer is only asked whether there is anything to do: where two
	// secrets overlap, it would leave the end of the second.
	if m.known.Replace(s) != s {
		s = m.hideKnown(s)
	}
	return sanitize.Redact(s)
}

// hideKnown masks every byte that belongs to an occurrence of any secret.
func (m *mask) hideKnown(s string) string {
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
			out.WriteString(masked)
		}
	}
	return out.String()
}

// unmark turns marks into "(masked)".
func unmark(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[marked.ReplaceAllString(k, masked)] = unmark(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = unmark(e)
		}
		return out
	case string:
		return marked.ReplaceAllString(v, masked)
	}
	return v
}

// field unmarks one difference. Where the sides differ in nothing that may be
// seen, it states that instead of showing them.
func field(f plan.FieldChange) Field {
	out := Field{Path: marked.ReplaceAllString(f.Path, masked), Before: unmark(f.Before), After: unmark(f.After)}
	before, after := out.Before == masked, out.After == masked
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

func (m *mask) object(k state.Key) Object {
	return Object{Target: k.Target, Group: k.Group, Kind: k.Kind, Namespace: k.Namespace, Name: m.text(k.Name)}
}

func (m *mask) change(c plan.Change) Change {
	origin := c.Origin()
	out := Change{
		Object: m.object(c.Key), Action: string(c.Action), Drift: c.Drift,
		File: m.text(origin.File), Line: origin.Line, Hold: m.text(c.Hold.String()), Compared: c.Standing(),
	}
	switch c.Action {
	case plan.Create:
		out.Wanted, _ = unmark(m.item(c.After)).(map[string]any)
	case plan.Update:
		for _, f := range plan.Diff(m.item(c.Before), m.item(c.After)) {
			out.Fields = append(out.Fields, field(f))
		}
	case plan.Delete:
		if c.Before != nil && c.Before.Impact != "" {
			out.Notes = append(out.Notes, m.text(c.Before.Impact))
		}
	}
	if c.Before != nil && c.Before.Uncompared() != "" {
		out.Notes = append(out.Notes, m.text(c.Before.Uncompared()))
	}
	if c.Before != nil && c.Before.Owner != (owner.Reference{}) {
		out.Notes = append(out.Notes, "also managed by "+m.text(c.Before.Owner.String()))
	}
	return out
}

// holds groups the changes that wait by their reasons. What is only compared
// waits for nothing.
func (m *mask) holds(p plan.Plan) heldChanges {
	out, at := heldChanges{Holds: []Hold{}, ConfirmationToken: p.Confirmation()}, map[string]int{}
	for _, c := range p.Changes {
		if c.Standing() {
			continue
		}
		for _, reason := range c.Hold {
			text := reason.String()
			if _, known := at[text]; !known {
				at[text] = len(out.Holds)
				out.Holds = append(out.Holds, Hold{Rule: reason.Rule, Reason: m.text(text), Facts: m.facts(reason.Facts), Confirmable: reason.Token != nil})
			}
			h := &out.Holds[at[text]]
			h.Objects = append(h.Objects, m.object(c.Key))
		}
	}
	slices.SortStableFunc(out.Holds, func(a, b Hold) int {
		one := func(h Hold) int { return min(len(h.Facts.Object), 1) }
		return cmp.Or(cmp.Compare(one(a), one(b)), strings.Compare(a.Reason, b.Reason))
	})
	return out
}

// facts masks the texts among what a rule found.
func (m *mask) facts(f hold.Facts) hold.Facts {
	f.Object, f.Detail = m.text(f.Object), m.text(f.Detail)
	if f.Nodes != nil {
		nodes := *f.Nodes
		nodes.Unknown, nodes.Uncertain = m.text(nodes.Unknown), m.text(nodes.Uncertain)
		f.Nodes = &nodes
	}
	return f
}
