package engine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/karpenter-provider-aws/pkg/cloudprovider"
	"github.com/aws/karpenter-provider-aws/pkg/cloudprovider/registrationhooks"
	awscontrollers "github.com/aws/karpenter-provider-aws/pkg/controllers"
	"github.com/awslabs/operatorpkg/controller"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	corecontrollers "sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
)

const listVariable = "POOLWRIGHT_TEST_LIST"

// noManager is a manager that can only record events.
type noManager struct{ manager.Manager }

func (noManager) GetEventRecorderFor(string) record.EventRecorder { return record.NewFakeRecorder(0) }

// TestOurListIsKarpenters fails when an upgrade adds or drops a controller, at either pace.
// All lists register metrics when they are made, so each is made in its own process.
func TestOurListIsKarpenters(t *testing.T) {
	if which := os.Getenv(listVariable); which != "" {
		for _, name := range listed(which) {
			fmt.Println("controller", name)
		}
		return
	}
	for _, variant := range []string{"everything", "nothing"} {
		ours, theirs := list(t, "ours Stock "+variant), list(t, "theirs "+variant)
		if diff := cmp.Diff(theirs, ours); diff != "" {
			t.Errorf("controllers with %s on (-Karpenter +ours):\n%s", variant, diff)
		}
		if diff := cmp.Diff(fast(theirs), list(t, "ours Fast "+variant)); diff != "" {
			t.Errorf("controllers with %s on, at the pace Fast (-wanted +ours):\n%s", variant, diff)
		}
		if len(ours) < 40 {
			t.Errorf("only %d controllers with %s on", len(ours), variant)
		}
	}
}

// fast is Karpenter's list as the pace Fast changes it: the disruption controller runs twice,
// once for empty nodes, triggered by a watch; batches and pod events have controllers of ours.
func fast(theirs []string) []string {
	const karpenters, own = "sigs.k8s.io/karpenter/pkg/controllers/", "github.com/poolwright/poolwright/provision/engine/"
	var names []string
	for _, name := range theirs {
		switch name {
		case karpenters + "disruption.Controller":
			names = append(names, own+"emptiness.locked", own+"emptiness.locked", own+"emptiness.Watch")
		case karpenters + "provisioning.Provisioner":
			names = append(names, own+"batcher.Provisioner")
		case karpenters + "provisioning.PodController":
			names = append(names, own+"batcher.PodTrigger")
		case karpenters + "provisioning.NodeController":
			names = append(names, own+"batcher.NodeTrigger")
		case karpenters + "nodeclaim/podevents.Controller":
			names = append(names, own+"podevents.Controller")
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func list(t *testing.T, which string) []string {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestOurListIsKarpenters$")
	child.Env = append(os.Environ(), listVariable+"="+which)
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("listing %s: %v\n%s", which, err, out)
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "controller "); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// listed makes one of the lists and names its types.
func listed(which string) []string {
	s := valid()
	everything := strings.HasSuffix(which, "everything")
	s.FeatureGates = map[string]bool{}
	for _, g := range featureGates() {
		s.FeatureGates[g.name] = everything
	}
	s.Scheduling.IgnoreDRARequests = !everything
	if strings.Contains(which, string(PaceStock)) {
		s.Pace = PaceStock
	}
	s.Kubernetes.DisableClusterStateObservability, s.AWS.IsolatedVPC = !everything, !everything
	if everything {
		s.InterruptionQueue = "q"
	}
	ctx := newOptions(s).into(context.Background(), logr.Discard())
	nowhere := "http://127.0.0.1:1"
	p := &parts{
		settings: s,
		mgr:      noManager{}, clock: clock.RealClock{}, recorder: events.NewRecorder(record.NewFakeRecorder(0)),
		store:     nodeoverlay.NewInstanceTypeStore(),
		providers: &providers{config: aws.Config{Region: "us-east-1", BaseEndpoint: &nowhere, RetryMaxAttempts: 1}},
	}
	p.plain = cloudprovider.New(nil, nil, p.recorder, nil, nil, nil, nil, nil, p.store, nil)
	p.cloud = p.plain
	p.cluster = state.NewCluster(p.clock, nil, p.cloud)
	var all []controller.Controller
	if strings.HasPrefix(which, "ours") {
		all = append(coreControllers(ctx, p), awsControllers(ctx, p)...)
	} else {
		hook := registrationhooks.NewPlacementGroupRegistrationHook(nil)
		all = append(
			corecontrollers.NewControllers(ctx, p.mgr, p.clock, nil, p.recorder, p.cloud, p.plain, p.cluster, p.store, corecontrollers.WithRegistrationHook(hook)),
			awscontrollers.NewControllers(ctx, p.mgr, p.providers.config, p.clock, nil, nil, p.recorder, nil, nil, nil, nil, p.cloud, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil)...)
	}
	names := make([]string, 0, len(all))
	for _, c := range all {
		if g, ok := c.(*gatedController); ok {
			names = append(names, typeName(g.inner))
			continue
		}
		names = append(names, typeName(c))
	}
	return names
}

// typeName is the type's with its package's path, since ours have names of Karpenter's.
func typeName(value any) string {
	t := reflect.TypeOf(value)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.PkgPath() + "." + t.Name()
}
