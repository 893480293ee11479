// Package health computes the health of objects that a Sync requires to be healthy, from what
// is observed of them anyway: by the watch for drift, by a run and by the API server's
// responses to applies. Only objects that spec.healthChecks names are watched for it.
//
// It refuses to decide anything: what is unhealthy is applied, corrected and pruned as all
// else. Start reading at Checker.
package health

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/reflector"
)

// Config is what a Checker needs.
type Config struct {
	// API reaches the cluster, Kinds are those that it serves.
	API   *api.Client
	Kinds *kinds.RESTMapper
	// Sync is the Sync's name, Namespace its namespace. Its own health is not checked, for
	// it would wait for itself.
	Sync, Namespace string
	// Clock is the time.
	Clock clock.Clock
}

// Checker has the health of the objects that one Sync requires to be healthy. It is safe for
// concurrent use, and costs nothing while none is required.
type Checker struct {
	cfg Config
	// changed reports that the references to watch may have changed, flipped that the first
	// object became unhealthy or failed, or the last is so no more.
	changed, flipped chan struct{}

	mu sync.Mutex
	// spec is what is required, evaluator what computes it; nil for nothing.
	spec      v1alpha1.HealthCheckSpec
	evaluator *evaluator
	// required are the objects to check, found those of them that were observed.
	required map[state.Key]bool
	found    map[state.Key]finding
	// unhealthy and failed count them.
	unhealthy, failed int
}

// New makes a Checker that checks nothing. It sends no request.
func New(c Config) *Checker {
	return &Checker{cfg: c, changed: make(chan struct{}, 1), flipped: make(chan struct{}, 1)}
}

// Set is what has to be healthy from now on. It returns an error, and checks nothing, where an
// expression is invalid. Objects that were applied are checked once Require has named them and
// they are observed again.
func (c *Checker) Set(spec v1alpha1.HealthCheckSpec) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if same(c.spec, spec) {
		return nil
	}
	c.spec, c.evaluator, c.required, c.found = v1alpha1.HealthCheckSpec{}, nil, nil, nil
	c.count()
	poke(c.changed)
	if !spec.ChecksHealth() {
		return nil
	}
	evaluator, err := newEvaluator(spec.HealthCheckExprs)
	if err != nil {
		return err
	}
	c.spec, c.evaluator, c.found = spec, evaluator, map[state.Key]finding{}
	if !spec.Wait {
		c.required = map[state.Key]bool{}
		for _, of := range spec.HealthChecks {
			c.required[unresolved(of)] = true
		}
		c.count()
	}
	return nil
}

// same reports whether two specs require the same of the same objects.
func same(a, b v1alpha1.HealthCheckSpec) bool {
	return a.Wait == b.Wait && slices.Equal(a.HealthChecks, b.HealthChecks) && slices.Equal(a.HealthCheckExprs, b.HealthCheckExprs)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Require names the objects that the Sync's newest revision declares, which have to be healthy
// with spec.wait.
func (c *Checker) Require(items []state.Item) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.spec.Wait {
		return
	}
	c.required = make(map[state.Key]bool, len(items))
	for _, item := range items {
		if !c.itself(item.Key) {
			c.required[item.Key] = true
		}
	}
	maps.DeleteFunc(c.found, func(k state.Key, _ finding) bool { return !c.required[k] })
	c.count()
}

// itself reports whether a key is that of the Sync.
func (c *Checker) itself(k state.Key) bool {
	return k.Group == v1alpha1.GroupVersion.Group && k.Kind == "Sync" && k.Namespace == c.cfg.Namespace && k.Name == c.cfg.Sync
}

// Applied gets an object of the Sync as the API server has it.
func (c *Checker) Applied(k state.Key, live *unstructured.Unstructured) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spec.Wait {
		c.observe(k, live)
	}
}

// Current reports whether Applied would compute nothing new of an object that the API server has in a
// version: it need not be healthy, or that version of it was observed.
func (c *Checker) Current(k state.Key, version string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.spec.Wait || !c.required[k] || c.found[k].version == version
}

// Health is what was found of the objects that have to be healthy.
func (c *Checker) Health() targets.Health {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := targets.Health{Observed: c.required != nil, Checked: len(c.required), Unhealthy: c.unhealthy, Failed: c.failed}
	if c.unhealthy == 0 {
		return out
	}
	for k := range c.required {
		found := c.found[k]
		if found.healthy || c.failed > 0 && !found.failed || out.First.Key != (state.Key{}) && out.First.Key.Compare(k) < 0 {
			continue
		}
		out.First = targets.Unhealthy{Key: k, Reason: found.reason}
		if found == (finding{}) {
			out.First.Reason = "its status is not read yet"
		}
	}
	return out
}

