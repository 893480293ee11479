package variables

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

const gpuParameter = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/nvidia/recommended/image_id"

func keyOf(sync *v1alpha1.Sync) state.Key {
	return state.Key{Target: "kubernetes", Group: v1alpha1.GroupVersion.Group, Kind: "Sync", Namespace: sync.Namespace, Name: sync.Name}
}

func TestAPlanUsesThePinnedValuesAndStatesWhatIsNewer(t *testing.T) {
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: "dev", Namespace: "poolwright"}}
	sync.Spec.SubstituteFrom = []v1alpha1.SubstituteReference{{Kind: v1alpha1.SubstituteSSMParameter, Name: gpuParameter, Variable: "GPU"}}
	if _, err := Pinned(sync); err == nil || !strings.Contains(err.Error(), gpuParameter) {
		t.Errorf("before there are any: %v", err)
	}
	if got := Notes(keyOf(sync), sync, substitute.Values{}); len(got) != 1 || got[0].Severity != finding.Warning || !strings.HasPrefix(got[0].Text, "${GPU} is the value of SSM parameter "+gpuParameter+", which is not read here") {
		t.Errorf("a value that nobody knows is noted as %v", got)
	}
	for latest, tail := range map[string]string{"": "", "ami-2": "; the newest is ami-2: poolwright reconcile dev --update-parameters takes it"} {
		live := sync.DeepCopy()
		live.Status.Parameters = []v1alpha1.PinnedParameter{{Variable: "GPU", Name: gpuParameter, Value: "ami-1", Latest: latest, PinnedAt: metav1.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)}}
		// A Sync of a file that was never applied plans as the live one does.
		file, err := WithValues(t.Context(), sync, live, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, sync := range []*v1alpha1.Sync{live, file} {
			values, err := Pinned(sync)
			notes, want := Notes(keyOf(sync), sync, substitute.Values{}), "${GPU} is ami-1, from SSM parameter "+gpuParameter+" on 2026-11-22"+tail
			if err != nil || values["GPU"] != "ami-1" || len(notes) != 1 || notes[0].Text != want || notes[0].Key.String() != "Sync.poolwright.dev/poolwright/dev" {
				t.Errorf("%v, %v, %v; want %s", values, notes, err, want)
			}
		}
	}
}

func TestASyncWithPinnedValuesUsesVariablesUntilTheyAreDropped(t *testing.T) {
	sync := &v1alpha1.Sync{}
	if Used(sync) {
		t.Error("nothing is to be filled in")
	}
	sync.Status.Parameters = []v1alpha1.PinnedParameter{{Variable: "GPU", Name: gpuParameter, Value: "ami-1"}}
	if !Used(sync) {
		t.Error("nobody would look at the parameters again")
	}
}

func TestANoteNamesTheValueOfAParameterThatAnotherSourceWinsOver(t *testing.T) {
	ssm := v1alpha1.SubstituteReference{Kind: v1alpha1.SubstituteSSMParameter, Name: gpuParameter, Variable: "GPU"}
	settings := v1alpha1.SubstituteReference{Kind: v1alpha1.SubstituteConfigMap, Name: "settings"}
	const used = "${GPU} is ami-1, from SSM parameter " + gpuParameter + ", and stays that once the Sync has read it"
	const unused = ": SSM parameter " + gpuParameter + ", of which the Sync has the value ami-1, is not used"
	for name, tt := range map[string]struct {
		substitute map[string]string
		from       []v1alpha1.SubstituteReference
		want       string
	}{
		"nothing wins over it":               {from: []v1alpha1.SubstituteReference{settings, ssm}, want: used},
		"spec.substitute wins":               {map[string]string{"GPU": "ami-hand"}, []v1alpha1.SubstituteReference{settings, ssm}, "${GPU} comes from spec.substitute" + unused},
		"a later ConfigMap wins":             {from: []v1alpha1.SubstituteReference{ssm, settings}, want: "${GPU} comes from ConfigMap settings" + unused},
		"the same value is reported so, too": {map[string]string{"GPU": "ami-1"}, []v1alpha1.SubstituteReference{ssm}, "${GPU} comes from spec.substitute" + unused},
	} {
		sync := &v1alpha1.Sync{}
		sync.Spec.Substitute, sync.Spec.SubstituteFrom = tt.substitute, tt.from
		sync.Status.Parameters = []v1alpha1.PinnedParameter{{Variable: "GPU", Name: gpuParameter, Value: "ami-1", Version: 1}}
		values, err := Values(t.Context(), sync, WithParameters(map[string]string{"GPU": "ami-1"}, func(context.Context, v1alpha1.SubstituteReference) (substitute.Source, bool, error) {
			return substitute.Public("ConfigMap settings", map[string]string{"GPU": "ami-settings"}), true, nil
		}), randomKey)
		if err != nil {
			t.Fatal(err)
		}
		if notes := Notes(keyOf(sync), sync, values); len(notes) != 1 || notes[0].Text != tt.want {
			t.Errorf("%s: %v; want %s", name, notes, tt.want)
		}
		// One that nobody has read is no matter where it is not used.
		sync.Status.Parameters = nil
		if notes := Notes(keyOf(sync), sync, values); (len(notes) == 1) != (tt.want == used) {
			t.Errorf("%s, unread: %v", name, notes)
		}
	}
}
