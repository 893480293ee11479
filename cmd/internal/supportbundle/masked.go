package supportbundle

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/cmd/internal/check"
	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// listing is the form of a file with the objects of a kind.
type listing struct {
	// More is true where the cluster has further ones.
	More  bool             `json:"more,omitempty"`
	Items []map[string]any `json:"items"`
}

// masked are the files with what was checked and collected, without secrets: a secret of any object is
// masked in all objects and texts. Kinds and names of objects stay, also where a variable has the same value.
func masked(checks check.Report, kinds []collected, logs []archived, failures []string) ([]archived, error) {
	m := &masker{secrets: map[string]bool{}, names: namesOf(checks, kinds)}
	var all []map[string]any
	for _, k := range kinds {
		for _, object := range k.objects {
			all = append(all, m.object(object))
		}
	}
	// First, since it finds whole values: what is masked by its shape leaves the rest of one.
	known := m.replacer()
	for i, object := range all {
		all[i], _ = texts(object, func(s string) string {
			if m.names[s] {
				return s
			}
			return known.Replace(s)
		}).(map[string]any)
	}
	all, text := report.Masked(all)
	content, err := encode(withoutSecrets(checks, func(s string) string { return text(known.Replace(s)) }))
	if err != nil {
		return nil, err
	}
	out := []archived{{"check.json", content}}
	for _, k := range kinds {
		content, err := encode(listing{k.more, append([]map[string]any{}, all[:len(k.objects)]...)})
		if err != nil {
			return nil, err
		}
		all = all[len(k.objects):]
		out = append(out, archived{k.file + ".json", content})
	}
	for _, log := range logs {
		out = append(out, archived{log.name, []byte(text(known.Replace(string(log.content))))})
	}
	for i, failure := range failures {
		failures[i] = sanitize.Text(text(known.Replace(failure)))
	}
	content, err = encode(map[string]any{"notCollected": append([]string{}, failures...)})
	return append(out, archived{"not-collected.json", content}), err
}

// withoutSecrets is a report without them: its messages repeat those of conditions and containers.
func withoutSecrets(r check.Report, text func(string) string) check.Report {
	r.Results = slices.Clone(r.Results)
	for i, result := range r.Results {
		if !kindAndName.MatchString(result.Object) {
			result.Object = text(result.Object)
		}
		result.Message, result.Remedy = text(result.Message), text(result.Remedy)
		r.Results[i] = result
	}
	return r
}

// kindAndName matches the object of a result: its kind, its namespace where it has one, and its name.
var kindAndName = regexp.MustCompile(`^([A-Z][A-Za-z0-9]*) (?:([a-z0-9][-a-z0-9]*)/)?([a-z0-9][-a-z0-9.]*)$`)

// namesOf are the kinds, namespaces and names of all objects. Whoever reads the bundle reads them, so that none is a secret.
func namesOf(checks check.Report, kinds []collected) map[string]bool {
	names := map[string]bool{}
	for _, k := range kinds {
		for _, object := range k.objects {
			u := unstructured.Unstructured{Object: object}
			names[u.GetKind()], names[u.GetNamespace()], names[u.GetName()] = true, true, true
		}
	}
	for _, result := range checks.Results {
		for _, part := range kindAndName.FindStringSubmatch(result.Object) {
			names[part] = true
		}
	}
	return names
}

// masker takes out of objects what may be a secret although plans show it: a plan is of what is
// declared in Git, a bundle leaves the organization.
type masker struct {
	// secrets are what was taken out.
	secrets map[string]bool
	// names are those of the objects. One that was taken out elsewhere is masked there, and stays as a name.
	names map[string]bool
}

// shortest is the length in bytes from which what was taken out is masked in other texts, too:
// shorter values, such as "true", are everywhere.
const shortest = 8

