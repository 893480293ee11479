package wire

import (
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/poolwright/poolwright/reconciler/admission"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/preview"
)

func TestWhatStrangersMayHaveWrittenIsComparedWithoutTheValuesOfSecrets(t *testing.T) {
	sync := &v1alpha1.Sync{}
	sync.Name, sync.Namespace = "dev", "ns"
	for name, tt := range map[string]struct {
		base string
		want bool
	}{
		"the operator's own folder":    {"", false},
		"a step between two revisions": {"origin/main", true},
	} {
		req := PlanRequest{REST: &rest.Config{Host: "https://127.0.0.1:1"}, Sync: sync, Namespace: "ns", Base: tt.base}
		_, _, vars, err := req.worlds(&admission.Refusals{})
		if err != nil || (vars.Loaded != nil) != tt.want {
			t.Errorf("%s: review %v, %v", name, vars.Loaded != nil, err)
		}
	}
	var a attempt
	a.cfg.REST, a.cfg.Namespace = &rest.Config{Host: "https://127.0.0.1:1"}, "ns"
	_, vars, _, err := a.readOnlyWorlds(sync, &preview.ObservedAt{}, flowcontrol.NewFakeAlwaysRateLimiter())
	if err != nil || vars.Loaded == nil {
		t.Errorf("a pull request is told by a world that knows values of Secrets: %v", err)
	}
}
