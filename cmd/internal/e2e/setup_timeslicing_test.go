package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Set-up 001: each of a g4dn.12xlarge's four GPUs is shared by ten pods, so forty
// pods are one node. Its minute until an empty node goes is made shorter by a
// commit, when the pods run.
func TestSetupTimeslicing(t *testing.T) {
	t.Parallel()
	s := applyExample(t, "timeslicing")
	images := s.pins()
	// Who runs the command again need not name the variables again.
	typed(t, s.Environment, s.git.repo.dir, "bootstrap", s.of.Path, "--wait=false", "--yes").expect(t, 0, "nothing to change")
	s.logs("api", "audit", "authenticator", "controllerManager", "scheduler")
	// The set-up's own pod takes one share, and leaves the node to the others.
	s.runsThePage("Verify", "Troubleshoot")
	s.removes(s.lands("gpu-workload"))
	begin := time.Now()
	s.creates("workloads/inference.yaml")
	s.explores()
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
	if got := at.template["ImageId"]; got != images["GPU_AMI_ID"] {
		t.Errorf("the node was launched with image %s, and the Sync has pinned %v", got, images)
	}
	if n := len(s.AWS.Instances()); n != 1 {
		t.Errorf("%d instances were launched: %v", n, s.AWS.Instances())
	}
	if offer := allocatableGPUs(&at.node); offer["nvidia.com/gpu"] != 40 {
		t.Errorf("the node advertises %s", offer)
	}
	s.countsGPUs("gpu", "120", "40")

	// A node of the other class has the other image.
	s.makes(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "report", Namespace: "default"},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{karpv1.NodePoolLabelKey: "default"},
			Containers:   []corev1.Container{{Name: "main", Image: "registry.example.com/report:1"}},
		},
	})
	general := s.lands("report")
	if got := general.template["ImageId"]; got != images["AMD_AMI_ID"] || s.AWS.ImageName(got) != s.al2023("standard", s.latest()) {
		t.Errorf("the general node was launched with image %s, and the Sync has pinned %v", got, images)
	}

	s.waitsFor("gpu", "1m")
	s.edits("Let empty nodes go sooner", "clusters/dev/nodepools.yaml", "consolidateAfter: 1m", "consolidateAfter: 5s")
	s.zero()
	s.lasted("gpu", 5*time.Second)
}

// pins are the images that the Sync has pinned, by variable: each is the newest of
// its SSM parameter, and what a class selects.
func (s setupSuite) pins() map[string]string {
	s.Helper()
	sync, err := s.sync()
	if err != nil {
		s.Fatal(err)
	}
	out := map[string]string{}
	for _, p := range sync.Status.Parameters {
		if newest := newestImage(s.T, s.Environment, p.Name); p.Value != newest || p.Latest != "" || p.PinnedAt.IsZero() {
			s.Errorf("the Sync has pinned %+v, and the parameter says %s", p, newest)
		}
		out[p.Variable] = p.Value
	}
	for name, variable := range map[string]string{"default": "AMD_AMI_ID", "gpu-nodeclass": "GPU_AMI_ID"} {
		var class awsv1.EC2NodeClass
		if err := s.hand.Get(s.Context(), client.ObjectKey{Name: name}, &class); err != nil {
			s.Fatal(err)
		}
		terms := class.Spec.AMISelectorTerms
		if len(terms) != 1 || terms[0].ID == "" || terms[0].ID != out[variable] || class.Spec.Role != "KarpenterNodeRole-"+s.of.Cluster {
			s.Errorf("class %s has images %+v and role %s, and the Sync has pinned %v", name, terms, class.Spec.Role, out)
		}
	}
	if len(out) != 2 {
		s.Errorf("the Sync has pinned %v", out)
	}
	return out
}

// allLand waits until so many pods of an app run, and no other is there.
func (s setupSuite) allLand(app string, want int) (pods []corev1.Pod) {
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
func (s setupSuite) logs(types ...string) {
	s.Helper()
	got, err := s.account.eks.DescribeCluster(s.Context(), &eks.DescribeClusterInput{Name: &s.of.Cluster})
	if err != nil {
		s.Fatal(err)
	}
	var on []string
	for _, set := range got.Cluster.Logging.ClusterLogging {
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

// explores follows the how-to guide of the sandbox in this one, where the example is pushed and the controller runs.
func (s setupSuite) explores() {
	s.Helper()
	example, err := filepath.Abs(s.example())
	if err != nil {
		s.Fatal(err)
	}
	u := newShell(s.fixture, s.git.repo, "bin/poolwright", "poolwright", "examples/"+s.of.Name, example, "/tmp/nodes/"+s.of.Path, s.of.Path)
	p := newPage(s.T, "howto/explore-the-sandbox.md")
	u.block(p.take("kubectl get nodes"), exitCode{0})
	// A plan has no changes, and exits with 0.
	u.block(p.take("kubectl apply"), exitCode{0})
}
