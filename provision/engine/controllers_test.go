package engine

import (
	"context"
	"errors"
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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	corecontrollers "sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/node/health"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/state/prediction"
)

const listVariable = "POOLWRIGHT_TEST_LIST"

// noManager is a manager that can only record events.
type noManager struct{ manager.Manager }

// liveReader stands for reads from the API server, and is never called.
type liveReader struct{ client.Reader }

func (noManager) GetEventRecorderFor(string) record.EventRecorder { return record.NewFakeRecorder(0) }

// TestOurListIsKarpenters fails when an upgrade adds or drops a controller, at either pace, and
// where a check of ours is missing before one that takes nodes away.
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
		if diff := cmp.Diff(stock(theirs), ours); diff != "" {
			t.Errorf("controllers with %s on (-Karpenter with our checks +ours):\n%s", variant, diff)
		}
		if diff := cmp.Diff(fast(theirs), list(t, "ours Fast "+variant)); diff != "" {
			t.Errorf("controllers with %s on, at the pace Fast (-desired +ours):\n%s", variant, diff)
		}
		if len(ours) < 40 {
			t.Errorf("only %d controllers with %s on", len(ours), variant)
		}
	}
}

const karpenters = "sigs.k8s.io/karpenter/pkg/controllers/"

// stock is Karpenter's list with our checks: nodes are disrupted, and instances that have no
// NodeClaim terminated, only where that is allowed.
func stock(theirs []string) []string {
	return changed(theirs, map[string][]string{
		karpenters + "disruption.Controller":            {karpenters + "disruption.Controller if fresh"},
		karpenters + "disruption.Queue":                 {karpenters + "disruption.Queue by engine.guardedClient if fresh"},
		karpenters + "nodeclaim/reboot.Controller":      {karpenters + "nodeclaim/reboot.Controller by engine.guardedClient if fresh"},
		karpenters + "nodeoverlay.Controller":           {"github.com/poolwright/poolwright/provision/engine/batcher.Evaluation of nodeoverlay.Controller"},
		karpenters + "static/deprovisioning.Controller": {karpenters + "static/deprovisioning.Controller by engine.guardedClient if fresh"},
		"github.com/aws/karpenter-provider-aws/pkg/controllers/nodeclaim/garbagecollection.Controller": {
			"github.com/aws/karpenter-provider-aws/pkg/controllers/nodeclaim/garbagecollection.Controller by garbagecollection.liveClient with live reads if collection is allowed",
		},
	})
}

// fast is that list as the pace Fast changes it: the disruption controller runs twice, once for
// empty nodes, triggered by a watch, and its queue validates them; batches and pod events have
// controllers of ours, the lock of the disruption controllers counts what the provisioner creates, and that has
// its finalizer from the beginning.
func fast(theirs []string) []string {
	const own = "github.com/poolwright/poolwright/provision/engine/"
	return changed(stock(theirs), map[string][]string{
		karpenters + "disruption.Controller if fresh": {own + "emptiness.locked of disruption.Controller if fresh", own + "emptiness.locked of disruption.Controller if fresh", own + "emptiness.Watch"},
		karpenters + "disruption.Queue by engine.guardedClient if fresh": {
			karpenters + "disruption.Queue by emptiness.Client with live reads by engine.guardedClient if fresh",
		},
		karpenters + "provisioning.Provisioner":       {own + "batcher.Provisioner of provisioning.Provisioner by batcher.finalizedClient by emptiness.countingClient"},
		karpenters + "provisioning.PodController":     {own + "batcher.PodTrigger"},
		karpenters + "provisioning.NodeController":    {own + "batcher.NodeTrigger"},
		karpenters + "nodeclaim/podevents.Controller": {own + "podevents.Controller"},
	})
}

// changed is the list with others in the place of some.
func changed(list []string, others map[string][]string) []string {
	var names []string
	for _, name := range list {
		if instead, ok := others[name]; ok {
			names = append(names, instead...)
			continue
		}
		names = append(names, name)
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
	p.live = liveReader{}
	// Two functions, by which a check can be identified.
	p.synced = func(context.Context) error { return errors.New("not fresh") }
	p.collection = func(context.Context) error { return errors.New("no collection") }
	p.undecorated = cloudprovider.New(nil, nil, p.recorder, nil, nil, nil, nil, nil, p.store, nil)
	p.cloud = p.undecorated
	repairs, err := health.NewRepairPolicyMatcher(ctx, p.cloud)
	if err != nil {
		panic(err)
	}
	p.cluster = state.NewCluster(p.clock, nil, p.cloud, state.WithRepairPolicyMatcher(repairs))
	var all []controller.Controller
	if strings.HasPrefix(which, "ours") {
		all = append(coreControllers(ctx, p), awsControllers(ctx, p)...)
	} else {
		hook := registrationhooks.NewPlacementGroupRegistrationHook(nil)
		all = append(
			corecontrollers.NewControllers(ctx, p.mgr, p.clock, nil, p.recorder, p.cloud, p.undecorated, p.cluster, p.store, prediction.NewStore(), corecontrollers.WithRegistrationHook(hook)),
			awscontrollers.NewControllers(ctx, p.mgr, p.providers.config, p.clock, nil, nil, p.recorder, nil, nil, nil, nil, p.cloud, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil)...)
	}
	names := make([]string, 0, len(all))
	for _, c := range all {
		if g, ok := c.(*gatedController); ok {
			names = append(names, typeName(g.inner)+clientsOf(p, g.inner)+allowedBy(p, reflect.ValueOf(g.allowed)))
			continue
		}
		names = append(names, typeName(c)+clientsOf(p, c))
	}
	return names
}

// clientsOf states through which clients a controller of Karpenter's writes, the outermost
// first: those that were put before the parts' own, which is nil.
func clientsOf(p *parts, c any) string {
	var text strings.Builder
	within := reflect.Indirect(reflect.ValueOf(c))
	if within.Kind() != reflect.Struct {
		return ""
	}
	if inner := within.FieldByName("inner"); inner.IsValid() {
		within = reflect.Indirect(inner.Elem())
		text.WriteString(" of " + within.Type().String())
	}
	for at := within.FieldByName("kubeClient"); at.IsValid() && at.Kind() == reflect.Interface && !at.IsNil(); at = at.FieldByName("Client") {
		at = reflect.Indirect(at.Elem())
		text.WriteString(" by " + at.Type().String())
		if allowed := at.FieldByName("allowed"); allowed.IsValid() {
			text.WriteString(allowedBy(p, allowed))
		}
		if live := at.FieldByName("live"); live.IsValid() && !live.IsNil() && live.Elem().Type() == reflect.TypeFor[liveReader]() {
			text.WriteString(" with live reads")
		}
	}
	return text.String()
}

// allowedBy states which check a function is.
func allowedBy(p *parts, allowed reflect.Value) string {
	switch allowed.Pointer() {
	case reflect.ValueOf(p.synced).Pointer():
		return " if fresh"
	case reflect.ValueOf(p.collection).Pointer():
		return " if collection is allowed"
	default:
		return " unchecked"
	}
}

// typeName is the type's with its package's path, since ours have names of Karpenter's.
func typeName(value any) string {
	t := reflect.TypeOf(value)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.PkgPath() + "." + t.Name()
}
