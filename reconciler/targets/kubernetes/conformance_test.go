package kubernetes_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/targettest"
)

func TestTheClusterIsATarget(t *testing.T) {
	targettest.Run(t, func(t *testing.T) targettest.Fixture {
		b := newBench(t)
		account := "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: robot, namespace: $NS, labels: {team: infra}}"
		return targettest.Fixture{
			Connect: func(t *testing.T) targets.Target {
				b.restart()
				return b.target
			},
			Things:  b.declare(config, web, secret, pool, account),
			Revised: b.declare(strings.Replace(config, `a: "1"`, `a: "2"`, 1), web, strings.Replace(secret, "password: hunter2", "password: hunter3", 1), strings.Replace(pool, "spec:", "spec:\n  weight: 5", 1), account),
			Edit: func(t *testing.T, k state.Key) {
				b.edit("v1", k.Kind, k.Name, func(o map[string]any) { set(o, "edited", "data", "a") })
			},
			Remove: func(t *testing.T, k state.Key) {
				if err := b.hand.Delete(t.Context(), b.get("v1", k.Kind, k.Name)); err != nil {
					t.Fatal(err)
				}
			},
			Replace: func(t *testing.T, k state.Key) {
				u := &unstructured.Unstructured{}
				u.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: k.Kind})
				u.SetNamespace(k.Namespace)
				u.SetName(k.Name)
				if err := b.hand.Delete(t.Context(), u); err != nil {
					t.Fatal(err)
				}
				u.SetUID("")
				if err := b.hand.Create(t.Context(), u, client.FieldOwner("kubectl-create")); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}
