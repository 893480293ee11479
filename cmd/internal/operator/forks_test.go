package operator

import (
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/preview"
)

func TestWhatForksMayHaveWrittenIsComparedWithoutTheValuesOfSecrets(t *testing.T) {
	sync := &v1alpha1.Sync{}
	sync.Name, sync.Namespace = "dev", "ns"
	var a app
	a.cfg.REST, a.cfg.Namespace = &rest.Config{Host: "https://127.0.0.1:1"}, "ns"
	_, vars, _, err := a.readOnlyTargets(sync, &preview.ObservedAt{}, flowcontrol.NewFakeAlwaysRateLimiter())
	if err != nil || vars.Loaded == nil {
		t.Errorf("a pull request is told by a world that knows values of Secrets: %v", err)
	}
}
