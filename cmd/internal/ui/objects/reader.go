package objects

import (
	"context"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reader reads what is watched from the cache, and the rest from the API server.
type reader struct {
	direct client.Reader
	cached client.Reader
	// kinds are those that are watched. It does not change once the watches have started.
	kinds map[reflect.Type]bool
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
		return r.direct.List(ctx, list, options...)
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