// object is a copy of an object without them, and without what nobody needs.
func (m *masker) object(in map[string]any) map[string]any {
	out, _ := m.value(in).(map[string]any)
	if meta, is := out["metadata"].(map[string]any); is {
		delete(meta, "managedFields")
	}
	if status, is := out["status"].(map[string]any); is {
		delete(status, "images") // a node's: long, and none of ours
	}
	if spec, is := out["spec"].(map[string]any); is {
		if values, is := spec["substitute"].(map[string]any); is {
			spec["substitute"] = m.values(values, func(string) bool { return false })
		}
	}
	return out
}

func (m *masker) value(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return m.fields(v)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = m.value(e)
		}
		return out
	}
	return v
}

// fields copies a map. What may hold a secret is known by its name, wherever it is.
func (m *masker) fields(in map[string]any) map[string]any {
	out := make(map[string]any, len(in))
	for name, v := range in {
		values, isMap := v.(map[string]any)
		list, isList := v.([]any)
		switch {
		case isMap && name == "annotations":
			out[name] = m.values(values, knownAnnotation)
		case isList && (name == "env" || name == "httpHeaders"):
			out[name] = m.named(list)
		case isList && (name == "args" || name == "command") && in["name"] != installation.Deployment:
			out[name] = m.all(list)
		default:
			out[name] = m.value(v)
		}
	}
	return out
}

// all masks each value of a list.
func (m *masker) all(in []any) []any {
	out := make([]any, len(in))
	for i, v := range in {
		out[i] = m.secret(v)
	}
	return out
}

// values masks the values of a map but those under known names.
func (m *masker) values(in map[string]any, known func(name string) bool) map[string]any {
	out := maps.Clone(in)
	for name, v := range in {
		if !known(name) {
			out[name] = m.secret(v)
		}
	}
	return out
}

// named masks the values of a list of names and values, but those of known variables.
func (m *masker) named(in []any) []any {
	out := make([]any, len(in))
	for i, v := range in {
		variable, is := v.(map[string]any)
		if !is {
			out[i] = m.secret(v)
			continue
		}
		variable = maps.Clone(variable)
		name, _ := variable["name"].(string)
		if value, has := variable["value"]; has && !slices.Contains(knownVariables, name) {
			variable["value"] = m.secret(value)
		}
		out[i] = variable
	}
	return out
}

func (m *masker) secret(v any) any {
	text, is := v.(string)
	if is && text == "" {
		return text
	}
	quoted := strconv.Quote(text)
	for _, s := range []string{text, strings.TrimSpace(text), quoted[1 : len(quoted)-1]} {
		if len(s) >= shortest && !m.names[s] {
			m.secrets[s] = true
		}
	}
	return sanitize.Masked
}

// replacer masks what was taken out, the longest first: one may contain another.
func (m *masker) replacer() *strings.Replacer {
	var pairs []string
	for _, secret := range slices.SortedFunc(maps.Keys(m.secrets), func(a, b string) int { return len(b) - len(a) }) {
		pairs = append(pairs, secret, sanitize.Masked)
	}
	return strings.NewReplacer(pairs...)
}

// texts applies a function to each text of a value.
func texts(v any, of func(string) string) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, e := range v {
			out[name] = texts(e, of)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = texts(e, of)
		}
		return out
	case string:
		return of(v)
	}
	return v
}

// knownVariables are the environment variables whose values are no secrets.
var knownVariables = []string{
	"AWS_DEFAULT_REGION", "AWS_REGION", "AWS_ROLE_ARN", "AWS_STS_REGIONAL_ENDPOINTS", "AWS_WEB_IDENTITY_TOKEN_FILE",
	"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "GOMEMLIMIT", "POD_NAMESPACE", "TMPDIR",
}

// knownAnnotation reports whether a tool writes the annotation, and no secret into it.
func knownAnnotation(name string) bool {
	return slices.ContainsFunc([]string{
		"poolwright.dev/", "karpenter.sh/", "karpenter.k8s.aws/", "compatibility.karpenter.sh/", "compatibility.karpenter.k8s.aws/",
		"reconcile.fluxcd.io/", "deployment.kubernetes.io/", "node.alpha.kubernetes.io/", "eks.amazonaws.com/", "kubernetes.io/config.",
	}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
