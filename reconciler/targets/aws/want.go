package aws

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	iampolicy "github.com/poolwright/poolwright/config/iam"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// desiredState is what Want read, for the verbs after it.
type desiredState struct {
	scope
	// object is the Cluster object's name; empty where there is none.
	object string
	wanted state.Set
	// mistake is the first mistake in what is declared now; the rest is then of
	// what was declared before, if anything was.
	mistake string
	// parts are which part of the Cluster asks for a thing, as a field's path;
	// a thing that several parts need is not in it. Most never need to know.
	parts func() map[state.Key]string
	// reserved are the things that only bootstrap writes.
	reserved func() map[state.Key]bool
}

// Want implements targets.Target: the AWS things that the declared Cluster asks
// for. It sends no request. Without a Cluster, or with one that asks AWS for
// nothing, the Set is empty. With any mistake in the Cluster it is what the
// last Cluster without one asked for, since half a cluster's prerequisites help
// no node; none before means an empty Set.
func (w *Target) Want(_ context.Context, declared state.Set) (state.Set, error) {
	made, problems := w.kinds.read(declared, w.cfg.Bootstrap, w.findings)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case len(problems) > 0:
		doubted := w.past.good
		doubted.object = cmp.Or(doubted.object, made.object)
		doubted.pools, doubted.mistake = made.pools, problems[0].String()
		made = doubted
	case made.object != "":
		w.past.good = made
	}
	w.desired, w.past.asked = made, true
	if w.review != nil && w.review.base == nil {
		w.review.base = &made
	}
	if len(problems) > 0 {
		return made.wanted, &targets.ProblemsError{Problems: problems}
	}
	return made.wanted, nil
}

// Check lists the mistakes in the declared Cluster that can be observed without a
// request, beyond those that its schema sees: a Cluster that does not fit the
// schema so far that it cannot be read is passed over.
func Check(declared state.Set) []state.Problem {
	_, problems := table(kinds()).read(declared, false, func(state.Item, v1alpha1.ClusterSpec, error) []state.Problem { return nil })
	return problems
}

// findings are those of the schema, as far as this Target knows it.
func (w *Target) findings(item state.Item, spec v1alpha1.ClusterSpec, unreadable error) []state.Problem {
	var found []state.Problem
	if w.cfg.Check != nil {
		found = w.cfg.Check(item)
	}
	if len(found) > 0 {
		return found
	}
	if unreadable != nil {
		return []state.Problem{{Origin: item.Origin, Message: fmt.Sprintf("Cluster %s cannot be read: %s", item.Key.Name, unreadable)}}
	}
	return identified(item, spec)
}

// table lists the kinds of things that there are.
type table map[kindOf]kind

// read turns a declaration into a wish; schema finds what its schema does. With
// any mistake, the wish holds no more than names.
func (t table) read(declared state.Set, bootstrap bool, schema func(state.Item, v1alpha1.ClusterSpec, error) []state.Problem) (desiredState, []state.Problem) {
	clusters, pools := declarations(declared)
	none := desiredState{scope: scope{pools: pools}}
	if len(clusters) == 0 {
		return none, nil
	}
	item := clusters[0]
	none.object = item.Key.Name
	if problems := surplus(clusters); len(problems) > 0 {
		return none, problems
	}
	spec, err := decode(item)
	problems := schema(item, spec, err)
	if err == nil {
		problems = append(slices.Clip(problems), check(item, spec)...)
	}
	if err != nil || len(problems) > 0 {
		return none, problems
	}
	spec = withDefaults(spec)
	s := scope{
		place: place{Partition: iampolicy.PartitionOf(spec.Region), Region: spec.Region, Account: spec.Account, Cluster: spec.Name},
		spec:  spec, origin: item.Origin, pools: pools, bootstrap: bootstrap,
	}
	out := desiredState{scope: s, object: item.Key.Name}
	if !asks(spec) {
		return out, nil
	}
	items, problems := t.items(s)
	if len(problems) > 0 {
		return none, problems
	}
	out.wanted = state.NewSet(items...)
	out.parts = sync.OnceValue(func() map[state.Key]string { return t.parts(s) })
	out.reserved = sync.OnceValue(func() map[state.Key]bool { return t.reserved(s) })
	return out, nil
}

