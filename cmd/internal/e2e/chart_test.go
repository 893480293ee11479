package e2e

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The module .ci/chart renders the chart by Helm's packages and keeps what each set of values changes;
// here an API server with Pod Security's level restricted gets all of it, as a dry run.
func TestTheAPIServerAcceptsWhatTheChartRenders(t *testing.T) {
	t.Parallel()
	const in = "chart"
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: in, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}},
		// Pods are refused where theirs does not exist.
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "poolwright", Namespace: in}},
	} {
		if err := hand.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob("../../../.ci/chart/testdata/*.yaml")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d sets of values, %v", len(files), err)
	}
	pods := 0
	for _, name := range append(files, "../../../config/testdata/default.yaml") {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".yaml"), func(t *testing.T) {
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, object := range documents(t, bytes.ReplaceAll(raw, []byte(engineSystem), []byte(in))) {
				// The Prometheus Operator's kinds are checked by its own types in .ci/chart.
				if object.GroupVersionKind().Group == "monitoring.coreos.com" {
					continue
				}
				//nolint:staticcheck // Its successor wants generated apply configurations, which there are none of for any kind.
				err := hand.Patch(t.Context(), object.DeepCopy(), client.Apply, client.DryRunAll, client.ForceOwnership, client.FieldOwner("helm"))
				if err != nil {
					t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
				}
				if object.GetKind() != "Deployment" {
					continue
				}
				pods++
				pod := podOf(t, object)
				if err := hand.Create(t.Context(), pod.DeepCopy(), client.DryRunAll); err != nil {
					t.Error(err)
				}
				// That Pod Security is in force.
				pod.Spec.SecurityContext.RunAsNonRoot = nil
				if err := hand.Create(t.Context(), pod, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "runAsNonRoot") {
					t.Errorf("a pod that may be root: %v", err)
				}
			}
		})
	}
	if pods < 20 {
		t.Errorf("%d pods were tried", pods)
	}
}

// documents are the objects of YAML documents.
func documents(t *testing.T, raw []byte) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for decoder := utilyaml.NewYAMLToJSONDecoder(bytes.NewReader(raw)); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return slices.DeleteFunc(out, func(u *unstructured.Unstructured) bool { return len(u.Object) == 0 })
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, object)
	}
}

// podOf is a pod as a Deployment makes it.
func podOf(t *testing.T, deployment *unstructured.Unstructured) *corev1.Pod {
	t.Helper()
	var typed appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(deployment.Object, &typed, true); err != nil {
		t.Fatal(err)
	}
	template := typed.Spec.Template
	template.GenerateName, template.Namespace = "poolwright-", deployment.GetNamespace()
	return &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
}
