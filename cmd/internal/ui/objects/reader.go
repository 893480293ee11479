package objects

import (
	"context"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reader reads what is watched from the cache, and the rest from the API server.
type reader struct {
	direct client.Reader
	cached client.Reader
	// kinds are those that are watched. It does not change once the watches have started.
	kinds      map[reflect.Type]bool
	unreadable *unreadable
	// options are of each list from the cache.
	options []client.ListOption
}

// shared is the reader without copies of what it lists, for who changes none of it.
func (r *reader) shared() *reader {
	out := *r
	out.options = []client.ListOption{client.UnsafeDisableDeepCopy}
	return &out
}

// Get reads one object.
func (r *reader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if r.kinds[reflect.TypeOf(object).Elem()] {
		if _, event := object.(*corev1.Event); !event {
			return r.cached.Get(ctx, key, object, options...)
		}
	}
	return r.direct.Get(ctx, key, object, options...)
}

// List lists objects. The cache has no pages: it returns all of them at once.
func (r *reader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	all := (&client.ListOptions{}).ApplyOptions(options)
	if !r.watched(list, all) {
		return r.unreadable.list(ctx, r.direct, list, all)
	}
	all.Limit, all.Continue = 0, ""
	if err := r.cached.List(ctx, list, append([]client.ListOption{all}, r.options...)...); err != nil {
		return err
	}
	list.SetContinue("")
	return nil
}

// watched reports whether the cache has what a list selects.
func (r *reader) watched(list client.ObjectList, options *client.ListOptions) bool {
	items, found := reflect.TypeOf(list).Elem().FieldByName("Items")
	if !found || !r.kinds[items.Type.Elem()] {
		return false
	}
	if items.Type.Elem() != reflect.TypeFor[corev1.Event]() {
		return true
	}
	return options.Namespace == metav1.NamespaceDefault && selects(options.FieldSelector, eventReason)
}

// selects reports whether a selector requires one value of a field.
func selects(selector fields.Selector, field string) bool {
	if selector == nil {
		return false
	}
	_, exact := selector.RequiresExactMatch(field)
	return exact
}

// refusalAge is how long a list that was refused is not requested again.
const refusalAge = time.Minute

// listOf is what a list is of.
type listOf struct {
	kind      reflect.Type
	namespace string
}

// refusal is the error of a list, and when it was returned.
type refusal struct {
	err error
	at  time.Time
}

// unreadable are the lists that the user may not read, or whose kinds are not installed. A report would request each of them anew.
type unreadable struct {
	now func() time.Time

	mu    sync.Mutex
	lists map[listOf]refusal
}

// list requests a list, unless it was refused within the last minute.
func (u *unreadable) list(ctx context.Context, from client.Reader, list client.ObjectList, options *client.ListOptions) error {
	of := listOf{reflect.TypeOf(list), options.Namespace}
	now := u.now()
	u.mu.Lock()
	last, found := u.lists[of]
	u.mu.Unlock()
	if passed := now.Sub(last.at); found && passed >= 0 && passed < refusalAge {
		return last.err
	}
	err := from.List(ctx, list, options)
	u.mu.Lock()
	defer u.mu.Unlock()
	if apierrors.IsForbidden(err) || meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		u.lists[of] = refusal{err, now}
	} else {
		delete(u.lists, of)
	}
	return err
}