// declarations are the Clusters and NodePools that are declared.
func declarations(declared state.Set) (clusters, pools []state.Item) {
	for _, item := range declared.Items() {
		switch {
		case item.Key.Target != "cluster":
		case item.Key.Group == v1alpha1.GroupVersion.Group && item.Key.Kind == "Cluster":
			clusters = append(clusters, item)
		case item.Key.Group == "karpenter.sh" && item.Key.Kind == "NodePool":
			pools = append(pools, item)
		}
	}
	return clusters, pools
}

// surplus finds the Clusters after the first.
func surplus(clusters []state.Item) []state.Problem {
	var problems []state.Problem
	for _, c := range clusters[1:] {
		problems = append(problems, state.Problem{Origin: c.Origin, Message: fmt.Sprintf(
			"Cluster %s: there is another Cluster, %s (%s), and an API server has one: remove one of them", c.Key.Name, clusters[0].Key.Name, clusters[0].Origin)})
	}
	return problems
}

// decode reads a Cluster's spec; a field that it does not have is an error.
func decode(item state.Item) (v1alpha1.ClusterSpec, error) {
	raw, err := json.Marshal(item.Object)
	if err != nil {
		return v1alpha1.ClusterSpec{}, err
	}
	var object v1alpha1.Cluster
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err = d.Decode(&object)
	return object.Spec, err
}

// asks reports whether a declaration asks anything of AWS.
func asks(s v1alpha1.ClusterSpec) bool {
	return s.Discovery != nil || s.NodeRole != nil || s.InterruptionQueue != nil || s.Logging != nil || s.ControllerRole != nil ||
		len(s.SystemNodeGroups) > 0 || s.Version != "" || len(s.Addons) > 0
}

// items asks every kind what a declaration wants, in a fixed order.
func (t table) items(s scope) ([]state.Item, []state.Problem) {
	var out []state.Item
	var problems []state.Problem
	hashes := map[state.Key]string{}
	for _, of := range t.order() {
		for _, item := range t[of].want(s) {
			hash := state.Hash(item.Object)
			if other, twice := hashes[item.Key]; twice {
				if other != hash {
					problems = append(problems, state.Problem{Origin: s.origin, Message: fmt.Sprintf(
						"two parts of the Cluster ask for %s in different ways: give one of them another name", item.Key)})
				}
				continue
			}
			hashes[item.Key] = hash
			out = append(out, item)
		}
	}
	return out, problems
}

func (t table) order() []kindOf {
	return slices.SortedFunc(maps.Keys(t), func(a, b kindOf) int {
		return cmp.Or(cmp.Compare(a.service, b.service), cmp.Compare(a.kind, b.kind))
	})
}

// keys are the keys of what a declaration wants.
func (t table) keys(s scope) map[state.Key]bool {
	out := map[state.Key]bool{}
	items, _ := t.items(s)
	for _, item := range items {
		out[item.Key] = true
	}
	return out
}

// parts finds out which part asks for what: a thing belongs to the part without
// which it would not be wanted.
func (t table) parts(s scope) map[state.Key]string {
	all := t.keys(s)
	out := map[state.Key]string{}
	for name, leave := range map[string]func(*v1alpha1.ClusterSpec){
		"spec.discovery":         func(c *v1alpha1.ClusterSpec) { c.Discovery = nil },
		"spec.nodeRole":          func(c *v1alpha1.ClusterSpec) { c.NodeRole = nil },
		"spec.interruptionQueue": func(c *v1alpha1.ClusterSpec) { c.InterruptionQueue = nil },
		"spec.logging":           func(c *v1alpha1.ClusterSpec) { c.Logging = nil },
		"spec.systemNodeGroups":  func(c *v1alpha1.ClusterSpec) { c.SystemNodeGroups = nil },
		"spec.controllerRole":    func(c *v1alpha1.ClusterSpec) { c.ControllerRole = nil },
	} {
		less := s
		less.spec = *s.spec.DeepCopy()
		leave(&less.spec)
		rest := t.keys(less)
		for k := range all {
			if !rest[k] {
				out[k] = name
			}
		}
	}
	return out
}

// reserved finds the things that are held unless bootstrap writes.
func (t table) reserved(s scope) map[state.Key]bool {
	held := func(bootstrap bool) map[state.Key]bool {
		s.bootstrap = bootstrap
		out := map[state.Key]bool{}
		items, _ := t.items(s)
		for _, item := range items {
			out[item.Key] = item.CompareOnly != ""
		}
		return out
	}
	out := map[state.Key]bool{}
	free := held(true)
	for k, is := range held(false) {
		if is && !free[k] {
			out[k] = true
		}
	}
	return out
}
