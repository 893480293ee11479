package variables

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/state"
)

func TestOnlyTheValuesOfTheLoadedRevisionAreRevealed(t *testing.T) {
	token := "first"
	vars := &Current{Read: func(ctx context.Context) (substitute.Values, error) {
		sync := &v1alpha1.Sync{Spec: v1alpha1.SyncSpec{SubstituteFrom: []v1alpha1.SubstituteReference{{Kind: "Secret", Name: "s"}}}}
		return Values(ctx, sync, func(context.Context, v1alpha1.SubstituteReference) (substitute.Source, bool, error) {
			return substitute.Secret("Secret s", map[string][]byte{"TOKEN": []byte(token)}), true, nil
		}, fixedKey)
	}}
	secret := func() map[string]any {
		out, _, err := substitute.Apply([]manifest.Object{{Item: state.Item{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "stringData": map[string]any{"a": "${TOKEN}"}}}}}, vars.Newest(), substitute.Options{Strict: true})
		if err != nil {
			t.Fatal(err)
		}
		return out[0].Object
	}
	before, err := vars.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	vars.SetLoaded(vars.Newest())
	loaded := secret()
	token = "second"
	after, err := vars.Refresh(t.Context())
	if err != nil || after == before {
		t.Fatalf("digests %s and %s, %v", before, after, err)
	}
	// What was loaded is still what is applied.
	revealed, err := vars.Unmask(loaded)
	if diff := cmp.Diff(map[string]any{"a": "first"}, revealed["stringData"]); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if _, err := vars.Unmask(secret()); err == nil || strings.Contains(err.Error(), "second") {
		t.Errorf("what is not loaded: %v", err)
	}
	vars.SetLoaded(vars.Newest())
	revealed, err = vars.Unmask(secret())
	if diff := cmp.Diff(map[string]any{"a": "second"}, revealed["stringData"]); err != nil || diff != "" {
		t.Error(err, diff)
	}
}
