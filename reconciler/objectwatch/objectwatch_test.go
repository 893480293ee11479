package objectwatch

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

func object(version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: version}}
}

func TestEachStateOfAnObjectIsReportedOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w, selected := watch.NewFake(), make(chan string, 1)
	changes, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		Watch(ctx, func(_ context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			selected <- opts.FieldSelector
			return w, nil
		}, "a", func(o runtime.Object) string { return o.(*corev1.ConfigMap).ResourceVersion }, func() { changes <- struct{}{} })
	}()
	if got := <-selected; got != "metadata.name=a" {
		t.Errorf("watched is %q", got)
	}
	w.Add(object("1"))
	<-changes
	w.Modify(object("1"))
	w.Modify(object("2"))
	<-changes
	w.Delete(object("2"))
	<-changes
	w.Add(object("2")) // As it was, after it was deleted.
	<-changes
	cancel()
	w.Error(&metav1.Status{})
	<-ended
}

func TestAWatchThatCannotBeginEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	begun := 0
	Watch(ctx, func(context.Context, metav1.ListOptions) (watch.Interface, error) {
		begun++
		cancel()
		return nil, errors.New("refused")
	}, "a", func(runtime.Object) string { return "" }, func() { t.Error("there is a change") })
	if begun != 1 {
		t.Errorf("begun %d times", begun)
	}
}

func TestADeletionBetweenTwoWatchesIsReported(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	first, second, begun, changes := watch.NewFakeWithChanSize(1, false), watch.NewFake(), 0, 0
	first.Add(object("1"))
	first.Stop()
	key := func(o runtime.Object) string { return o.(*corev1.ConfigMap).ResourceVersion }
	run(ctx, func(context.Context, metav1.ListOptions) (watch.Interface, error) {
		if begun++; begun == 1 {
			return first, nil
		}
		second.Stop() // It has no event: the object does not exist any more.
		cancel()
		return second, nil
	}, "a", key, func() { changes++ }, func(context.Context, time.Duration) {})
	if changes != 2 {
		t.Errorf("%d changes after %d watches", changes, begun)
	}
}

func TestOnlyAWatchThatIsNotPermittedRestsLong(t *testing.T) {
	resource := schema.GroupResource{Resource: "configmaps"}
	for name, tt := range map[string]struct {
		err  error
		want time.Duration
	}{
		"not permitted":     {apierrors.NewForbidden(resource, "a", errors.New("no")), refusedRest},
		"not authenticated": {apierrors.NewUnauthorized("no"), refusedRest},
		"not served":        {apierrors.NewNotFound(resource, "a"), watchRest},
		"failing":           {apierrors.NewInternalError(errors.New("no")), watchRest},
		"out of reach":      {errors.New("connection refused"), watchRest},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		run(ctx, func(context.Context, metav1.ListOptions) (watch.Interface, error) { return nil, tt.err }, "a", nil, func() { t.Errorf("%s: there is a change", name) },
			func(_ context.Context, rest time.Duration) {
				cancel()
				if rest != tt.want {
					t.Errorf("%s: it rests %s", name, rest)
				}
			})
	}
}
