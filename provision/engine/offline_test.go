package engine_test

import (
	"testing"

	awsoptions "github.com/aws/karpenter-provider-aws/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"

	"github.com/poolwright/poolwright/provision/engine"
)

func TestASimulationHasTheEnginesOptions(t *testing.T) {
	s := engine.DefaultSettings()
	s.Cluster, s.Nodes.VMMemoryOverheadPercent, s.Scheduling.PreferencePolicy = "blue", 0.05, "Ignore"
	ctx := engine.Offline(t.Context(), s)
	if got := coreoptions.FromContext(ctx); got.PreferencePolicy != coreoptions.PreferencePolicyIgnore || !got.FeatureGates.NodeOverlay {
		t.Errorf("core options: %+v", got)
	}
	if got := awsoptions.FromContext(ctx); got.ClusterName != "blue" || got.VMMemoryOverheadPercent != 0.05 {
		t.Errorf("provider options: %+v", got)
	}
	if got := injection.GetControllerName(ctx); got != "whatif" {
		t.Errorf("its metrics are those of %q", got)
	}
}
