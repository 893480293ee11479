// Package integration runs the embedded engine against a real control plane and an
// emulated AWS. It has only tests; they are apart from the engine's own because
// an engine can be started once per process. Start reading at
// TestTheEngineInASandbox.
package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/engine/gate"
	"github.com/poolwright/poolwright/provision/sandbox"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/provision/sandbox/aws/policy"
	"github.com/poolwright/poolwright/provision/sandbox/sandboxtest"
)

// fixture is a running sandbox with a client that has no cache.
type fixture struct {
	*sandbox.Environment
	aws      sandboxaws.Config
	client   client.Client
	settings engine.Settings
	policy   []policy.Document // all that the engine may do in AWS
	clock    *aheadClock       // the engine's
	engine   *engine.Engine
	got      logs
}

func TestTheEngineInASandbox(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: it starts a control plane")
	}
	w := newFixture(t)
	t.Run("the CRDs are installed once", w.installCRDs)
	t.Run("every gate is open", w.gatesAreOpen)
	t.Run("each gate closes on what it is for", w.gatesClose)
	w.holdToPolicy(t)
	w.startEngine(t)
	t.Run("the engine's policy is enough for a node's whole life", w.aNodesLife)
	t.Run("a class names the request that EC2 denies", w.aDeniedDryRun)
	t.Run("nodes with GPUs are held until they are released", w.gpuNodes)
	t.Run("an alias that the CRD lets through does not end the process", w.badAlias)
	t.Run("after an outage disruption waits until the caches are proven", w.outage)
	t.Run("a capacity reservation holds as many nodes as it has instances", w.reserved)
	t.Run("what EC2 refuses is among the engine's offerings", w.refused)
	t.Run("node repair", w.nodeRepair)
	t.Run("the engine was denied nothing", w.nothingWasDenied)
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	config := sandbox.DefaultConfig()
	config.WithoutGit = true
	started := sandboxtest.Start(t, config)
	for name, value := range started.Env() {
		t.Setenv(name, value)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &fixture{Environment: started, aws: config.AWS, settings: engine.DefaultSettings(), clock: &aheadClock{}}
	w.settings.FeatureGates = map[string]bool{"NodeRepair": true}
	w.settings.Cluster, w.settings.Region, w.settings.Account = config.AWS.Cluster.Name, config.AWS.Region, config.AWS.Account
	w.settings.InterruptionQueue = config.AWS.Queues[0]
	// Karpenter's kinds are in client-go's scheme; ours above lacks them.
	for kind := range clientgoscheme.Scheme.AllKnownTypes() {
		if strings.HasPrefix(kind.Group, "karpenter.") {
			object, err := clientgoscheme.Scheme.New(kind)
			if err != nil {
				t.Fatal(err)
			}
			scheme.AddKnownTypeWithName(kind, object)
		}
	}
	var err error
	if w.client, err = client.New(started.REST(), client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *fixture) installCRDs(t *testing.T) {
	versions := map[string]string{}
	for range 2 {
		if kept, err := engine.InstallCRDs(t.Context(), w.client, w.settings); err != nil || len(kept) > 0 {
			t.Fatal(kept, err)
		}
		crds := &apiextensionsv1.CustomResourceDefinitionList{}
		if err := w.client.List(t.Context(), crds); err != nil {
			t.Fatal(err)
		}
		for _, crd := range crds.Items {
			// Status writes do not count.
			generation := fmt.Sprint(crd.Generation)
			if before, ok := versions[crd.Name]; ok && before != generation {
				t.Errorf("%s went from generation %s to %s", crd.Name, before, generation)
			}
			versions[crd.Name] = generation
		}
	}
	if len(versions) != 4 {
		t.Errorf("installed %v", versions)
	}
}

func (w *fixture) gates(t *testing.T) gate.Gates {
	t.Helper()
	config, err := engine.LoadAWS(t.Context(), w.settings.Region)
	if err != nil {
		t.Fatal(err)
	}
	return gate.Gates{
		Cluster: w.settings.Cluster, Region: w.settings.Region, Account: w.settings.Account,
		REST: w.REST(), Kube: w.client, AWS: config,
	}
}

func (w *fixture) gatesAreOpen(t *testing.T) {
	if closed, err := w.gates(t).Check(t.Context()); err != nil || len(closed) > 0 {
		t.Fatal(closed, err)
	}
}

// startEngine runs the engine until the test ends.
func (w *fixture) startEngine(t *testing.T) {
	t.Helper()
	config := engine.Config{Settings: w.settings, REST: w.REST(), Log: w.logger(), AllowGarbageCollection: w.gates(t).CheckGarbageCollection, Clock: w.clock}
	w.withGPUs(&config)
	eng, err := engine.New(config)
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(eng.RESTConfig(), eng.ManagerOptions(manager.Options{
		Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	if err := eng.AddTo(ctx, mgr); err != nil {
		t.Fatal(err)
	}
	w.engine = eng
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (w *fixture) badAlias(t *testing.T) {
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "odd"}, Spec: awsv1.EC2NodeClassSpec{
		Role:                       w.aws.Roles[0],
		AMISelectorTerms:           []awsv1.AMISelectorTerm{{Alias: "al2023@a@b"}},
		SubnetSelectorTerms:        []awsv1.SubnetSelectorTerm{{Tags: map[string]string{"x": "y"}}},
		SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Tags: map[string]string{"x": "y"}}},
	}}
	if err := w.client.Create(t.Context(), class); err != nil {
		t.Fatalf("the CRD has learned to refuse this, so alias.go may go: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the class is %+v", class.Status)
			w.got.show(t)
		}
	})
	w.eventually(t, "the class to report that it found no image", func() bool {
		if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(class), class); err != nil {
			return false
		}
		return class.StatusConditions().Get(awsv1.ConditionTypeAMIsReady).IsFalse()
	})
	if got := class.Spec.AMISelectorTerms[0].Alias; got != "al2023@a@b" {
		t.Errorf("the stored alias became %q", got)
	}
	if !w.got.contains("malformed AMI alias") {
		t.Error("nobody was told")
	}
}

func (w *fixture) outage(t *testing.T) {
	if w.got.contains(`"holding back" "controller"="disruption"`) {
		t.Fatal("disruption was held without an outage")
	}
	if err := w.KillAPIServer(); err != nil {
		t.Fatal(err)
	}
	w.eventually(t, "disruption to be held", func() bool {
		return w.got.contains(`"holding back" "controller"="disruption"`)
	})
	began := time.Now()
	if err := w.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.eventually(t, "disruption to go on", func() bool {
		return w.got.contains(`"going on" "controller"="disruption"`)
	})
	t.Logf("the view was proven again %s after the API server began to come back", time.Since(began).Round(time.Second))
	if !w.got.contains("not yet proven newer") {
		t.Error("disruption went on without a proof")
	}
}

func (w *fixture) logger() logr.Logger { return funcr.New(w.got.add, funcr.Options{}) }

// logs keeps what the engine says.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) add(_, args string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.WriteString(args + "\n")
}

// show logs the last lines, without those of controllers that start.
func (l *logs) show(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := slices.DeleteFunc(strings.Split(l.text.String(), "\n"), func(line string) bool {
		return strings.Contains(line, `"msg"="Starting `)
	})
	t.Log(strings.Join(lines[max(0, len(lines)-40):], "\n"))
}

func (l *logs) contains(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	// funcr writes keys in their order: level, msg, then ours.
	return strings.Contains(strings.ReplaceAll(l.text.String(), `"msg"=`, ""), part)
}
