package engine

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"time"

	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"
)

// shortestBatch is the shortest window that still collects anything.
const shortestBatch = 10 * time.Millisecond

// Pace is whether the engine runs Poolwright's controllers in place of some of Karpenter's.
type Pace string

// The values of Pace.
const (
	// PaceFast batches pods by package batcher, disrupts empty nodes by package emptiness and
	// stores pod events by package podevents.
	PaceFast Pace = "Fast"
	// PaceStock runs Karpenter's own controllers.
	PaceStock Pace = "Stock"
)

// BatchIdle is the default of Batch.Idle at that pace.
func (p Pace) BatchIdle() time.Duration {
	if p == PaceFast {
		return 100 * time.Millisecond
	}
	return time.Second
}

// Settings are which cluster the engine serves and how it behaves. Start from
// DefaultSettings: a zero value is not a default. The caller fills them from the
// Cluster object; Validate names that object's fields.
type Settings struct {
	// Cluster is the EKS cluster's name: the value of the discovery tag on every
	// instance that the engine may terminate. Required.
	Cluster string
	// Region is the AWS region, for example "us-east-1". Required; it wins over
	// the environment and the shared configuration file.
	Region string
	// Account is the twelve digits of the AWS account. Required: the gates
	// compare it with the account of the credentials.
	Account string
	// InterruptionQueue is the name of the SQS queue with EC2's warnings. Empty
	// means that interruptions are not watched.
	InterruptionQueue string
	// FeatureGates turn Karpenter's optional parts on or off by their names. A
	// name left out keeps its default: see DefaultSettings.
	FeatureGates map[string]bool
	// Pace is PaceFast, the default, or PaceStock.
	Pace Pace
	// Batch is how long pending pods are collected before nodes are chosen.
	Batch Batch
	// Scheduling is how pods are matched with nodes.
	Scheduling Scheduling
	// Nodes is how new nodes reach the API server and what is held back of their capacity.
	Nodes Nodes
	// AWS is how the engine connects to AWS.
	AWS AWS
	// Kubernetes is how the engine connects to the API server.
	Kubernetes Kubernetes
}

// Batch is the window in which pending pods are collected.
type Batch struct {
	// Idle ends a window when no new pending pod came for so long. Default 1s.
	Idle time.Duration
	// Max ends a window in any case. Default 10s.
	Max time.Duration
}

// Scheduling is how pods are matched with nodes.
type Scheduling struct {
	// PreferencePolicy is Respect, the default, or Ignore, which treats preferred
	// affinities and ScheduleAnyway spreads as absent.
	PreferencePolicy string
	// MinValuesPolicy is Strict, the default, with which a pod stays pending where a
	// requirement's minValues cannot be met, or BestEffort, which gives these up.
	MinValuesPolicy string
	// CPURequests is the processor time given to the controller; it sizes the
	// scheduler's parallelism. Default 1000.
	CPURequests int64
}

// Nodes is the configuration of new nodes, and what is held back of their capacity.
type Nodes struct {
	// Endpoint is the API server's URL as nodes reach it. Empty: it is read from EKS.
	Endpoint string
	// CABundle is the API server's CA as nodes need it: PEM in base64. Empty: the
	// CA of the engine's own connection. A change replaces every node.
	CABundle string
	// VMMemoryOverheadPercent is the part of an instance type's memory that its
	// hypervisor keeps, between 0 and 1. Default 0.075.
	VMMemoryOverheadPercent float64
	// ReservedENIs are network interfaces not counted for pods. Default 0.
	ReservedENIs int
}

// AWS is how the engine connects to AWS.
type AWS struct {
	// IsolatedVPC means that only services with a VPC endpoint are reachable: no
	// on-demand price updates, no clean-up of instance profiles.
	IsolatedVPC bool
	// EKSControlPlane reads the cluster's version from EKS, not the API server.
	EKSControlPlane bool
	// DisableDryRun accepts an EC2NodeClass without trying its permissions.
	DisableDryRun bool
	// ZonalShift follows zonal shifts of the cluster's ARC resource.
	ZonalShift bool
	// AMIRefreshInterval is the time between two listings of machine images. At least 1m, which is
	// the default.
	AMIRefreshInterval time.Duration
	// SubnetRefreshInterval is the time between two listings of subnets. At least 1m, which is the
	// default.
	SubnetRefreshInterval time.Duration
	// SecurityGroupRefreshInterval is the time between two listings of security groups. At least
	// 1m, which is the default.
	SecurityGroupRefreshInterval time.Duration
}

