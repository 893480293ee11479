package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// Desired is what the live Cluster object declares of the engine.
type Desired struct {
	// Cluster is the oldest, and nil where there is none; others are all other ones, for which
	// nothing is done.
	Cluster *v1alpha1.Cluster
	Others  []v1alpha1.Cluster
	// EngineOn is true when the engine is enabled here.
	EngineOn bool
	// Settings are valid only when on and err is nil.
	Settings engine.Settings
	// reason and message are why the engine is not on, or cannot be.
	Reason, Message string
	// Invalid is true when the settings cannot work.
	Invalid bool
}

// hash changes when the process must be started anew to follow the desired state.
func (s Desired) hash() string {
	if !s.EngineOn {
		return "off"
	}
	return s.Settings.Hash()
}

// ReadDesired reads the API server, never Git, so that a Git outage at a
// restart stops nothing. Of several Clusters the oldest decides: one that is renamed in
// Git is created under its new name while the deletion of the old one is held until it is confirmed.
func ReadDesired(ctx context.Context, reader client.Reader) (Desired, error) {
	all, err := Clusters(ctx, reader)
	if err != nil {
		return Desired{}, err
	}
	if len(all) == 0 {
		return Desired{Reason: "NoCluster", Message: "there is no Cluster object yet"}, nil
	}
	s := desiredOf(&all[0])
	s.Others = all[1:]
	return s, nil
}

// Live returns a function that reads the Cluster that decides; nil where there is none.
func Live(reader client.Reader) func(context.Context) (*v1alpha1.Cluster, error) {
	return func(ctx context.Context) (*v1alpha1.Cluster, error) {
		all, err := Clusters(ctx, reader)
		if err != nil || len(all) == 0 {
			return nil, err
		}
		return &all[0], nil
	}
}

// Clusters are all Clusters of the API server, the one that decides first.
func Clusters(ctx context.Context, reader client.Reader) ([]v1alpha1.Cluster, error) {
	var list v1alpha1.ClusterList
	if err := reader.List(ctx, &list); err != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("reading the Cluster object: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.Cluster) int { return v1alpha1.CompareClusters(&a, &b) })
	return list.Items, nil
}

func desiredOf(c *v1alpha1.Cluster) Desired {
	s := Desired{Cluster: c}
	switch c.Spec.Engine.Mode {
	case v1alpha1.EngineOff:
		s.Reason, s.Message = "Off", "spec.engine.mode is Off"
		return s
	case v1alpha1.EngineExternal:
		s.Reason, s.Message = "External", "spec.engine.mode is External: another Karpenter provisions nodes"
		return s
	case v1alpha1.EngineEmbedded:
	}
	s.Settings = EngineSettings(c.Spec)
	if err := s.Settings.Validate(); err != nil {
		s.Invalid, s.Reason, s.Message = true, "InvalidSettings", err.Error()
		return s
	}
	s.EngineOn = true
	return s
}

// EngineSettings translates the Cluster's fields into the engine's settings, with
// the engine's defaults for what is left out. They may be invalid: their Validate
// checks that.
func EngineSettings(spec v1alpha1.ClusterSpec) engine.Settings {
	s := engine.DefaultSettings()
	s.Cluster, s.Region, s.Account = spec.Name, spec.Region, spec.Account
	// Images are those for the version of which EKS makes nodes: while EKS upgrades a
	// cluster, its API servers report either version.
	s.AWS.EKSControlPlane = true
	s.InterruptionQueue = spec.Engine.InterruptionQueue
	if queue := spec.InterruptionQueue; queue != nil && s.InterruptionQueue == "" {
		s.InterruptionQueue = cmp.Or(queue.Name, spec.Name)
	}
	s.Pace = cmp.Or(engine.Pace(spec.Engine.Pace), s.Pace)
	s.Batch.Idle = s.Pace.BatchIdle()
	if d := spec.Engine.BatchIdleDuration; d != nil {
		s.Batch.Idle = d.Duration
	}
	if d := spec.Engine.BatchMaxDuration; d != nil {
		s.Batch.Max = d.Duration
	}
	maps.Copy(s.FeatureGates, spec.Engine.FeatureGates)
	declareScheduling(&s, spec.Engine)
	declareConnections(&s, spec.Engine)
	return s
}

// declareScheduling sets which nodes are launched for which pods.
func declareScheduling(s *engine.Settings, declared v1alpha1.EngineSpec) {
	s.Scheduling.PreferencePolicy = cmp.Or(declared.PreferencePolicy, s.Scheduling.PreferencePolicy)
	s.Scheduling.MinValuesPolicy = cmp.Or(string(declared.MinValuesPolicy), s.Scheduling.MinValuesPolicy)
	s.Scheduling.CPURequests = cmp.Or(int64(declared.CPURequests), s.Scheduling.CPURequests)
	s.Nodes.ReservedENIs = int(declared.ReservedENIs)
	s.Nodes.Endpoint = declared.ClusterEndpoint
	if text := declared.VMMemoryOverheadPercent; text != "" {
		overhead, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(overhead) || math.IsInf(overhead, 0) {
			overhead = -1 // JSON has no other; Validate refuses it, and names the field.
		}
		s.Nodes.VMMemoryOverheadPercent = overhead
	}
}

// declareConnections sets how the engine connects to AWS and to the API server.
func declareConnections(s *engine.Settings, declared v1alpha1.EngineSpec) {
	s.AWS.DisableDryRun = declared.DisableDryRun
	s.AWS.IsolatedVPC = declared.IsolatedVPC
	s.AWS.ZonalShift = declared.EnableZonalShift
	for setting, interval := range map[*time.Duration]*metav1.Duration{
		&s.AWS.AMIRefreshInterval:           declared.AMIRefreshInterval,
		&s.AWS.SubnetRefreshInterval:        declared.SubnetRefreshInterval,
		&s.AWS.SecurityGroupRefreshInterval: declared.SecurityGroupRefreshInterval,
	} {
		if interval != nil {
			*setting = interval.Duration
		}
	}
	s.Kubernetes.QPS = cmp.Or(int(declared.KubeClientQPS), s.Kubernetes.QPS)
	s.Kubernetes.Burst = cmp.Or(int(declared.KubeClientBurst), s.Kubernetes.Burst)
	s.Kubernetes.DisableClusterStateObservability = declared.DisableClusterStateObservability
}
