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

// workload is a workload with the pool that serves it, and what was observed of both.
type workload struct {
	pool string
	// files are below the example's folder workloads.
	files []string
	// requests is what a pod of it requests, as text.
	requests string
	workloadObjects
	marks *timeline
	// ignored are the names of what an earlier workload had.
	ignored map[string]bool

	mu       sync.Mutex
	observed map[string]bool
}

// workloadObjects is what a workload's files contain.
type workloadObjects struct {
	objects []*unstructured.Unstructured
	// owner is the one among them that makes the pods.
	owner *unstructured.Unstructured
	// selects are the pods' labels; a single pod is known by its name.
	selects  labels.Selector
	needsGPU bool
}

func newWorkload(pool, requests string, files ...string) *workload {
	return &workload{pool: pool, files: files, requests: requests, marks: newTimeline(), observed: map[string]bool{}}
}

// load reads the workload.
func (r *workload) load(example string) error {
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
	if r.owner == nil {
		return fmt.Errorf("the workload %s of %s makes no pods", strings.Join(r.files, ", "), example)
	}
	return nil
}

// add takes an object in, and finds by its containers whether it makes the pods.
func (w *workloadObjects) add(object *unstructured.Unstructured) {
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
	w.owner, w.selects = object, selects
	for _, c := range containers {
		if c, ok := c.(map[string]any); ok {
			_, requestsGPU, _ := unstructured.NestedFieldNoCopy(c, "resources", "limits", gpuResource)
			w.needsGPU = w.needsGPU || requestsGPU
		}
	}
}

// owns reports whether a pod is one of the workload's.
func (w *workloadObjects) owns(pod *corev1.Pod) bool {
	single := w.owner.GetKind() == "Pod"
	return pod.Namespace == w.owner.GetNamespace() && (!single || pod.Name == w.owner.GetName()) && w.selects.Matches(labels.Set(pod.Labels))
}

// pods is how many pods the workload has when it is complete. One that starts
// with none is scaled to one.
func (w *workloadObjects) pods() int {
	replicas, _, _ := unstructured.NestedInt64(w.owner.Object, "spec", "replicas")
	return max(int(replicas), 1)
}

// title names what makes the pods.
func (w *workloadObjects) title() string {
	return strings.ToLower(w.owner.GetKind()) + "/" + w.owner.GetName()
}

// again is the same workload on another node. It ignores all that the first has
// observed until then.
func (r *workload) again() *workload {
	next := newWorkload(r.pool, r.requests)
	next.workloadObjects = r.workloadObjects
	return next
}

// ignore has a workload take no notice of what an earlier one has observed.
func (r *workload) ignore(earlier *workload) {
	earlier.mu.Lock()
	defer earlier.mu.Unlock()
	r.ignored = maps.Clone(earlier.observed)
}

// claims reports whether an object belongs to the workload. A name is enough: those
// of nodes, claims, instances and pods never agree.
func (r *workload) claims(name string) bool {
	if r.ignored[name] {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.observed[name] = true
	return true
}
