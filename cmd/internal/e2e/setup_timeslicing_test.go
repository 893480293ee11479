package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	corev1 "k8s.io/api/core/v1"
)

// Set-up 001: each of a g4dn.12xlarge's four GPUs is shared by ten pods, so forty
// pods are one node. Its minute until an empty node goes is made shorter by a
// commit, when the pods run.
func TestSetupTimeslicing(t *testing.T) {
	t.Parallel()
	s := newSetup(t, "timeslicing", setupOptions{})
	s.logs("api", "audit", "authenticator", "controllerManager", "scheduler")
	begin := time.Now()
	s.creates("workloads/inference.yaml")
	pods := s.allLand("inference", 40)
	t.Logf("forty pods run after %s", since(begin))

	at := s.lands(pods[0].Name)
	at.is(machine{
		Pool: "gpu", Type: "g4dn.12xlarge", Capacity: onDemand,
		Labels: map[string]string{
			"eks-node": "gpu", "nvidia.com/mps.capable": "true",
			"feature.node.kubernetes.io/pci-10de.present": "true", "feature.node.kubernetes.io/cpu-model.vendor_id": "NVIDIA",
		},
		Taints:   []string{"nvidia.com/gpu=true:NoSchedule"},
		Volume:   volume{Device: "/dev/xvda", Size: "200", Type: "gp3"},
		Metadata: metadata{Endpoint: "enabled", Tokens: "required", HopLimit: "1", IPv6: "disabled"},
		Image:    s.al2023("nvidia", s.latest()),
	})
	for _, pod := range pods {
		if pod.Spec.NodeName != at.node.Name {
			t.Errorf("pod %s runs on %s, not on %s", pod.Name, pod.Spec.NodeName, at.node.Name)
		}
	}
	if n := len(s.AWS.Instances()); n != 1 {
		t.Errorf("%d instances were launched: %v", n, s.AWS.Instances())
	}
	if offer := offers(&at.node); offer["nvidia.com/gpu"] != 40 {
		t.Errorf("the node offers %s", offer)
	}
	s.countsGPUs("gpu", "120", "40")

	s.waitsFor("gpu", "1m")
	s.edits("Let empty nodes go sooner", "clusters/dev/nodepools.yaml", "consolidateAfter: 1m", "consolidateAfter: 5s")
	s.zero()
	s.lasted("gpu", 5*time.Second)
}

// allLand waits until so many pods of an app run, and no other is there.
func (s setupScene) allLand(app string, want int) (pods []corev1.Pod) {
	s.Helper()
	s.until(fmt.Sprintf("%d pods of %s run", want, app), func() (err error) {
		if pods, err = s.labelled("app", app); err != nil {
			return err
		}
		running := 0
		for _, pod := range pods {
			if pod.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running != want || len(pods) != want {
			return fmt.Errorf("%d of %d run", running, len(pods))
		}
		return nil
	})
	return pods
}

// logs: the control plane's logs of these types are on, and kept for 14 days.
func (s setupScene) logs(types ...string) {
	s.Helper()
	shown, err := s.account.eks.DescribeCluster(s.Context(), &eks.DescribeClusterInput{Name: &s.of.Cluster})
	if err != nil {
		s.Fatal(err)
	}
	var on []string
	for _, set := range shown.Cluster.Logging.ClusterLogging {
		if *set.Enabled {
			for _, t := range set.Types {
				on = append(on, string(t))
			}
		}
	}
	slices.Sort(on)
	if !slices.Equal(on, types) {
		s.Errorf("the logs %v are on, not %v", on, types)
	}
	group := "/aws/eks/" + s.of.Cluster + "/cluster"
	found, err := s.account.logs.DescribeLogGroups(s.Context(), &cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: &group})
	if err != nil {
		s.Fatal(err)
	}
	if len(found.LogGroups) != 1 || found.LogGroups[0].RetentionInDays == nil || *found.LogGroups[0].RetentionInDays != 14 {
		s.Errorf("the log groups are %+v", found.LogGroups)
	}
}
