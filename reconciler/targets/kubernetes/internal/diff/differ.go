package diff

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/owner"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/fields"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/losses"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/manifest"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/mask"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/ownership"
)

// Config is what a Differ needs.
type Config struct {
	// API reaches the cluster, Kinds are those that it serves.
	API   *api.Client
	Kinds *kinds.RESTMapper
	// Store is the inventory: how objects were left.
	Store *inventory.Store
	// Mask masks the values of Secrets.
	Mask *mask.Masker
	// Owner is the Sync.
	Owner ownership.Sync
	// Losses counts what goes with an update.
	Losses losses.Counter
	// Clock is the time.
	Clock clock.PassiveClock
	// Ignored returns JSON pointers to the fields of a desired object of which the live value stays.
	Ignored func(state.Key) []string
	// Preview is true where values of Secrets are not compared with live ones, OnlyManaged where
	// nothing is observed but what the inventory has.
	Preview, OnlyManaged bool
}

// Differ compares the objects of one Sync. It is safe for concurrent use.
type Differ struct {
	cfg Config

	mu sync.Mutex
	// owners are what was observed of objects beside what differs.
	owners  map[state.Key]Owners
	preview dryRunPreview
}

// Owners are the managers of an object's fields that matter for an update.
type Owners struct {
	// ClientSide is true where kubectl's client-side apply owns fields.
	ClientSide bool
	// ConflictingManagers are the managers that changed what differs.
	ConflictingManagers []string
}

// New makes a Differ. It sends no request.
func New(c Config) *Differ { return &Differ{cfg: c, owners: map[state.Key]Owners{}} }

// Owners are those of an object when it was compared the last time.
func (d *Differ) Owners(k state.Key) Owners {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.owners[k]
}

// Retain drops the Owners of all objects but those that are desired.
func (d *Differ) Retain(desired func(state.Key) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.owners, func(k state.Key, _ Owners) bool { return !desired(k) })
}

// keepOwners keeps what an update needs of the object, and returns the managers that changed what differs.
func (d *Differ) keepOwners(item state.Item, live *unstructured.Unstructured, object map[string]any) []owner.Manager {
	var o Owners
	var managers []owner.Manager
	for _, path := range fields.Differing(object, item.Object) {
		for _, m := range fields.Managers(live.Object, v1alpha1.FieldManager, path...) {
			o.ConflictingManagers = append(o.ConflictingManagers, m.Name)
			if !slices.Contains(managers, m) {
				managers = append(managers, m)
			}
		}
	}
	slices.SortStableFunc(managers, func(a, b owner.Manager) int { return strings.Compare(b.Time, a.Time) })
	for _, e := range fields.Entries(live.Object) {
		o.ClientSide = o.ClientSide || e.Manager == manifest.ClientSideManager && e.Operation == "Update"
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owners[item.Key] = o
	return managers
}

// Options are how the object with that key is compared.
func (d *Differ) Options(k state.Key) fields.Options {
	o := fields.Options{
		Manager:   v1alpha1.FieldManager,
		WholeSpec: kinds.OwnsWholeSpec(k.Group, k.Kind),
		Ignored:   d.cfg.Ignored(k),
	}
	if kinds.IsSecret(k) {
		o.Secret = d.cfg.Mask.Hash
	}
	return o
}

// keep is a desired item with the live values of what is ignored of it.
func (d *Differ) keep(item state.Item, live *unstructured.Unstructured) state.Item {
	pointers := d.cfg.Ignored(item.Key)
	if len(pointers) > 0 {
		item.Object = state.Keep(item.Object, state.IgnoredValues(pointers, item.Object, manifest.Strip(live.Object)))
	}
	return item
}

// Found is a desired item as it was observed: the live object in the form that is compared, and
// the hash of what was applied last.
func Found(item state.Item, live *unstructured.Unstructured, object map[string]any, applied string) state.Item {
	return state.Item{
		Key: item.Key, Version: item.Version, Object: object, Wave: item.Wave, Applied: applied,
		Live:  state.Preconditions{UID: string(live.GetUID()), ResourceVersion: live.GetResourceVersion()},
		Owner: ownership.OwnerOf(live, item.Object), CorrectionPolicy: manifest.Hold(live.GetAnnotations()),
	}
}

// stop reports whether a failed request means something for everything, and not only
// about the object that it was for.
func stop(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code == 429 || code > 500 || code == 401
}
