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
	"k8s.io/utils/ptr"
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
	stockVersion   = "1.15.2"
	stockNamespace = "kube-system"
	stockName      = "karpenter" // of the Deployment
	stockLease     = "karpenter-leader-election"
)

// karpenterRelease is a Karpenter that can be installed.
type karpenterRelease struct {
	version string
	// gates is FEATURE_GATES as its chart sets it.
	gates string
	// binary is its controller, and crds are its CRDs.
	binary func() (string, error)
	crds   func() ([][]byte, error)
}

// embeddedRelease is the version that is embedded.
func embeddedRelease() karpenterRelease {
	return karpenterRelease{
		version: stockVersion, binary: stockBinary,
		gates: "ReservedCapacity=true,SpotToSpotConsolidation=false,NodeRepair=false,NodeOverlay=false,StaticCapacity=false,CapacityBuffer=false",
		crds: func() ([][]byte, error) {
			return [][]byte{awsapis.NodePoolCRD, awsapis.NodeClaimCRD, awsapis.NodeOverlayCRD, awsapis.EC2NodeClassCRD}, nil
		},
	}
}

// karpenterEnv names the folder with the Karpenters of .ci/karpenter and their CRDs, which `make test-long` builds.
const karpenterEnv = "POOLWRIGHT_KARPENTER"

// olderRelease is a Karpenter that make test-long has built.
func olderRelease(t *testing.T, minor, version string) karpenterRelease {
	t.Helper()
	folder := os.Getenv(karpenterEnv)
	if folder == "" {
		t.Skipf("Karpenter %s is not built: make test-long does that, and runs this test", version)
	}
	folder = filepath.Join(folder, minor)
	return karpenterRelease{
		version: version, gates: "ReservedCapacity=true,SpotToSpotConsolidation=false,NodeRepair=false,NodeOverlay=false,StaticCapacity=false",
		binary: func() (string, error) { return filepath.Join(folder, "controller"), nil },
		crds: func() (all [][]byte, err error) {
			files, err := filepath.Glob(filepath.Join(folder, "crds", "*.yaml"))
			if err != nil || len(files) == 0 {
				return nil, fmt.Errorf("no CRDs in %s: %w", folder, err)
			}
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					return nil, err
				}
				all = append(all, text)
			}
			return all, nil
		},
	}
}

// stocked is a laptop in front of a cluster whose nodes a stock Karpenter
// provisions: its Deployment, its kinds, and pools that were applied by kubectl.
type stocked struct {
	*laptop
	// release is the Karpenter that is installed.
	release karpenterRelease
	// simulating is the end of what runs the Deployment's pod.
	simulating sync.WaitGroup
	mu         sync.Mutex // protects stock
	stock      *process.Process
}

// newStocked starts that environment, and returns once Karpenter leads.
func newStocked(t *testing.T) *stocked {
	t.Helper()
	s := &stocked{release: embeddedRelease(), laptop: newLaptop(t, func(c *sandbox.Config) {
		c.AWS.Roles, c.AWS.Queues = []string{awsNodeRole}, []string{awsCluster}
	})}
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
	s.runsStock()
	s.kubectlApply("clusters/dev")
	return s
}

