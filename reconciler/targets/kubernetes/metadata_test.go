package kubernetes_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/state"
)

// numerous is more objects of one kind than are listed with their content where memory has current
// records of them.
const numerous = 60

func numerousMaps(changed map[int]string) string {
	var docs []string
	for i := range numerous {
		value := "1"
		if v, ok := changed[i]; ok {
			value = v
		}
		docs = append(docs, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m%d, namespace: $NS}\ndata: {a: %q}", i, value))
	}
	return strings.Join(docs, "\n---\n")
}

// TestWhatIsListedByMetadataIsComparedAsWhatIsListedWhole compares what a process finds that has
// current records with what one finds that has just started, and lists all objects with their content.
func TestWhatIsListedByMetadataIsComparedAsWhatIsListedWhole(t *testing.T) {
	patch := func(b *bench, name, kind, body string) {
		b.Helper()
		object := &unstructured.Unstructured{}
		object.SetAPIVersion("v1")
		object.SetKind("ConfigMap")
		object.SetNamespace(b.ns)
		object.SetName(name)
		if err := b.hand.Patch(b.Context(), object, client.RawPatch(types.PatchType(kind), []byte(body)), client.FieldOwner("hand")); err != nil {
			b.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		happens  func(b *bench)
		declared map[int]string
		// reads is how many objects are read by name.
		reads int
		want  []string
	}{
		"nothing has happened":            {want: []string{""}},
		"a declared value is another one": {declared: map[int]string{7: "2"}, reads: 1, want: []string{"update ConfigMap/$NS/m7", "  data.a: 1 -> 2"}},
		"an object was edited": {
			happens: func(b *bench) { patch(b, "m3", string(types.MergePatchType), `{"data":{"a":"edited"}}`) }, reads: 1,
			want: []string{"update ConfigMap/$NS/m3", "  data.a: edited -> 1"},
		},
		"an object has a value that nobody declares": {
			happens: func(b *bench) { patch(b, "m3", string(types.MergePatchType), `{"data":{"other":"x"}}`) }, reads: 1, want: []string{""},
		},
		"an object was deleted": {
			happens: func(b *bench) {
				if err := b.hand.Delete(b.Context(), b.get("v1", "ConfigMap", "m3")); err != nil {
					b.Fatal(err)
				}
			}, reads: 1, want: []string{"create ConfigMap/$NS/m3"},
		},
		"an object was made anew": {
			happens: func(b *bench) {
				if err := b.hand.Delete(b.Context(), b.get("v1", "ConfigMap", "m3")); err != nil {
					b.Fatal(err)
				}
				b.make("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m3, namespace: $NS}\ndata: {a: other}", "hand")
			}, reads: 1, want: []string{"update ConfigMap/$NS/m3", "  data.a: other -> 1", "  metadata.labels[\"poolwright.dev/sync\"]: nil -> $SYNC"},
		},
		"an object has lost its label": {
			happens: func(b *bench) {
				patch(b, "m3", string(types.MergePatchType), `{"metadata":{"labels":{"poolwright.dev/sync":null}}}`)
			}, reads: 1, want: []string{"update ConfigMap/$NS/m3", "  metadata.labels[\"poolwright.dev/sync\"]: nil -> $SYNC"},
		},
		"an object is being deleted": {
			happens: func(b *bench) {
				patch(b, "m3", string(types.MergePatchType), `{"metadata":{"finalizers":["example.com/wait"]}}`)
				if err := b.hand.Delete(b.Context(), b.get("v1", "ConfigMap", "m3")); err != nil {
					b.Fatal(err)
				}
			}, reads: 1, want: []string{"update ConfigMap/$NS/m3", "  metadata.deletionTimestamp: $TIME -> nil"},
		},
		"more were edited than are read by name": {
			happens: func(b *bench) {
				for i := range 9 {
					patch(b, fmt.Sprintf("m%d", i), string(types.MergePatchType), `{"data":{"other":"x"}}`)
				}
			}, want: []string{""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.reconcile(b.declare(numerousMaps(nil)))
			b.converged(b.declare(numerousMaps(nil)))
			if c.happens != nil {
				c.happens(b)
			}
			declared := b.declare(numerousMaps(c.declared))
			planned := func() []string {
				out := b.lines(b.plan(declared))
				for i, line := range out {
					if strings.Contains(line, "deletionTimestamp") {
						line = "  metadata.deletionTimestamp: $TIME -> nil"
					}
					out[i] = strings.ReplaceAll(strings.ReplaceAll(line, "<nil>", "nil"), "sync-$NS", "$SYNC")
				}
				return out
			}
			b.wire.take()
			got := planned()
			if n := countOf(b.wire.take(), "GET", "/configmaps/m"); n != c.reads {
				t.Errorf("%d objects were read by name, not %d", n, c.reads)
			}
			b.restart()
			if d := cmp.Diff(planned(), got); d != "" {
				t.Errorf("a process without records finds (-) and one with records (+):\n%s", d)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestAnObjectOfFluxIsFoundByItsMetadata(t *testing.T) {
	b := newBench(t)
	declared := b.declare(numerousMaps(nil))
	b.reconcile(declared)
	b.make("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: $NS}", "hand")
	object := b.get("v1", "ConfigMap", "m3")
	labels := object.GetLabels()
	labels["kustomize.toolkit.fluxcd.io/name"], labels["kustomize.toolkit.fluxcd.io/namespace"] = "apps", "flux-system"
	object.SetLabels(labels)
	if err := b.hand.Update(b.Context(), object, client.FieldOwner("hand")); err != nil {
		t.Fatal(err)
	}
	// The first comparison reads it, and records it as current; the second one has only its metadata.
	for _, reads := range []int{1, 0} {
		b.wire.take()
		observed, err := b.target.Observe(b.Context(), b.want(declared))
		if err != nil {
			t.Fatal(err)
		}
		item, _ := observed.Get(state.Key{Target: "kubernetes", Kind: "ConfigMap", Namespace: b.ns, Name: "m3"})
		if item.Owner.Name != "flux-system/apps" {
			t.Errorf("its owner is %q", item.Owner)
		}
		if n := countOf(b.wire.take(), "GET", "/configmaps/m3"); n != reads {
			t.Errorf("it was read %d times, not %d", n, reads)
		}
	}
}
