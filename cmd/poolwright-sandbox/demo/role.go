package demo

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// role is a workload, the pool that serves it, and what was seen of both.
type role struct {
	pool string
	// files are below the example's folder workloads.
	files []string
	// asks is what a pod of it asks for, in words.
	asks string
	workload
	marks *timeline
	// old are the names of what an earlier role was about.
	old map[string]bool

	mu   sync.Mutex
	seen map[string]bool
}

// workload is what a role's files hold.
type workload struct {
	objects []*unstructured.Unstructured
	// maker is the one among them that makes the pods.
	maker *unstructured.Unstructured
	// selects are the pods' labels; a single pod is known by its name.
	selects  labels.Selector
	needsGPU bool
}

func newRole(pool, asks string, files ...string) *role {
	return &role{pool: pool, files: files, asks: asks, marks: newTimeline(), seen: map[string]bool{}}
}

// load reads the workload.
func (r *role) load(example string) error {
	for _, file := range r.files {
		path := filepath.Join(example, "workloads", file)
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading the workload: %w", err)
		}
		for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
			object := &unstructured.Unstructured{}
			if err := decoder.Decode(object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return fmt.Errorf("decoding the workload %s: %w", path, err)
			}
			r.add(object)
		}
	}
	if r.maker == nil {
		return fmt.Errorf("the workload %s of %s makes no pods", strings.Join(r.files, ", "), example)
	}
	return nil
}

// add takes an object in, and knows by its containers whether it makes the pods.
func (w *workload) add(object *unstructured.Unstructured) {
	w.objects = append(w.objects, object)
	path, selects := []string{"spec", "template", "spec", "containers"}, labels.Everything()
	if object.GetKind() == "Pod" {
		path = []string{"spec", "containers"}
	} else {
		match, _, _ := unstructured.NestedStringMap(object.Object, "spec", "selector", "matchLabels")
		selects = labels.SelectorFromSet(match)
	}
	containers, _, _ := unstructured.NestedSlice(object.Object, path...)
	if len(containers) == 0 {
		return
	}
	w.maker, w.selects = object, selects
	for _, c := range containers {
		if c, ok := c.(map[string]any); ok {
			_, asked, _ := unstructured.NestedFieldNoCopy(c, "resources", "limits", gpuResource)
			w.needsGPU = w.needsGPU || asked
		}
	}
}

// makes tells whether a pod is one of the workload's.
func (w *workload) makes(pod *corev1.Pod) bool {
	single := w.maker.GetKind() == "Pod"
	return pod.Namespace == w.maker.GetNamespace() && (!single || pod.Name == w.maker.GetName()) && w.selects.Matches(labels.Set(pod.Labels))
}

// pods is how many pods the workload has when it is complete. One that starts
// with none is scaled to one.
func (w *workload) pods() int {
	replicas, _, _ := unstructured.NestedInt64(w.maker.Object, "spec", "replicas")
	return max(int(replicas), 1)
}

// title names what makes the pods.
func (w *workload) title() string {
	return strings.ToLower(w.maker.GetKind()) + "/" + w.maker.GetName()
}

// again is the role of the same workload on another node. It enters blind for all
// that the first has seen until then.
func (r *role) again() *role {
	next := newRole(r.pool, r.asks)
	next.workload = r.workload
	return next
}

// follow has a role take no notice of what an earlier one has seen.
func (r *role) follow(earlier *role) {
	earlier.mu.Lock()
	defer earlier.mu.Unlock()
	r.old = maps.Clone(earlier.seen)
}

// concerns tells whether an object is the role's business. A name is enough: those
// of nodes, claims, instances and pods never agree.
func (r *role) concerns(name string) bool {
	if r.old[name] {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[name] = true
	return true
}
