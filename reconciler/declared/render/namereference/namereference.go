// Package namereference finds what leads kustomize from one group of rendered objects to another:
// a name that it has changed, and a reference to it in an object of another group. It reads no
// kustomization, and takes every text for a reference, where kustomize follows those of some fields
// only. Start reading at Changes.Found.
package namereference

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/resid"
)

// Changes are what kustomizations do to the names and namespaces of objects.
type Changes struct {
	// Prefixes and Suffixes are what is put around names.
	Prefixes, Suffixes []string
	// Hashes reports that hashes of contents are put behind names.
	Hashes bool
	// Recorded reports that kustomize records the former names and namespaces of objects for
	// any other reason.
	Recorded bool
}

// longestName is what no name may be longer than, so that longer texts are none, in bytes.
const longestName = 1 << 10

// referral is an object by one of its names.
type referral struct {
	group   int
	id      resid.ResId
	renamed bool
}

// Moves reports whether kustomize may change references at all.
func (c Changes) Moves() bool {
	return c.Recorded || c.Hashes || len(c.Prefixes)+len(c.Suffixes) > 0
}

// Found reports whether the groups that were rendered may differ from what is rendered as a
// whole: two objects are the same, or a text of one is a name that an object of another group
// has or had. Only some fields are references for kustomize; here every text counts as one.
func (c Changes) Found(groups [][]map[string]any) bool {
	found := map[resid.ResId]bool{}
	byName := map[string][]referral{}
	for g, objects := range groups {
		for _, o := range objects {
			id := idOf(o)
			key := id
			key.Namespace = id.EffectiveNamespace()
			if found[key] {
				return true
			}
			found[key] = true
			if !c.Moves() {
				continue
			}
			names := c.names(id.Name)
			if names == nil || len(id.Name) > longestName || slices.ContainsFunc(names, noText) {
				return true
			}
			for _, name := range names {
				byName[name] = append(byName[name], referral{g, id, len(names) > 1})
			}
		}
	}
	if !c.Moves() {
		return false
	}
	for g, objects := range groups {
		for _, o := range objects {
			if c.refers(g, idOf(o), o, byName) {
				return true
			}
		}
	}
	return false
}

// refers reports whether a text below v may refer to an object of another group, in a way
// that changes it.
func (c Changes) refers(g int, from resid.ResId, v any, byName map[string][]referral) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if c.refers(g, from, e, byName) {
				return true
			}
		}
	case []any:
		for _, e := range v {
			if c.refers(g, from, e, byName) {
				return true
			}
		}
	case string:
		return c.refersBy(g, from, v, byName)
	}
	return false
}

// refersBy is refers for a text.
func (c Changes) refersBy(g int, from resid.ResId, text string, byName map[string][]referral) bool {
	if len(text) > longestName {
		return false
	}
	names := c.names(text)
	elsewhere, changes := names == nil, referencesHaveNamespaces(from.Kind) || names == nil
	for _, name := range names {
		for _, r := range byName[name] {
			if !inReach(from, r.id) {
				continue
			}
			elsewhere = elsewhere || r.group != g
			changes = changes || r.renamed
		}
	}
	return elsewhere && changes
}

// referencesHaveNamespaces reports the kinds in whose references kustomize also writes the namespace.
// All other references stay as they are where no name has changed.
func referencesHaveNamespaces(kind string) bool {
	switch kind {
	case "RoleBinding", "ClusterRoleBinding", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
		return true
	}
	return false
}

// inReach reports whether kustomize lets an object refer to another.
func inReach(from, to resid.ResId) bool {
	return from.IsClusterScoped() || to.IsClusterScoped() || referencesHaveNamespaces(from.Kind) ||
		to.Kind == "ServiceAccount" || from.EffectiveNamespace() == to.EffectiveNamespace()
}

var hashSuffix = regexp.MustCompile(`-[a-z0-9]{10}$`)

// names are all that a name may have been before something was put around it, itself included;
// nil where these are too many.
func (c Changes) names(name string) []string {
	const most = 32
	names := []string{name}
	for i := 0; i < len(names); i++ {
		add := func(shorter string) {
			if !slices.Contains(names, shorter) {
				names = append(names, shorter)
			}
		}
		for _, p := range c.Prefixes {
			add(strings.TrimPrefix(names[i], p))
		}
		for _, s := range c.Suffixes {
			add(strings.TrimSuffix(names[i], s))
		}
		if c.Hashes {
			add(hashSuffix.ReplaceAllString(names[i], ""))
		}
		if len(names) > most {
			return nil
		}
	}
	return names
}

// noText reports whether a name, written without quotes, is read as something else than text.
func noText(name string) bool {
	_, err := strconv.ParseFloat(name, 64)
	if err == nil {
		return true
	}
	if _, err := strconv.ParseInt(name, 0, 64); err == nil {
		return true
	}
	switch strings.ToLower(name) {
	case "", "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		return true
	}
	return false
}

func idOf(o map[string]any) resid.ResId {
	version, _ := o["apiVersion"].(string)
	kind, _ := o["kind"].(string)
	meta, _ := o["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	namespace, _ := meta["namespace"].(string)
	group, v := resid.ParseGroupVersion(version)
	return resid.NewResIdWithNamespace(resid.NewGvk(group, v, kind), name, namespace)
}
