package engine

import (
	"context"
	"strings"
	"testing"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
)

// fragile panics whatever it is asked, as a nil provider does.
type fragile struct{ cloudprovider.CloudProvider }

func TestAPanicOfTheProviderIsAnErrorOfThatCall(t *testing.T) {
	cloud := recoveringProvider{fragile{}}
	ctx, claim := context.Background(), &karpv1.NodeClaim{}
	for name, call := range map[string]func() error{
		"launching":        func() error { _, err := cloud.Create(ctx, claim); return err },
		"terminating":      func() error { return cloud.Delete(ctx, claim) },
		"rebooting":        func() error { return cloud.Reboot(ctx, claim, "1") },
		"reading instance": func() error { _, err := cloud.Get(ctx, "x"); return err },
		"listing":          func() error { _, err := cloud.List(ctx); return err },
		"instance types":   func() error { _, err := cloud.GetInstanceTypes(ctx, &karpv1.NodePool{}); return err },
		"drift":            func() error { _, err := cloud.IsDrifted(ctx, claim); return err },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "panicked with") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
