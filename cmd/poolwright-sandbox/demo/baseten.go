package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// baseten is a pod that chooses its provisioner by label, beside a node group of
// Cluster Autoscaler's.
func (s *Run) baseten(workloads []*workload) []scenarioStep {
	var before group
	return []scenarioStep{
		{action: func(ctx context.Context) error {
			instances, err := s.autoscale(ctx)
			if err != nil {
				return err
			}
			before, err = s.group(ctx)
			before.instances = instances
			s.marks.mark(nodeGroupReady, "nodegroup/"+before.name, fmt.Sprintf("%d nodes that Cluster Autoscaler would have launched are ready; Poolwright declares no node group", len(instances)), time.Now())
			return err
		}, events: []string{nodeGroupReady}},
		s.followed(),
		s.createWorkload(workloads[0]),
		s.deleteWorkload(workloads[0]),
		{action: func(ctx context.Context) error { return s.untouched(ctx, before) }, events: []string{nodeGroupUntouched}},
	}
}

// group is a managed node group as EKS shows it, and the nodes that are not
// Karpenter's, by name and UID.
type group struct {
	name        string
	description json.RawMessage
	nodes       string
	// instances are those that Cluster Autoscaler brought.
	instances []string
}

// group reads the set-up's only node group.
func (s *Run) group(ctx context.Context) (group, error) {
	if len(s.Setup.Groups) != 1 {
		return group{}, fmt.Errorf("set-up %s has %d node groups, and the scenario is of one", s.Setup.Name, len(s.Setup.Groups))
	}
	g := group{name: s.Setup.Groups[0].Name}
	if err := s.eks(ctx, "/node-groups/"+g.name, &g.description); err != nil {
		return group{}, err
	}
	nodes, err := s.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "!" + poolLabel})
	if err != nil {
		return group{}, fmt.Errorf("listing nodes: %w", err)
	}
	for _, n := range nodes.Items {
		g.nodes += fmt.Sprintf("%s/%s ", n.Name, n.UID)
	}
	return g, nil
}

// untouched holds the node group against what it was.
func (s *Run) untouched(ctx context.Context, before group) error {
	now, err := s.group(ctx)
	if err != nil {
		return err
	}
	if !bytes.Equal(now.description, before.description) || now.nodes != before.nodes {
		return fmt.Errorf("node group %s is not what it was:\n%s %s\n%s %s", now.name, before.description, before.nodes, now.description, now.nodes)
	}
	if err := unnamed(s.environment.AWS.Calls(), before.instances); err != nil {
		return err
	}
	var eks struct {
		Nodegroup struct {
			ScalingConfig struct{ MinSize, MaxSize int }
		}
	}
	if err := json.Unmarshal(now.description, &eks); err != nil {
		return fmt.Errorf("reading node group %s: %w", now.name, err)
	}
	sizes := eks.Nodegroup.ScalingConfig
	s.record(row{field: "othersTouched", title: "nodes of Cluster Autoscaler touched", unit: asCount, document: figure{text: "none"}})
	s.marks.mark(nodeGroupUntouched, "nodegroup/"+now.name, fmt.Sprintf("%d nodes of %d to %d, as Cluster Autoscaler left them; no call named them or changed a group",
		len(before.instances), sizes.MinSize, sizes.MaxSize), time.Now())
	return nil
}

// unnamed fails where anybody but the person by hand named one of the instances to
// AWS, or changed a node group.
func unnamed(calls []sandboxaws.Call, instances []string) error {
	for _, c := range calls {
		if strings.Contains(c.Operation, "Nodegroup") && !strings.HasPrefix(c.Operation, "Describe") && !strings.HasPrefix(c.Operation, "List") {
			return fmt.Errorf("EKS received the request %s", c.Operation)
		}
		named := slices.ContainsFunc(instances, func(id string) bool { return strings.Contains(c.Params, id) })
		if named && c.Key != personKey {
			return fmt.Errorf("%s named an instance of Cluster Autoscaler's: %s", c.Operation, c.Params)
		}
	}
	return nil
}