// Kubernetes is how the engine connects to the API server.
type Kubernetes struct {
	// QPS is the steady rate of requests a second. Default 200.
	QPS int
	// Burst is the rate allowed for a moment. Default 300.
	Burst int
	// DisableControllerWarmup has a replica fill its caches when it leads and not before.
	// Default true.
	DisableControllerWarmup bool
	// DisableClusterStateObservability leaves out the metrics that have a series per pod, node and
	// condition. Default false.
	DisableClusterStateObservability bool
}

// DefaultSettings are stock Karpenter's values, except that the feature gate
// NodeOverlay is on: sharing a GPU between pods depends on it.
func DefaultSettings() Settings {
	return Settings{
		FeatureGates: map[string]bool{gateNodeOverlay: true},
		Pace:         PaceFast,
		Batch:        Batch{Idle: PaceFast.BatchIdle(), Max: 10 * time.Second},
		Scheduling: Scheduling{
			PreferencePolicy: string(coreoptions.PreferencePolicyRespect), MinValuesPolicy: string(coreoptions.MinValuesPolicyStrict),
			CPURequests: 1000,
		},
		Nodes:      Nodes{VMMemoryOverheadPercent: 0.075},
		AWS:        AWS{AMIRefreshInterval: time.Minute, SubnetRefreshInterval: time.Minute, SecurityGroupRefreshInterval: time.Minute},
		Kubernetes: Kubernetes{QPS: 200, Burst: 300, DisableControllerWarmup: true},
	}
}

// Validate returns every problem in the settings, joined, or nil. Each names the
// field of the Cluster object and what may stand there.
func (s Settings) Validate() error {
	return errors.Join(
		s.validateIdentity(),
		s.validateBatch(),
		s.validatePolicies(),
		s.validateNodes(),
		s.validateLimits(),
		validateGates(s.FeatureGates),
	)
}

