package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// leavesReplicas requires that the Sync changed spec.replicas in no state of the workers' Deployment until now.
func (s *scaledSetup) leavesReplicas(deployments *recording) {
	s.Helper()
	var live appsv1.Deployment
	if err := s.hand.Get(s.Context(), client.ObjectKey{Namespace: "prod", Name: "ai-worker"}, &live); err != nil {
		s.Fatal(err)
	}
	if live.Annotations["example.com/team"] == "" {
		s.Error("the Sync has not applied the Deployment")
	}
	var states []*appsv1.Deployment
	s.eventually("the watch has the Deployment as it is", func() error {
		states = nil
		for _, one := range deployments.all(s.gpuSuite) {
			if d, is := one.object.(*appsv1.Deployment); is && d.Name == live.Name && !one.gone {
				states = append(states, d)
				if d.ResourceVersion == live.ResourceVersion {
					return nil
				}
			}
		}
		return fmt.Errorf("it has %d states of it", len(states))
	})
	if err := replicasOfTheSync(states); err != nil {
		s.Error(err)
	}
}

// replicasOfTheSync returns an error for states, in their order, in which the Sync owns spec.replicas, and for each that has another
// number of them than the one before and was written by the Sync: its entry of the managed fields is another one. Who else scaled is not
// always recorded, since the subresource scale makes nobody the owner of what has none, and omits zero.
func replicasOfTheSync(states []*appsv1.Deployment) (err error) {
	for i, d := range states {
		entry := entryOfTheSync(d)
		owns, readErr := ownsReplicas(entry)
		if readErr != nil {
			return readErr
		}
		if owns {
			err = errors.Join(err, fmt.Errorf("the Sync owns spec.replicas, %d, in version %s", *d.Spec.Replicas, d.ResourceVersion))
		}
		if i == 0 {
			continue
		}
		if before := states[i-1]; *d.Spec.Replicas != *before.Spec.Replicas && !equality.Semantic.DeepEqual(entryOfTheSync(before), entry) {
			err = errors.Join(err, fmt.Errorf("the Sync changed spec.replicas from %d to %d in version %s", *before.Spec.Replicas, *d.Spec.Replicas, d.ResourceVersion))
		}
	}
	return err
}

// entryOfTheSync is the Sync's of the managed fields, or empty.
func entryOfTheSync(d *appsv1.Deployment) metav1.ManagedFieldsEntry {
	for _, entry := range d.ManagedFields {
		if entry.Manager == v1alpha1.FieldManager && entry.Subresource == "" {
			return entry
		}
	}
	return metav1.ManagedFieldsEntry{}
}

// ownsReplicas is whether a manager owns spec.replicas.
func ownsReplicas(entry metav1.ManagedFieldsEntry) (bool, error) {
	if entry.FieldsV1 == nil {
		return false, nil
	}
	var fields struct {
		Spec map[string]any `json:"f:spec"`
	}
	if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
		return false, fmt.Errorf("reading the fields of %s: %w", entry.Manager, err)
	}
	_, owns := fields.Spec["f:replicas"]
	return owns, nil
}

func TestReplicasThatTheSyncChangesAreFound(t *testing.T) {
	t.Parallel()
	const owned, other = `{"f:spec":{"f:replicas":{}}}`, `{"f:spec":{"f:template":{}}}`
	state := func(replicas int32, second int64, sync, scale string) *appsv1.Deployment {
		at := metav1.Unix(second, 0)
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: v1alpha1.FieldManager, Time: &at, FieldsV1: metav1.NewFieldsV1(sync)},
				{Manager: "kube-controller-manager", Subresource: "scale", FieldsV1: metav1.NewFieldsV1(scale)},
			}},
			Spec: appsv1.DeploymentSpec{Replicas: &replicas},
		}
	}
	for _, test := range []struct {
		name   string
		states []*appsv1.Deployment
		found  bool
	}{
		{name: "the HPA raises and lowers them", states: []*appsv1.Deployment{state(1, 1, other, owned), state(4, 1, other, owned), state(2, 1, other, owned)}},
		{name: "nobody owns them, and the HPA lowers them", states: []*appsv1.Deployment{state(4, 1, other, `{}`), state(3, 1, other, `{}`)}},
		{name: "KEDA takes the last", states: []*appsv1.Deployment{state(1, 1, other, owned), state(0, 1, other, `{}`)}},
		{name: "the Sync applies another field", states: []*appsv1.Deployment{state(4, 1, other, owned), state(4, 2, other, owned), state(3, 2, other, owned)}},
		{name: "the Sync lowers them", states: []*appsv1.Deployment{state(4, 1, other, owned), state(0, 2, owned, `{}`)}, found: true},
		{name: "the Sync owns them and changes nothing", states: []*appsv1.Deployment{state(4, 1, other, owned), state(4, 2, owned, owned)}, found: true},
		{name: "the Sync gives them up, and they get their default", states: []*appsv1.Deployment{state(4, 1, other, `{}`), state(1, 2, other, `{}`)}, found: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if err := replicasOfTheSync(test.states); (err != nil) != test.found {
				t.Errorf("got %v", err)
			}
		})
	}
}
