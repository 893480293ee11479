package child

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/poolwright/poolwright/provision/simulate/reduce"
)

// encodedPod is a pod whose shape came before it, by its place there.
type encodedPod struct {
	reduce.Identity
	Shape int `json:"shape"`
}

// podsAtOnce is how many pods one frame has: each is small.
const podsAtOnce = 1000

// encodePods divides pods into what they differ in and their shapes, each encoded once.
func encodePods(all []*corev1.Pod) (pods []encodedPod, shapes [][]byte, err error) {
	at, byKey := map[string]int{}, map[reduce.ShapeKey]int{}
	pods = make([]encodedPod, 0, len(all))
	for _, pod := range all {
		id, shape := reduce.Split(pod)
		place, known := byKey[reduce.ShapeKeyOf(pod)]
		if !known {
			raw, err := shape.Marshal()
			if err != nil {
				return nil, nil, fmt.Errorf("writing what to compare: pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
			if place, known = at[string(raw)]; !known {
				place = len(shapes)
				at[string(raw)], shapes = place, append(shapes, raw)
			}
			byKey[reduce.ShapeKeyOf(pod)] = place
		}
		pods = append(pods, encodedPod{Identity: id, Shape: place})
	}
	return pods, shapes, nil
}

func sendPods(to *writer, pods []encodedPod, shapes [][]byte) error {
	for _, raw := range shapes {
		if err := to.send(frameObject, raw); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(pods, podsAtOnce) {
		raw, err := json.Marshal(some)
		if err != nil {
			return fmt.Errorf("writing what to compare: %w", err)
		}
		if err := to.send(frameObject, raw); err != nil {
			return err
		}
	}
	return nil
}

// receivePods is the other side of sendPods: pods of one shape share it.
func receivePods(next func() ([]byte, error), into *table[corev1.Pod], shapes, pods int) error {
	var known table[corev1.Pod]
	if err := receiveAll(next, &known, shapes, (*corev1.Pod).Unmarshal); err != nil {
		return err
	}
	for len(into.all) < pods {
		raw, err := next()
		if err != nil {
			return err
		}
		var some []encodedPod
		if err := json.Unmarshal(raw, &some); err != nil {
			return fmt.Errorf("pods: %w", err)
		}
		for _, pod := range some {
			if pod.Shape < 0 || pod.Shape >= len(known.all) {
				return fmt.Errorf("pods: there is no shape %d", pod.Shape)
			}
			into.all = append(into.all, pod.Of(known.all[pod.Shape]))
		}
	}
	return nil
}

func reducedNode(node *corev1.Node) ([]byte, error) { return reduce.Node(node).Marshal() }
