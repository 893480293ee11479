package engine

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	awsoptions "github.com/aws/karpenter-provider-aws/pkg/operator/options"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"
)

// valid are settings as a Cluster object would give them.
func valid() Settings {
	s := DefaultSettings()
	s.Cluster, s.Region, s.Account = "dev", "us-east-1", "111122223333"
	return s
}

func TestSettingsValidate(t *testing.T) {
	for _, test := range []struct {
		name    string
		change  func(*Settings)
		message []string
	}{
		{"defaults with an identity are fine", func(*Settings) {}, nil},
		{"a long region name is fine", func(s *Settings) { s.Region = "us-gov-west-1" }, nil},
		{"a missing cluster name is named", func(s *Settings) { s.Cluster = "" }, []string{"spec.name is missing"}},
		{"a cluster name with a space is refused", func(s *Settings) { s.Cluster = "a b" }, []string{`spec.name is "a b"`, "letters"}},
		{"a missing region is named", func(s *Settings) { s.Region = "" }, []string{"spec.region is missing", "us-east-1"}},
		{"a zone is no region", func(s *Settings) { s.Region = "us-east-1a" }, []string{`spec.region is "us-east-1a"`}},
		{"an account that lost its zeros is refused", func(s *Settings) { s.Account = "11112222333" }, []string{"spec.account", "twelve digits"}},
		{"a queue's URL is not its name", func(s *Settings) { s.InterruptionQueue = "https://sqs/1/q" }, []string{"spec.engine.interruptionQueue", "not its URL"}},
		{"a batch of nothing is refused", func(s *Settings) { s.Batch.Idle = 0 }, []string{"spec.engine.batchIdleDuration", "10ms"}},
		{"a window shorter than its idle time is refused", func(s *Settings) { s.Batch.Max = time.Millisecond * 50 }, []string{"spec.engine.batchMaxDuration is 50ms", "batchIdleDuration, which is 100ms"}},
		{"an unknown gate is named with the known ones", func(s *Settings) { s.FeatureGates = map[string]bool{"NodeOverlays": true} },
			[]string{`"NodeOverlays"`, "CapacityBuffer, DRANVIDIAGPU, NodeOverlay, NodeRepair, ReservedCapacity, SpotToSpotConsolidation, StaticCapacity, TerminateFirstDrift, TerminateFirstRepair"}},
		{"a gate that is not offered is refused with the reason", func(s *Settings) { s.FeatureGates = map[string]bool{"RebootForRepair": true} }, []string{"does not offer", "ec2:RebootInstances"}},
		{"a policy for preferences that Karpenter has not is refused", func(s *Settings) { s.Scheduling.PreferencePolicy = "ignore" }, []string{`spec.engine.preferencePolicy is "ignore"`, "Respect or Ignore"}},
		{"a policy for minValues that Karpenter has not is refused", func(s *Settings) { s.Scheduling.MinValuesPolicy = "Relaxed" }, []string{`spec.engine.minValuesPolicy is "Relaxed"`, "Strict or BestEffort"}},
		{"a pace that does not exist is refused", func(s *Settings) { s.Pace = "Slow" }, []string{`spec.engine.pace is "Slow"`, "Fast or Stock"}},
		{"an endpoint without TLS is refused", func(s *Settings) { s.Nodes.Endpoint = "http://x" }, []string{"spec.engine.clusterEndpoint"}},
		{"a bundle that is PEM is refused", func(s *Settings) { s.Nodes.CABundle = "-----BEGIN" }, []string{"CLUSTER_CA_BUNDLE", "encoded once"}},
		{"an overhead of everything is refused", func(s *Settings) { s.Nodes.VMMemoryOverheadPercent = 1 }, []string{"spec.engine.vmMemoryOverheadPercent"}},
		{"an overhead that is no number is refused", func(s *Settings) { s.Nodes.VMMemoryOverheadPercent = math.NaN() }, []string{"spec.engine.vmMemoryOverheadPercent"}},
		{"a hasty refresh is refused", func(s *Settings) { s.AWS.AMIRefreshInterval = time.Second }, []string{"spec.engine.amiRefreshInterval is 1s", "1m"}},
		{"a zero rate is refused", func(s *Settings) { s.Kubernetes.QPS = 0 }, []string{"spec.engine.kubeClientQPS is 0"}},
		{"all problems are reported at once", func(s *Settings) { *s = Settings{} }, []string{"spec.name", "spec.region", "spec.account", "batchIdleDuration", "spec.engine.subnetRefreshInterval", "spec.engine.cpuRequests"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := valid()
			test.change(&s)
			err := s.Validate()
			if (err != nil) != (len(test.message) > 0) {
				t.Fatalf("got %v", err)
			}
			for _, part := range test.message {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}

func TestAPasswordInAnEndpointIsNotRepeated(t *testing.T) {
	s := valid()
	s.Nodes.Endpoint = "https://user:hunter2@host"
	if err := s.Validate(); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}

func TestHash(t *testing.T) {
	base := valid().Hash()
	same := valid()
	same.FeatureGates = map[string]bool{"NodeOverlay": true, "NodeRepair": false}
	if same.Hash() != base {
		t.Error("a default spelled out changed the hash")
	}
	observed := map[string]string{base: "nothing"}
	walkFields(reflect.TypeFor[Settings](), nil, func(path []int, name string) {
		changed := valid()
		poke(reflect.ValueOf(&changed).Elem().FieldByIndex(path))
		hash := changed.Hash()
		if other, taken := observed[hash]; taken {
			t.Errorf("changing %s gives the same hash as changing %s", name, other)
		}
		observed[hash] = name
	})
	if len(observed) < 20 {
		t.Errorf("only %d fields were tried", len(observed))
	}
}

func walkFields(of reflect.Type, at []int, visit func([]int, string)) {
	for i := range of.NumField() {
		field, path := of.Field(i), append(slices.Clone(at), i)
		if field.Type.Kind() == reflect.Struct {
			walkFields(field.Type, path, visit)
			continue
		}
		visit(path, field.Name)
	}
}

func poke(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Float64:
		v.SetFloat(v.Float() + 0.5)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]bool{"NodeRepair": true, GateDRA: true}))
	default:
		v.SetInt(v.Int() + 7)
	}
}

