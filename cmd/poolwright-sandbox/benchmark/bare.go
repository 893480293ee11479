package benchmark

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// applyWorkers is how many server-side applies are under way at a time in a bare apply: as many as
// Poolwright has.
const applyWorkers = 16

// ApplyBare applies all objects of a repository by nothing but server-side apply, and returns how long
// that took: what no controller can be faster than at the same concurrency.
func (e *Environment) ApplyBare(ctx context.Context, r *Repository) (time.Duration, error) {
	config := e.REST()
	config.QPS = -1
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return 0, fmt.Errorf("connecting to the sandbox: %w", err)
	}
	var objects []map[string]any
	for i := range r.Objects {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(r.manifest(i, "v1")), &object); err != nil {
			return 0, fmt.Errorf("reading object %d: %w", i, err)
		}
		objects = append(objects, object)
	}
	queue, errs := make(chan map[string]any), make([]error, applyWorkers)
	var workers sync.WaitGroup
	started := time.Now()
	for n := range applyWorkers {
		workers.Go(func() {
			for object := range queue {
				errs[n] = errors.Join(errs[n], applyOne(ctx, dyn, r.Namespace, object))
			}
		})
	}
	for _, object := range objects {
		queue <- object
	}
	close(queue)
	workers.Wait()
	return time.Since(started), errors.Join(errs...)
}

func applyOne(ctx context.Context, dyn dynamic.Interface, namespace string, object map[string]any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encoding an object: %w", err)
	}
	version, err := schema.ParseGroupVersion(object["apiVersion"].(string)) //nolint:forcetypeassert // It is ours.
	if err != nil {
		return fmt.Errorf("reading an object: %w", err)
	}
	kind, _ := object["kind"].(string)
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	force := true
	_, err = dyn.Resource(version.WithResource(strings.ToLower(kind)+"s")).Namespace(namespace).
		Patch(ctx, name, types.ApplyYAMLPatchType, body, metav1.PatchOptions{FieldManager: "bare", Force: &force})
	if err != nil {
		return fmt.Errorf("applying %s: %w", name, err)
	}
	return nil
}
