package benchmark

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"time"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

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

// StockKarpenter is a stock Karpenter of the version that is embedded, with its default settings.
type StockKarpenter struct {
	Environment *Environment
	// Binary is its controller.
	Binary  string
	process *process.Process
	metrics string
}

// Start implements Processes.
func (k *StockKarpenter) Start(ctx context.Context) error {
	if err := k.install(ctx); err != nil {
		return err
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

// install makes Karpenter's kinds, and waits until they are served.
func (k *StockKarpenter) install(ctx context.Context) error {
	for _, crd := range awsapis.CRDs {
		if err := k.Environment.Admin.Create(ctx, crd.DeepCopy()); err != nil {
			return fmt.Errorf("making %s: %w", crd.Name, err)
		}
	}
	return k.Environment.await(ctx, "Karpenter's kinds are served", func() error {
		for _, crd := range awsapis.CRDs {
			kind := schema.GroupVersionKind{Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name, Kind: crd.Spec.Names.Kind}
			if err := k.Environment.Admin.List(ctx, listOf(kind)); err != nil {
				return fmt.Errorf("listing %s: %w", kind.Kind, err)
			}
		}
		return nil
	})
}

// Running implements Processes.
func (k *StockKarpenter) Running() []*process.Process { return []*process.Process{k.process} }

// Requests implements Processes.
func (k *StockKarpenter) Requests(ctx context.Context) (int, error) {
	return sentRequests(ctx, k.metrics)
}

// Stop implements Processes.
func (k *StockKarpenter) Stop() error {
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

// PoolwrightEngine is Poolwright with its engine on.
type PoolwrightEngine struct{ Poolwright }

// Start implements Processes.
func (e *PoolwrightEngine) Start(ctx context.Context) error {
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