func TestEveryGateOfKarpenterHasAName(t *testing.T) {
	fields := map[string]bool{}
	for _, gates := range []reflect.Type{reflect.TypeFor[coreoptions.FeatureGates](), reflect.TypeFor[awsoptions.FeatureGates]()} {
		for field := range gates.Fields() {
			if field.IsExported() {
				fields[field.Name] = true
			}
		}
	}
	for name, because := range refusedGates() {
		if !fields[name] || because == "" {
			t.Errorf("refused gate %s is one of Karpenter's: %t, because %q", name, fields[name], because)
		}
		delete(fields, name)
	}
	for _, gate := range featureGates() {
		if !fields[gate.name] {
			t.Errorf("gate %s is not one of Karpenter's", gate.name)
		}
		delete(fields, gate.name)
		for _, on := range []bool{true, false} {
			resolved := resolveGates(map[string]bool{gate.name: on})
			of := reflect.ValueOf(resolved.core)
			if !of.FieldByName(gate.name).IsValid() {
				of = reflect.ValueOf(resolved.aws)
			}
			if got := of.FieldByName(gate.name).Bool(); got != on {
				t.Errorf("setting %s to %t gives %t", gate.name, on, got)
			}
		}
	}
	if len(fields) > 0 {
		t.Errorf("Karpenter has gates that are not in the list: %v", fields)
	}
	if on := resolveGates(nil); !on.core.NodeOverlay || !on.core.ReservedCapacity || on.core.NodeRepair || on.aws.DRANVIDIAGPU {
		t.Errorf("defaults are %+v", resolveGates(nil))
	}
}

// A cache of claims that is behind would have the same GPU counted as free twice.
func TestTheCachesOfClaimsDecideWithTheirGate(t *testing.T) {
	for _, on := range []bool{false, true} {
		settings := DefaultSettings()
		settings.FeatureGates[GateDRA] = on
		e := &Engine{options: newOptions(settings)}
		found := map[string]bool{}
		for _, object := range e.cachesOfDecisions() {
			found[fmt.Sprintf("%T", object)] = true
		}
		for _, kind := range []string{"*v1.ResourceClaim", "*v1.ResourceSlice"} {
			if found[kind] != on {
				t.Errorf("with the gate on: %v, %s decides: %v", on, kind, found[kind])
			}
		}
	}
}

// TestOptionsAreKarpentersDefaults reads the defaults from Karpenter's own flags.
func TestOptionsAreKarpentersDefaults(t *testing.T) {
	settings := valid()
	settings.Pace, settings.Batch.Idle = PaceStock, PaceStock.BatchIdle()
	got := newOptions(settings)
	stock := stockOptions(t)
	stock.core.FeatureGates.NodeOverlay = true // ours
	stock.provider.ClusterName = "dev"
	// What follows is the manager's or the process's, not the engine's.
	stock.core.MetricsPort, stock.core.HealthProbePort, stock.core.LeaderElectionName = 0, 0, ""
	if diff := exportedDiff(*stock.core, *got.core); diff != "" {
		t.Errorf("core options (-Karpenter +ours):\n%s", diff)
	}
	if diff := exportedDiff(*stock.provider, *got.provider); diff != "" {
		t.Errorf("provider options (-Karpenter +ours):\n%s", diff)
	}
}
