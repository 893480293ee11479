package benchmark

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/sandbox/process"
)

// What the account of the sandbox has.
const (
	nodeRegion  = "eu-west-1"
	nodeAccount = "111122223333"
	nodeCluster = "benchmark"
	nodeRole    = "benchmark-karpenter-node"
)

// The pool of the comparison. Its budget lets all empty nodes go at once.
const (
	nodeClass = `apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: held}
spec:
  role: ` + nodeRole + `
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: ` + nodeCluster + `}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: ` + nodeCluster + `}}]
`
	nodePool = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: held}
spec:
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 3s, budgets: [{nodes: "100%"}]}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: held}
      requirements:
      - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m6i.large]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
`
	clusterObject = `apiVersion: poolwright.dev/v1alpha1
kind: Cluster
metadata: {name: cluster}
spec:
  name: ` + nodeCluster + `
  region: ` + nodeRegion + `
  account: "` + nodeAccount + `"
  engine: {mode: Embedded}
`
)

// Karpenter is a stock Karpenter of the version that is embedded, with its default settings.
type Karpenter struct {
	Environment *Environment
	// Binary is its controller.
	Binary  string
	process *process.Process
	metrics string
}

// Start implements Processes.
func (k *Karpenter) Start(ctx context.Context) error {
	if _, err := engine.InstallCRDs(ctx, k.Environment.Admin, engine.DefaultSettings()); err != nil {
		return fmt.Errorf("installing Karpenter's CRDs: %w", err)
	}
	address, err := freeAddress(ctx)
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("finding a free port: %w", err)
	}
	const namespace = "kube-system"
	k.metrics = address
	k.process, err = k.Environment.Run("karpenter", "/usr/bin/env",
		"KARPENTER_SERVICE=karpenter", "METRICS_PORT="+port, "HEALTH_PROBE_PORT=0", "LEADER_ELECTION_NAMESPACE="+namespace, "SYSTEM_NAMESPACE="+namespace,
		"CLUSTER_CA_BUNDLE="+base64.StdEncoding.EncodeToString(k.Environment.REST().CAData), "CLUSTER_NAME="+nodeCluster,
		// The API server of the sandbox is of one version, whichever the cluster's is.
		"EKS_CONTROL_PLANE=true", k.Binary)
	if err != nil {
		return fmt.Errorf("starting Karpenter: %w", err)
	}
	return k.Environment.await(ctx, "Karpenter leads", func() error {
		return leads(ctx, k.Environment.Admin, types.NamespacedName{Namespace: namespace, Name: "karpenter-leader-election"})
	})
}

// Running implements Processes.
func (k *Karpenter) Running() []*process.Process { return []*process.Process{k.process} }

// Requests implements Processes.
func (k *Karpenter) Requests(ctx context.Context) (int, error) { return sentRequests(ctx, k.metrics) }

// Stop implements Processes.
func (k *Karpenter) Stop() error {
	if k.process == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := k.process.Stop(ctx); err != nil {
		return fmt.Errorf("stopping Karpenter: %w", err)
	}
	return nil
}

// Engine is Poolwright with its engine on.
type Engine struct{ Poolwright }

// Start implements Processes.
func (e *Engine) Start(ctx context.Context) error {
	if err := e.Poolwright.Start(ctx); err != nil {
		return err
	}
	cluster, err := decodeObject(clusterObject)
	if err != nil {
		return err
	}
	if err := e.Environment.Admin.Create(ctx, cluster); err != nil {
		return fmt.Errorf("making the Cluster: %w", err)
	}
	now := &unstructured.Unstructured{}
	now.SetGroupVersionKind(schema.GroupVersionKind{Group: "poolwright.dev", Version: "v1alpha1", Kind: "Cluster"})
	return e.Environment.await(ctx, "the engine runs", func() error {
		if err := e.Environment.Admin.Get(ctx, client.ObjectKeyFromObject(cluster), now); err != nil {
			return fmt.Errorf("reading the Cluster: %w", err)
		}
		if !isReady(now) {
			return fmt.Errorf("the Cluster's status is %v", now.Object["status"])
		}
		return nil
	})
}

// decodeObject is an object of a manifest.
func decodeObject(text string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		return nil, fmt.Errorf("reading a manifest: %w", err)
	}
	return object, nil
}
