package e2e

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/provision/sandbox/process"
)

// stockBinary is the Karpenter that everybody runs, of the version that is
// embedded, built from its module beside the product.
var stockBinary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(binary), "karpenter")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-X sigs.k8s.io/karpenter/pkg/operator.Version="+stockVersion,
		"-o", path, "github.com/aws/karpenter-provider-aws/cmd/controller")
	cmd.Dir = filepath.Join("..", "..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building Karpenter: %w\n%s", err, out)
	}
	return path, nil
})

const (
	stockVersion   = "1.15.1"
	stockNamespace = "kube-system"
	stockName      = "karpenter" // of the Deployment
	stockLease     = "karpenter-leader-election"
)

// stocked is a laptop in front of a cluster whose nodes a stock Karpenter
// provisions: its Deployment, its kinds, and pools that were applied by kubectl.
type stocked struct {
	*laptop
	// simulating is the end of what runs the Deployment's pod.
	simulating sync.WaitGroup
	mu         sync.Mutex // protects stock
	stock      *process.Process
}

// newStocked starts that environment, and returns once Karpenter leads.
func newStocked(t *testing.T) *stocked {
	t.Helper()
	s := &stocked{laptop: newLaptop(t, func(c *sandbox.Config) {
		c.AWS.Roles, c.AWS.Queues = []string{awsNodeRole}, []string{awsCluster}
	})}
	t.Cleanup(func() {
		for _, name := range []string{"karpenter", "poolwright"} {
			if t.Failed() {
				t.Log(name, logTail(filepath.Join(s.Dir, "logs", name+".log")))
			}
		}
	})
	// No pod is to be moved, and an empty node has not long to live.
	pools := filepath.Join(s.repo.dir, "base", "nodepools.yaml")
	text, err := os.ReadFile(pools)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.NewReplacer("WhenEmptyOrUnderutilized", "WhenEmpty", "consolidateAfter: 1m", "consolidateAfter: 1s",
		"consolidateAfter: 5m", "consolidateAfter: 1s").Replace(string(text))
	s.repo.write("base/nodepools.yaml", changed)
	// What offers GPUs runs already, and is no Poolwright's.
	plugin, err := os.ReadFile(filepath.Join("testdata", "device-plugin.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.repo.write("base/device-plugin.yaml", string(plugin))
	s.repo.commit("Let empty nodes go at once")
	for _, crd := range [][]byte{awsapis.NodePoolCRD, awsapis.NodeClaimCRD, awsapis.NodeOverlayCRD, awsapis.EC2NodeClassCRD} {
		s.kubectl(string(crd), "create", "-f", "-")
	}
	s.installStock()
	s.simulate()
	s.eventually("Karpenter leads", func() error { return s.stockLeads(true) })
	s.kubectlApply()
	return s
}

// installStock creates what its chart makes of the Deployment. Its CA bundle is
// the cluster's own, written with a line break at the end, as base64 writes it:
// the same authority, and another string.
func (s *stocked) installStock() {
	s.Helper()
	labels := map[string]string{"app.kubernetes.io/name": stockName, "app.kubernetes.io/instance": stockName}
	env := []corev1.EnvVar{
		{Name: "KARPENTER_SERVICE", Value: stockName},
		{Name: "METRICS_PORT", Value: "0"}, {Name: "HEALTH_PROBE_PORT", Value: "0"},
		{Name: "LEADER_ELECTION_NAMESPACE", Value: stockNamespace},
		{Name: "SYSTEM_NAMESPACE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}},
		{Name: "FEATURE_GATES", Value: "ReservedCapacity=true,SpotToSpotConsolidation=false,NodeRepair=false,NodeOverlay=false,StaticCapacity=false,CapacityBuffer=false"},
		{Name: "BATCH_MAX_DURATION", Value: "10s"}, {Name: "BATCH_IDLE_DURATION", Value: "500ms"},
		{Name: "CLUSTER_CA_BUNDLE", Value: base64.StdEncoding.EncodeToString(s.REST().CAData) + "\n"},
		{Name: "CLUSTER_NAME", Value: awsCluster},
		{Name: "INTERRUPTION_QUEUE", Value: awsCluster},
		// It asks EKS for the cluster's version, as the engine does: the API server
		// here is of one version, whichever cluster the environment runs.
		{Name: "EKS_CONTROL_PLANE", Value: "true"},
	}
	one := int32(1)
	err := s.hand.Create(s.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: stockName, Namespace: stockNamespace, Labels: map[string]string{
			"app.kubernetes.io/name": stockName, "app.kubernetes.io/version": stockVersion,
			"app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": "karpenter-" + stockVersion,
		}},
		Spec: appsv1.DeploymentSpec{
			Replicas: &one,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "controller", Image: "public.ecr.aws/karpenter/controller:" + stockVersion, Env: env}},
			}},
		},
	})
	if err != nil {
		s.Fatal(err)
	}
}