// observe computes the health of an object, unless a newer state of it was observed. The
// lock is held.
func (c *Checker) observe(k state.Key, live *unstructured.Unstructured) {
	if !c.required[k] || isOlderVersion(live.GetResourceVersion(), c.found[k].version) {
		return
	}
	c.record(k, c.evaluator.of(context.Background(), live))
}

// isOlderVersion reports whether version a is certainly earlier than b.
func isOlderVersion(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// absent records that an object is not there. The lock is held.
func (c *Checker) absent(k state.Key) {
	if c.required[k] {
		c.record(k, finding{reason: "it does not exist"})
	}
}

// record replaces what was found of an object.
func (c *Checker) record(k state.Key, now finding) {
	before := c.found[k]
	c.found[k] = now
	unhealthy, failed := c.unhealthy, c.failed
	c.unhealthy += bit(!now.healthy) - bit(!before.healthy)
	c.failed += bit(now.failed) - bit(before.failed)
	if (unhealthy > 0) != (c.unhealthy > 0) || (failed > 0) != (c.failed > 0) {
		poke(c.flipped)
	}
}

// count counts anew.
func (c *Checker) count() {
	c.unhealthy, c.failed = 0, 0
	for k := range c.required {
		c.unhealthy += bit(!c.found[k].healthy)
		c.failed += bit(c.found[k].failed)
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Watch calls changed, until ctx ends, when the first object became unhealthy or failed, or the
// last one is so no more, and watches the objects that spec.healthChecks names.
func (c *Checker) Watch(ctx context.Context, changed func()) {
	for ctx.Err() == nil {
		one, stop := context.WithCancel(ctx)
		var watchers sync.WaitGroup
		for _, reference := range c.references() {
			watchers.Go(func() { c.follow(one, reference) })
		}
		for again := false; !again && ctx.Err() == nil; {
			select {
			case <-ctx.Done():
			case <-c.flipped:
				changed()
			case <-c.changed:
				again = true
			}
		}
		stop()
		watchers.Wait()
	}
}

// references are the objects to watch by name.
func (c *Checker) references() []v1alpha1.NamespacedObjectKindReference {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spec.Wait || c.evaluator == nil {
		return nil
	}
	return c.spec.HealthChecks
}

// unservedDelay is after how long a kind that the cluster does not serve is requested again.
const unservedDelay = 30 * time.Second

// follow watches one object until ctx ends.
func (c *Checker) follow(ctx context.Context, of v1alpha1.NamespacedObjectKindReference) {
	k := unresolved(of)
	for ctx.Err() == nil {
		kind, err := c.kindFor(ctx, of)
		if err == nil {
			resolved := keyOf(k, kind, c.cfg.Namespace)
			if c.requireOne(ctx, k, resolved, finding{}) {
				objects := reflector.Reflector{API: c.cfg.API, Namespace: resolved.Namespace, Name: resolved.Name}
				objects.Run(ctx, kind, &namedObject{Checker: c, ctx: ctx, key: resolved})
			}
			return
		}
		c.requireOne(ctx, k, k, finding{reason: err.Error()})
		timer := c.cfg.Clock.NewTimer(unservedDelay)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
	}
}

// unresolved is the key of what a reference names, before its kind is read.
func unresolved(of v1alpha1.NamespacedObjectKindReference) state.Key {
	group, _, _ := strings.Cut(of.APIVersion, "/")
	if group == of.APIVersion {
		group = "" // Only a version: of the core group.
	}
	return state.Key{Target: kinds.Target, Group: group, Kind: of.Kind, Namespace: of.Namespace, Name: of.Name}
}

// kindFor finds the kind of an object that a reference names.
func (c *Checker) kindFor(ctx context.Context, of v1alpha1.NamespacedObjectKindReference) (kinds.Kind, error) {
	version, err := schema.ParseGroupVersion(of.APIVersion)
	if err != nil {
		return kinds.Kind{}, fmt.Errorf("reading its apiVersion: %w", err)
	}
	kind, served, err := c.cfg.Kinds.Lookup(ctx, version.WithKind(of.Kind))
	if err == nil && !served {
		err = fmt.Errorf("the cluster does not serve %s %s", of.APIVersion, of.Kind)
	}
	return kind, err
}

// keyOf is the key of an object of the kind that a reference names.
func keyOf(k state.Key, kind kinds.Kind, namespace string) state.Key {
	switch {
	case !kind.Namespaced:
		k.Namespace = ""
	case k.Namespace == "":
		k.Namespace = namespace
	}
	return k
}

// requireOne has an object be healthy that a reference names, in place of what the reference
// was taken for before, unless ctx has ended or the object is the Sync.
func (c *Checker) requireOne(ctx context.Context, before, k state.Key, now finding) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	delete(c.required, before)
	delete(c.found, before)
	if c.itself(k) {
		c.count()
		poke(c.flipped)
		return false
	}
	c.required[k], c.found[k] = true, now
	c.count()
	poke(c.flipped)
	return true
}
