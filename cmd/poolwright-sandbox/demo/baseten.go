package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
			if slices.Sort(instances); err == nil && !slices.Equal(slices.Sorted(maps.Keys(before.nodes)), instances) {
				err = fmt.Errorf("nodes %v are not those of instances %v", before.nodes, instances)
			}
			s.marks.mark(nodeGroupReady, "nodegroup/"+before.name, fmt.Sprintf("%d nodes that Cluster Autoscaler would have launched are ready; Poolwright declares no node group", len(instances)), time.Now())
			return err
		}, events: []string{nodeGroupReady}},
		s.followed(),
		s.createWorkload(workloads[0]),
		s.deleteWorkload(workloads[0]),
		{action: func(ctx context.Context) error { return s.untouched(ctx, before) }, events: []string{nodeGroupUntouched}},
	}
}

// group is a managed node group as EKS shows it, and its nodes.
type group struct {
	name        string
	description json.RawMessage
	// nodes are UIDs of Nodes by instance.
	nodes map[string]types.UID
}

// group reads the set-up's only node group.
func (s *Run) group(ctx context.Context) (group, error) {
	if len(s.Setup.Groups) != 1 {
		return group{}, fmt.Errorf("set-up %s has %d node groups, and the scenario is of one", s.Setup.Name, len(s.Setup.Groups))
	}
	g := group{name: s.Setup.Groups[0].Name, nodes: map[string]types.UID{}}
	if err := s.eks(ctx, "/node-groups/"+g.name, &g.description); err != nil {
		return group{}, err
	}
	nodes, err := s.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: groupLabel + "=" + g.name})
	if err != nil {
		return group{}, fmt.Errorf("listing nodes: %w", err)
	}
	for _, n := range nodes.Items {
		g.nodes[path.Base(n.Spec.ProviderID)] = n.UID
	}
	return g, nil
}

// untouched holds the node group against what it was.
func (s *Run) untouched(ctx context.Context, before group) error {
	now, err := s.group(ctx)
	if err != nil {
		return err
	}
	if !bytes.Equal(now.description, before.description) {
		return fmt.Errorf("node group %s is not what it was:\n%s\n%s", now.name, before.description, now.description)
	}
	calls := s.environment.AWS.Calls()
	if err := unchanged(calls); err != nil {
		return err
	}
	others := touched(before, now, calls)
	s.record(row{field: "othersTouched", title: "nodes of Cluster Autoscaler touched", value: float64(len(others)), unit: asCount, document: figure{text: "none"}})
	if len(others) > 0 {
		return fmt.Errorf("of node group %s these are gone, new, or were named to AWS: %v", now.name, others)
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
	s.marks.mark(nodeGroupUntouched, "nodegroup/"+now.name, fmt.Sprintf("%d nodes of %d to %d, as Cluster Autoscaler left them; no call named them or changed a group",
		len(now.nodes), sizes.MinSize, sizes.MaxSize), time.Now())
	return nil
}

// unchanged fails where a node group was changed.
func unchanged(calls []sandboxaws.Call) error {
	for _, c := range calls {
		if strings.Contains(c.Operation, "Nodegroup") && !strings.HasPrefix(c.Operation, "Describe") && !strings.HasPrefix(c.Operation, "List") {
			return fmt.Errorf("EKS received the request %s", c.Operation)
		}
	}
	return nil
}

// touched are the instances of a group whose Node is gone, new or another, and those that anybody but
// the person by hand named to AWS.
func touched(before, now group, calls []sandboxaws.Call) (instances []string) {
	all := maps.Clone(now.nodes)
	maps.Copy(all, before.nodes)
	for id := range all {
		named := slices.ContainsFunc(calls, func(c sandboxaws.Call) bool { return c.Key != personKey && strings.Contains(c.Params, id) })
		if named || now.nodes[id] != before.nodes[id] {
			instances = append(instances, id)
		}
	}
	slices.Sort(instances)
	return instances
}