// runsStock installs Karpenter, and returns once it leads.
func (s *stocked) runsStock() {
	s.Helper()
	s.Cleanup(func() {
		for _, name := range []string{"karpenter", "poolwright"} {
			if s.Failed() {
				s.Log(name, logTail(filepath.Join(s.Dir, "logs", name+".log")))
			}
		}
	})
	crds, err := s.release.crds()
	if err != nil {
		s.Fatal(err)
	}
	for _, crd := range crds {
		s.kubectl(string(crd), "create", "-f", "-")
	}
	s.installStock()
	s.simulate()
	s.eventually("Karpenter leads", s.stockLeads)
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
		{Name: "FEATURE_GATES", Value: s.release.gates},
		{Name: "BATCH_MAX_DURATION", Value: "10s"}, {Name: "BATCH_IDLE_DURATION", Value: "500ms"},
		{Name: "CLUSTER_CA_BUNDLE", Value: base64.StdEncoding.EncodeToString(s.REST().CAData) + "\n"},
		{Name: "CLUSTER_NAME", Value: s.aws.Cluster.Name},
		{Name: "INTERRUPTION_QUEUE", Value: s.aws.Queues[0]},
		// It asks EKS for the cluster's version, as the engine does: the API server
		// here is of one version, whichever cluster the environment runs.
		{Name: "EKS_CONTROL_PLANE", Value: "true"},
	}
	one := int32(1)
	err := s.hand.Create(s.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: stockName, Namespace: stockNamespace, Labels: map[string]string{
			"app.kubernetes.io/name": stockName, "app.kubernetes.io/version": s.release.version,
			"app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": "karpenter-" + s.release.version,
		}},
		Spec: appsv1.DeploymentSpec{
			Replicas: &one,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "controller", Image: "public.ecr.aws/karpenter/controller:" + s.release.version, Env: env}},
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
	ctx, stop := context.WithCancel(context.WithoutCancel(s.Context()))
	s.Cleanup(func() {
		stop()
		s.simulating.Wait()
	})
	// Until there is another controller, it is the one to watch.
	if err := s.simulateOnce(ctx); err != nil {
		s.Fatal(err)
	}
	s.now = s.stock
	s.simulating.Go(func() {
		for ctx.Err() == nil {
			if err := s.simulateOnce(ctx); err != nil && ctx.Err() == nil {
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

func (s *stocked) simulateOnce(ctx context.Context) error {
	var d appsv1.Deployment
	err := s.hand.Get(ctx, client.ObjectKey{Namespace: stockNamespace, Name: stockName}, &d)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch scaledUp := err == nil && *d.Spec.Replicas > 0; {
	case scaledUp && s.stock == nil:
		args := []string{}
		for _, e := range d.Spec.Template.Spec.Containers[0].Env {
			value := e.Value
			if e.ValueFrom != nil {
				value = d.Namespace
			}
			args = append(args, e.Name+"="+value)
		}
		path, err := s.release.binary()
		if err != nil {
			return err
		}
		s.stock, err = s.Environment.Run("karpenter", "/usr/bin/env", append(args, path)...)
		return err
	case !scaledUp && s.stock != nil:
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

// hasStopped is nil where the process of Karpenter has ended. Its lease may still name it until that expires: 1.12 does not release it.
func (s *stocked) hasStopped() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stock != nil {
		return errors.New("it runs")
	}
	return nil
}

// stockLeads is nil where somebody holds Karpenter's lease.
func (s *stocked) stockLeads() error {
	if s.stockLeader() == "" {
		return fmt.Errorf("nobody holds %s", stockLease)
	}
	return nil
}

// stockLeader is who holds Karpenter's lease, empty for nobody.
func (s *stocked) stockLeader() string {
	s.Helper()
	var lease coordinationv1.Lease
	if err := s.hand.Get(s.Context(), client.ObjectKey{Namespace: stockNamespace, Name: stockLease}, &lease); client.IgnoreNotFound(err) != nil {
		s.Fatal(err)
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
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

// kubectlApply applies a folder as whoever has no Poolwright does: all but the kinds of Poolwright, of which the
// API server knows nothing yet. Texts are replaced as envsubst does.
func (s *stocked) kubectlApply(folder string, replacements ...string) {
	s.Helper()
	var known []string
	text := strings.NewReplacer(replacements...).Replace(s.kubectl("", "kustomize", folder))
	for object := range strings.SplitSeq(text, "\n---\n") {
		if !strings.Contains(object, "apiVersion: poolwright.dev/") {
			known = append(known, object)
		}
	}
	s.kubectl(strings.Join(known, "\n---\n"), "apply", "-f", "-")
}

// incarnations has each NodeClaim by name, with its pool, its instance and the UID of its Node, and
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
		out[c.Name] = fmt.Sprintf("%s %s %s node %s", c.Labels[karpv1.NodePoolLabelKey], c.UID, c.Status.ProviderID, uid)
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
