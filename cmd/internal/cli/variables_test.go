package cli

import (
	"strings"
	"testing"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

func TestASyncWithoutParametersHasNoneToUpdate(t *testing.T) {
	sync := &v1alpha1.Sync{}
	sync.Name = "dev"
	sync.Spec.SubstituteFrom = []v1alpha1.SubstituteReference{{Kind: v1alpha1.SubstituteConfigMap, Name: "settings"}}
	// No client is asked.
	if err := updateParameters(t.Context(), nil, sync, waitFlags{}, nil); err == nil || !strings.Contains(err.Error(), "Sync dev has no SSM parameter") {
		t.Errorf("error %v", err)
	}
}

func TestWhatAnUpdateOfParametersChangedIsPrinted(t *testing.T) {
	pin := func(variable, value string) v1alpha1.PinnedParameter {
		return v1alpha1.PinnedParameter{Variable: variable, Value: value}
	}
	for name, c := range map[string]struct {
		was, is []v1alpha1.PinnedParameter
		want    string
	}{
		"a newer value beside one that was the newest": {
			[]v1alpha1.PinnedParameter{pin("CPU", "ami-1"), pin("GPU", "ami-2")}, []v1alpha1.PinnedParameter{pin("CPU", "ami-1"), pin("GPU", "ami-3")},
			"${GPU} is ami-3 now, it was ami-2\n",
		},
		"a first value": {nil, []v1alpha1.PinnedParameter{pin("GPU", "ami-3")}, "${GPU} is ami-3\n"},
		"nothing newer": {
			[]v1alpha1.PinnedParameter{pin("GPU", "ami-3")}, []v1alpha1.PinnedParameter{pin("GPU", "ami-3")},
			"the parameters have the newest values already\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			printParameters(&out, c.was, c.is)
			if out.String() != c.want {
				t.Errorf("it is %q", out.String())
			}
		})
	}
}
