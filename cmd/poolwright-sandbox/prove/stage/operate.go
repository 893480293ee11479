package stage

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/sandbox/history"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// edits are the patches by which a person changes the value of each kind of the model.
var edits = map[string]string{
	"ConfigMap":      `{"data":{"value":"edited"}}`,
	"Secret":         `{"stringData":{"value":"edited"}}`,
	"ServiceAccount": `{"secrets":null}`,
}

// Edit changes a live object, Kind/name, as a person does; nothing where there is none.
func (s *Stage) Edit(ctx context.Context, key string) error {
	kind, _, _ := strings.Cut(key, "/")
	return s.change(key, func(object client.Object) error {
		return s.config.Admin.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(edits[kind])))
	})
}

// Delete deletes a live object, Kind/name, as a person does; nothing where there is none.
func (s *Stage) Delete(ctx context.Context, key string) error {
	return s.change(key, func(object client.Object) error { return s.config.Admin.Delete(ctx, object) })
}

func (s *Stage) change(key string, do func(client.Object) error) error {
	kind, name, _ := strings.Cut(key, "/")
	object, err := empty(s.object(kind, name))
	if err != nil {
		return err
	}
	s.Tap.Record(history.Event{Kind: history.Edited, Object: s.object(kind, name)})
	return client.IgnoreNotFound(do(object))
}

// Suspend sets spec.suspend.
func (s *Stage) Suspend(ctx context.Context, suspend bool) error {
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: s.name, Namespace: s.System}}
	patch := fmt.Sprintf(`{"spec":{"suspend":%t}}`, suspend)
	return s.config.Admin.Patch(ctx, sync, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// Restart starts the next process of the controller where the last one has ended.
func (s *Stage) Restart(ctx context.Context) error { return s.check(ctx) }

// Running is the number of the controller's process, false where it has ended or is about to.
func (s *Stage) Running() (pid int, running bool) {
	s.controller.mu.Lock()
	defer s.controller.mu.Unlock()
	if s.controller.process == nil || s.controller.killed {
		return 0, false
	}
	return s.controller.process.PID(), true
}

// CacheDir is the folder of mirrors of the first replica.
func (s *Stage) CacheDir() string { return s.controller.mirrors() }