// Hash is equal for settings that mean the same and differs otherwise: a running
// engine whose settings have another hash has to be restarted.
func (s Settings) Hash() string {
	s.FeatureGates = effectiveGates(s.FeatureGates)
	raw, err := json.Marshal(s) // map keys are written sorted
	if err != nil {
		// Unreachable: every field is a string, number, bool or a map of bools,
		// and Validate has refused a memory overhead that is not a number.
		raw = []byte(err.Error())
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

func (s Settings) validateIdentity() error {
	var errs []error
	if !clusterName().MatchString(s.Cluster) {
		errs = append(errs, wrong("spec.name", s.Cluster, "give the EKS cluster's name: 1 to 100 letters, digits, hyphens and underscores, first a letter or digit"))
	}
	if !regionName().MatchString(s.Region) {
		errs = append(errs, wrong("spec.region", s.Region, `give the AWS region, for example "us-east-1"`))
	}
	if !accountID().MatchString(s.Account) {
		errs = append(errs, wrong("spec.account", s.Account, `give the AWS account's twelve digits, in quotes`))
	}
	if s.InterruptionQueue != "" && !queueName().MatchString(s.InterruptionQueue) {
		errs = append(errs, wrong("spec.engine.interruptionQueue", s.InterruptionQueue, "give the queue's name, not its URL or ARN: 1 to 80 letters, digits, hyphens and underscores"))
	}
	return errors.Join(errs...)
}

func (s Settings) validateBatch() error {
	var errs []error
	if s.Batch.Idle < shortestBatch {
		errs = append(errs, wrong("spec.engine.batchIdleDuration", s.Batch.Idle, fmt.Sprintf("give %s or more; %s is the default", shortestBatch, s.Pace.BatchIdle())))
	}
	if s.Batch.Max < s.Batch.Idle || s.Batch.Max < shortestBatch {
		errs = append(errs, wrong("spec.engine.batchMaxDuration", s.Batch.Max, fmt.Sprintf("give at least spec.engine.batchIdleDuration, which is %s; 10s is the default", s.Batch.Idle)))
	}
	return errors.Join(errs...)
}

func (s Settings) validatePolicies() error {
	var errs []error
	switch p := coreoptions.PreferencePolicy(s.Scheduling.PreferencePolicy); p {
	case coreoptions.PreferencePolicyRespect, coreoptions.PreferencePolicyIgnore:
	default:
		errs = append(errs, wrong("spec.engine.preferencePolicy", string(p), "give Respect or Ignore; Respect is the default"))
	}
	switch p := coreoptions.MinValuesPolicy(s.Scheduling.MinValuesPolicy); p {
	case coreoptions.MinValuesPolicyStrict, coreoptions.MinValuesPolicyBestEffort:
	default:
		errs = append(errs, wrong("spec.engine.minValuesPolicy", string(p), "give Strict or BestEffort; Strict is the default"))
	}
	switch s.Pace {
	case PaceFast, PaceStock:
	default:
		errs = append(errs, wrong("spec.engine.pace", string(s.Pace), "give Fast or Stock; Fast is the default"))
	}
	return errors.Join(errs...)
}

func (s Settings) validateNodes() error {
	var errs []error
	n := s.Nodes
	if n.Endpoint != "" {
		if u, err := url.Parse(n.Endpoint); err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
			// The value is not repeated: it may hold a password.
			errs = append(errs, errors.New("spec.engine.clusterEndpoint is not an https URL: give one without user info, or leave it out to use that of EKS"))
		}
	}
	if n.CABundle != "" {
		if _, err := base64.StdEncoding.DecodeString(n.CABundle); err != nil {
			errs = append(errs, errors.New("the controller's variable CLUSTER_CA_BUNDLE is not base64: give the PEM certificates encoded once, or leave it out to use the engine's own CA"))
		}
	}
	if !(n.VMMemoryOverheadPercent >= 0 && n.VMMemoryOverheadPercent < 1) {
		errs = append(errs, wrong("spec.engine.vmMemoryOverheadPercent", n.VMMemoryOverheadPercent, "give a share from 0 up to, not including, 1; 0.075 is the default"))
	}
	if n.ReservedENIs < 0 {
		errs = append(errs, wrong("spec.engine.reservedENIs", n.ReservedENIs, "give 0 or more"))
	}
	return errors.Join(errs...)
}

func (s Settings) validateLimits() error {
	var errs []error
	for _, f := range []struct {
		name string
		got  time.Duration
	}{
		{"spec.engine.amiRefreshInterval", s.AWS.AMIRefreshInterval},
		{"spec.engine.subnetRefreshInterval", s.AWS.SubnetRefreshInterval},
		{"spec.engine.securityGroupRefreshInterval", s.AWS.SecurityGroupRefreshInterval},
	} {
		if f.got < time.Minute {
			errs = append(errs, wrong(f.name, f.got, "give 1m or more; 1m is the default"))
		}
	}
	for _, f := range []struct {
		name string
		got  int64
	}{
		{"spec.engine.kubeClientQPS", int64(s.Kubernetes.QPS)},
		{"spec.engine.kubeClientBurst", int64(s.Kubernetes.Burst)},
		{"spec.engine.cpuRequests", s.Scheduling.CPURequests},
	} {
		if f.got <= 0 {
			errs = append(errs, wrong(f.name, f.got, "give a number above zero"))
		}
	}
	return errors.Join(errs...)
}

// wrong is the one shape of a settings error: field, what stands there, remedy.
func wrong(field string, got any, remedy string) error {
	if s, ok := got.(string); ok {
		if s == "" {
			return fmt.Errorf("%s is missing: %s", field, remedy)
		}
		return fmt.Errorf("%s is %q: %s", field, s, remedy)
	}
	return fmt.Errorf("%s is %v: %s", field, got, remedy)
}

func clusterName() *regexp.Regexp { return regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$`) }
func regionName() *regexp.Regexp  { return regexp.MustCompile(`^[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}$`) }
func accountID() *regexp.Regexp   { return regexp.MustCompile(`^[0-9]{12}$`) }
func queueName() *regexp.Regexp   { return regexp.MustCompile(`^[0-9A-Za-z_-]{1,80}$`) }