// simulate starts and stops Karpenter as the Deployment says, for the sandbox's
// kubelets only simulate its pod.
func (s *stocked) simulate() {
	s.Helper()
	path, err := stockBinary()
	if err != nil {
		s.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(s.Context()))
	s.Cleanup(func() {
		stop()
		s.simulating.Wait()
	})
	// Until there is another controller, it is the one to watch.
	if err := s.simulateOnce(ctx, path); err != nil {
		s.Fatal(err)
	}
	s.now = s.stock
	s.simulating.Go(func() {
		for ctx.Err() == nil {
			if err := s.simulateOnce(ctx, path); err != nil && ctx.Err() == nil {
				s.Errorf("changing Karpenter's Deployment: %v", err)
				return
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
}

func (s *stocked) simulateOnce(ctx context.Context, path string) error {
	var d appsv1.Deployment
	if err := s.hand.Get(ctx, client.ObjectKey{Namespace: stockNamespace, Name: stockName}, &d); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch wanted := *d.Spec.Replicas > 0; {
	case wanted && s.stock == nil:
		args := []string{}
		for _, e := range d.Spec.Template.Spec.Containers[0].Env {
			value := e.Value
			if e.ValueFrom != nil {
				value = d.Namespace
			}
			args = append(args, e.Name+"="+value)
		}
		var err error
		s.stock, err = s.Environment.Run("karpenter", "/usr/bin/env", append(args, path)...)
		return err
	case !wanted && s.stock != nil:
		defer func() { s.stock = nil }()
		return s.stock.Stop(ctx)
	case s.stock != nil:
		select {
		case <-s.stock.Done():
			return fmt.Errorf("it ended: %w", s.stock.Err())
		default:
		}
	}
	return nil
}

// startInstalled starts the controller as the Deployment says that bootstrap made.
func (s *stocked) startInstalled() {
	s.Helper()
	var d appsv1.Deployment
	if err := s.hand.Get(s.Context(), client.ObjectKey{Namespace: engineSystem, Name: "poolwright"}, &d); err != nil {
		s.Fatal(err)
	}
	var args []string
	for _, e := range d.Spec.Template.Spec.Containers[0].Env {
		if e.Name == "CLUSTER_CA_BUNDLE" {
			args = append(args, e.Name+"="+e.Value)
		}
	}
	if len(args) != 1 {
		s.Fatalf("the controller is told %d CA bundles", len(args))
	}
	var err error
	s.now, err = s.Environment.Run("poolwright", "/usr/bin/env", append(args, binary, "run", "--namespace="+engineSystem,
		"--cache-dir="+filepath.Join(s.Dir, "caches"), "--metrics-addr=0", "--health-addr=0")...)
	if err != nil {
		s.Fatal(err)
	}
}

// scaleStock is what a person types to stop Karpenter, and to start it again.
func (s *stocked) scaleStock(replicas int) {
	s.Helper()
	s.kubectl("", "-n", stockNamespace, "scale", "deployment", stockName, fmt.Sprintf("--replicas=%d", replicas))
}

// stockLeads says whether the lease differs from that, or nil.
func (s *stocked) stockLeads(want bool) error {
	var lease coordinationv1.Lease
	if err := s.hand.Get(s.Context(), client.ObjectKey{Namespace: stockNamespace, Name: stockLease}, &lease); err != nil {
		return err
	}
	if leads := lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""; leads != want {
		return fmt.Errorf("somebody holds %s: %t", stockLease, leads)
	}
	return nil
}

// kubectl runs it in the clone, with an input.
func (s *stocked) kubectl(input string, args ...string) string {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), s.Kubectl, append([]string{"--kubeconfig", s.Kubeconfig}, args...)...)
	cmd.Dir, cmd.Stdin = s.repo.dir, strings.NewReader(input)
	out, err := cmd.Output()
	if err != nil {
		texts := ""
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			texts = string(exit.Stderr)
		}
		s.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, texts)
	}
	return string(out)
}

// kubectlApply applies the folder as whoever has no Poolwright does: all but
// the kinds of Poolwright, of which the API server knows nothing yet.
func (s *stocked) kubectlApply() {
	s.Helper()
	var known []string
	for object := range strings.SplitSeq(s.kubectl("", "kustomize", "clusters/dev"), "\n---\n") {
		if !strings.Contains(object, "apiVersion: poolwright.dev/") {
			known = append(known, object)
		}
	}
	s.kubectl(strings.Join(known, "\n---\n"), "apply", "-f", "-")
}

// incarnations names each NodeClaim with its instance and the UID of its Node, and
// is an error where one is about to be replaced.
func (s *stocked) incarnations() (map[string]string, error) {
	var claims karpv1.NodeClaimList
	var nodes corev1.NodeList
	if err := errors.Join(s.hand.List(s.Context(), &claims), s.hand.List(s.Context(), &nodes)); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, c := range claims.Items {
		if drifted := c.StatusConditions().Get(karpv1.ConditionTypeDrifted); drifted != nil && drifted.IsTrue() {
			return nil, fmt.Errorf("NodeClaim %s has drifted: %s", c.Name, drifted.Reason)
		}
		uid := ""
		for _, n := range nodes.Items {
			if n.Name == c.Status.NodeName {
				uid = string(n.UID)
			}
		}
		out[c.Labels[karpv1.NodePoolLabelKey]] = fmt.Sprintf("%s %s %s node %s", c.Name, c.UID, c.Status.ProviderID, uid)
	}
	return out, nil
}

// launchesAndEnds are the requests since the first so many that bought or ended
// an instance.
func (s *stocked) launchesAndEnds(since int) (calls []string) {
	for _, call := range s.AWS.Calls()[since:] {
		if !call.Dry && (call.Operation == "CreateFleet" || call.Operation == "TerminateInstances") {
			calls = append(calls, call.Operation+" "+call.Params)
		}
	}
	return calls
}
