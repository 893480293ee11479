// Package offline is the Kubernetes target of a Sync where there is no cluster.
//
// It refuses to observe and to correct. Start reading at New.
package offline

import (
	"context"
	"crypto/rand"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/ignore"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/manifest"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/mask"
)

// New makes the target of a Sync without a cluster, whose objects have that value of
// [v1alpha1.SyncLabel]. Its desired state is that of the one with a cluster as far as Git alone reports:
// kinds that only a cluster defines are taken as they are written, another DevicePlugin in the
// cluster and autoscalers outside Git are not regarded. Observe and Apply are errors.
//
// Secrets are masked under a key of its own, so that only what the same target
// desired can be compared.
// Fields are ignored by rules.
func New(label string, rules ignore.Rules) targets.Target {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // It never fails: the process would end.
	return &offline{label: label, rules: rules, mask: mask.WithKey(key)}
}

type offline struct {
	label string
	rules ignore.Rules
	mask  *mask.Masker
}

// Desired implements targets.Target.
func (o *offline) Desired(_ context.Context, declared state.Set) (state.Set, error) {
	if err := o.rules.Err(); err != nil {
		return state.Set{}, err
	}
	written := declared
	declared, problems := deviceplugin.Expand(declared)
	w := collector{target: o, declared: written, ignored: o.rules.Begin(), promised: map[schema.GroupKind]kinds.Kind{}, origins: map[state.Key]state.Origin{}, problems: problems}
	for item := range declared.All() {
		for _, kind := range promises(item) {
			w.promised[kind.GroupKind()] = kind
		}
	}
	for item := range declared.All() {
		if item.Key.Target == kinds.Target {
			w.add(item)
		}
	}
	set := w.set()
	if len(w.problems) > 0 {
		return set, &targets.ProblemsError{Problems: w.problems}
	}
	return set, nil
}

// Observe implements targets.Target.
func (o *offline) Observe(context.Context, state.Set) (state.Set, error) {
	return state.Set{}, state.Failf(state.Stalled, "Offline", "observing the cluster: there is none offline")
}

// Apply implements targets.Target.
func (o *offline) Apply(_ context.Context, c plan.Change) error {
	return state.Failf(state.Stalled, "Offline", "correcting %s: there is no cluster offline", c.Key)
}

// promises are the kinds that a CustomResourceDefinition defines.
func promises(item state.Item) []kinds.Kind {
	if item.Key.Kind != "CustomResourceDefinition" || item.Key.Group != "apiextensions.k8s.io" {
		return nil
	}
	return kinds.Defined(item.Object)
}

// collector collects what is desired.
type collector struct {
	target   *offline
	promised map[schema.GroupKind]kinds.Kind
	items    []state.Item
	origins  map[state.Key]state.Origin
	problems []state.Problem
	// declared is what the repository itself declares, without what a DevicePlugin stands for.
	declared state.Set
	ignored  *ignore.Matching
}

func (w *collector) problem(item state.Item, code finding.Code, format string, args ...any) {
	w.problems = append(w.problems, state.NewProblem(item.Origin, finding.New(code, format, args...)))
}

func (w *collector) add(item state.Item) {
	written := item.Key
	if item.Key.Name == "" {
		w.problem(item, finding.NameMissing, "%s has no metadata.name (generateName cannot be reconciled); give it a name", finding.NewFact("kind", item.Key.Kind))
		return
	}
	switch namespaced, known := w.namespaced(kinds.GVK(item.Key, item.Version).GroupKind()); {
	case known && !namespaced:
		item.Key.Namespace = ""
	case known && item.Key.Namespace == "":
		item.Key.Namespace = "default"
	}
	if first, twice := w.origins[item.Key]; twice {
		w.problem(item, finding.DuplicateObject, "%s is declared twice, first at %s", finding.NewFact("object", item.Key), finding.NewFact("declaredAt", first))
		return
	}
	w.origins[item.Key] = item.Origin
	item = manifest.Desired(item, w.target.label)
	if refused, found := ignore.Declared(item); found {
		w.problems = append(w.problems, refused)
		return
	}
	if _, ok := w.declared.Get(written); ok {
		var refused []state.Problem
		item, refused = w.ignored.Apply(item)
		w.problems = append(w.problems, refused...)
	}
	w.items = append(w.items, item)
}

// set is what was collected, without what autoscalers write, Secrets masked.
func (w *collector) set() state.Set {
	aims := map[state.Key]bool{}
	for _, item := range w.items {
		if k, ok := manifest.ScaleTarget(item.Object, item.Key); ok {
			aims[k] = true
		}
	}
	for i, item := range w.items {
		if aims[item.Key] {
			w.items[i].Object = manifest.WithoutReplicas(item.Object)
		}
		if kinds.IsSecret(item.Key) {
			w.items[i].Object = w.target.mask.Secret(item.Object)
		}
	}
	return state.NewSet(w.items...)
}

// namespaced reports where objects of a kind live, as far as that is known: of those
// that Kubernetes has, that come with our installation, or that Git defines.
func (w *collector) namespaced(kind schema.GroupKind) (namespaced, known bool) {
	switch promised, ok := w.promised[kind]; {
	case ok:
		return promised.Namespaced, true
	case kind.Group == v1alpha1.GroupVersion.Group:
		return kind.Kind == "Sync", true
	case kind.Group == "karpenter.sh", kind.Group == "karpenter.k8s.aws", kind.Group == "apiextensions.k8s.io", kind.Group == "apiregistration.k8s.io":
		return false, true
	}
	return !unnamespaced(kind), len(scheme.Scheme.VersionsForGroupKind(kind)) > 0
}

// unnamespaced reports whether a kind of Kubernetes is one whose objects live in no
// namespace. Of a group that is not among these all do.
func unnamespaced(kind schema.GroupKind) bool {
	outside := map[string]func(kind string) bool{
		"":                             oneOf("Namespace", "Node", "PersistentVolume", "ComponentStatus"),
		"admissionregistration.k8s.io": allBut(),
		"authentication.k8s.io":        oneOf("TokenReview", "SelfSubjectReview"),
		"authorization.k8s.io":         allBut("LocalSubjectAccessReview"),
		"certificates.k8s.io":          oneOf("CertificateSigningRequest", "ClusterTrustBundle"),
		"flowcontrol.apiserver.k8s.io": allBut(),
		"internal.apiserver.k8s.io":    allBut(),
		"networking.k8s.io":            oneOf("IngressClass", "IPAddress", "ServiceCIDR"),
		"node.k8s.io":                  allBut(),
		"rbac.authorization.k8s.io":    oneOf("ClusterRole", "ClusterRoleBinding"),
		"resource.k8s.io":              allBut("ResourceClaim", "ResourceClaimTemplate"),
		"scheduling.k8s.io":            oneOf("PriorityClass"),
		"storage.k8s.io":               allBut("CSIStorageCapacity"),
		"storagemigration.k8s.io":      allBut(),
	}[kind.Group]
	return outside != nil && outside(kind.Kind)
}

func oneOf(kinds ...string) func(string) bool {
	return func(kind string) bool { return slices.Contains(kinds, kind) }
}

func allBut(kinds ...string) func(string) bool {
	return func(kind string) bool { return !slices.Contains(kinds, kind) }
}
