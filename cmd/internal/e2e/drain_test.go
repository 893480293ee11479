package e2e

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// The cluster of set-up 004 as its document has it: Karpenter 0.19.3, which no Karpenter of today takes over. It is drained by
// the steps of the guide, and ends with the same workloads on nodes of Poolwright's. Its objects and its Deployment are
// real, and so are its nodes; what it does to them is played: no Karpenter before 1.12 is built for the tests.
func TestAClusterOfV1alpha5IsDrained(t *testing.T) {
	onlyLong(t)
	p := &past{
		name: "baseten", role: "KarpenterNodeRole-baseten-dev", profile: "KarpenterNodeInstanceProfile-baseten-dev",
		selects: "baseten.co/karpenter-provisioner: gpu", gpus: 1, pods: 3, workloads: []string{"memory.yaml", "cpu.yaml", "gpu.yaml"},
	}
	p.stands(t)
	p.repo.remove("workloads/gpu-g5.yaml", "workloads/gpu-memory.yaml") // They are other workloads of the same pool.
	p.repo.commit("Have one workload a pool")
	p.release = karpenterRelease{version: "0.19.3"}
	p.kubectl(crdsOfV1alpha5(), "create", "-f", "-")
	p.installStock()
	p.kubectlApply(p.of.Path)
	p.kubectl(p.chartOfNVIDIA(), "apply", "-f", "-")
	group := setupSuite{gpuSuite: gpuSuite{engineSuite: p.engineSuite}, of: p.of, account: newAccount(p.Endpoint(), p.of.Region)}.autoscales("autoscaled", 2)
	grouped := group.state()
	old := p.provisioned()
	p.runsPods()
	before := p.deployed(provisionerLabel)
	t.Logf("before: %v", before)
	p.refusesTakeOver()

	guide := p.drain("nodepool")
	karpenter := p.deprovisions(old)
	karpenter.endsNothingWithoutItsChart(guide.shell, guide.block("kubectl get -f workloads"))
	guide.through("kubectl wait --for=delete")
	p.allRun(0)
	guide.through("helm uninstall")
	left := p.leavesNode()
	p.isInstalledBesideItsDefinitions()
	guide.through("kubectl delete crd")
	calls := p.installs()
	guide.through("")
	p.allRun(p.pods)
	if diff := gocmp.Diff(before, p.deployed(karpv1.NodePoolLabelKey)); diff != "" {
		t.Errorf("the workloads and the pools on whose nodes they run (-before +after):\n%s", diff)
	}
	if nodes := p.nodesWith(provisionerLabel); !slices.Equal(nodes, []string{left.node.Name}) {
		t.Errorf("of the nodes of Karpenter 0.19.3 are left: %v", nodes)
	}
	p.launched(calls, 3)
	left.isUntouched()
	if diff := gocmp.Diff(grouped, group.state()); diff != "" {
		t.Errorf("Cluster Autoscaler's nodes were touched (-before +after):\n%s", diff)
	}
	group.unnamed()
}

// Clusters of a Karpenter that has NodePools are drained by the same steps, with a real one: it ends the empty nodes, and it
// removes what only it can remove, before it is gone.
func TestAClusterIsDrained(t *testing.T) {
	onlyLong(t)
	for _, p := range pasts() {
		if slices.Contains([]string{"altanova", "piksel", "pingvas"}, p.name) {
			t.Run(p.name, p.isDrained)
		}
	}
}

func (p *past) isDrained(t *testing.T) {
	p.begins(t)
	p.hasScaledObjects()
	p.runsPods()
	before, old := p.deployed(karpv1.NodePoolLabelKey), p.withNodes()
	t.Logf("before: %v, %v", before, old)
	p.endsEmptyNodesSoon()
	if len(p.managedProfiles()) == 0 && p.profile == "" {
		t.Error("Karpenter manages no instance profile, so that none can be left")
	}

	guide := p.drain("provisioner")
	guide.through("kubectl wait --for=delete")
	p.allRun(0)
	if p.name == "altanova" {
		p.keepsAClassWithoutKarpenter("gpu")
	}
	guide.through("helm uninstall")
	if profiles := p.managedProfiles(); len(profiles) > 0 {
		t.Errorf("of Karpenter are left the instance profiles %v", profiles)
	}
	guide.through("kubectl delete crd")
	p.repo.replace(p.kustomization(), "resources:\n", "resources:\n  - device-plugin.yaml\n")
	p.repo.commit("Have Poolwright run the device plugin")
	calls := p.installs()
	guide.through("")
	for _, deployment := range p.scaled {
		p.kubectl("", "-n", "prod", "scale", "deployment", deployment, "--replicas=1")
	}
	p.allRun(p.pods)
	p.offersGPUs()
	if diff := gocmp.Diff(before, p.deployed(karpv1.NodePoolLabelKey)); diff != "" {
		t.Errorf("the workloads and the pools on whose nodes they run (-before +after):\n%s", diff)
	}
	p.launched(calls, p.pods)
	now := p.withNodes()
	for pool, node := range old {
		if now[pool] == node {
			t.Errorf("pool %s still has %s", pool, node)
		}
	}
}

// draining is a person who follows the section of the guide, block by block, in its order.
type draining struct {
	*past
	shell  *shell
	blocks []string
}

// drain begins the section. Blocks with a word are of the other APIs.
func (p *past) drain(other string) *draining {
	p.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "howto", "move-from-the-charts.md"))
	if err != nil {
		p.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n### Drain\n")
	section, _, ends := strings.Cut(section, "\n## ")
	if !found || !ends {
		p.Fatal("the guide has no section Drain")
	}
	d := &draining{past: p, shell: newShell(p.fixture, p.repo, " --timeout=30m", " --timeout=10m")}
	for _, block := range shellBlocks(p.T, "howto/move-from-the-charts.md") {
		if strings.Contains(section, "```sh\n"+block+"```") && !strings.Contains(block, other) {
			d.blocks = append(d.blocks, block)
		}
	}
	return d
}

// block is the one that begins so, and is still to come.
func (d *draining) block(begins string) string {
	d.Helper()
	i := slices.IndexFunc(d.blocks, func(block string) bool { return strings.HasPrefix(block, begins) })
	if i < 0 {
		d.Fatalf("no block begins with %q of %q", begins, d.blocks)
	}
	return d.blocks[i]
}

// through runs all blocks up to the one that begins so, or all that are left.
func (d *draining) through(begins string) {
	d.Helper()
	last := ""
	if begins != "" {
		last = d.block(begins)
	}
	for len(d.blocks) > 0 {
		block := d.blocks[0]
		d.blocks = d.blocks[1:]
		_, err := os.Stat(filepath.Join(d.repo.dir, "scaling"))
		switch {
		case strings.Contains(block, "-f scaling") && err != nil: // Nothing scales its workloads.
		case strings.HasPrefix(block, "helm uninstall"):
			d.uninstallsCharts()
		default:
			d.shell.block(block, exitCode{0})
		}
		d.scalesUp()
		if block == last {
			return
		}
	}
}

// uninstallsCharts deletes what both charts make: there is no Helm.
func (p *past) uninstallsCharts() {
	p.Helper()
	// It may end from here on.
	p.now = nil
	p.kubectl("", "-n", stockNamespace, "delete", "deployment/"+stockName, "daemonset/nvdp-nvidia-device-plugin")
	p.eventually("Karpenter has ended", func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.stock != nil {
			return errors.New("it runs")
		}
		return nil
	})
}

// installs has Poolwright installed and its engine run, and returns how many requests there were before.
func (p *past) installs() (calls int) {
	p.Helper()
	calls = len(p.AWS.Calls())
	p.expect(p.types(p.bootstraps("--wait=false", "--yes")...), 0)
	p.secret()
	gpuSuite{engineSuite: p.engineSuite}.runs()
	p.engineRuns()
	return calls
}

// bootstraps is the command for this cluster.
func (p *past) bootstraps(more ...string) []string {
	return append([]string{"bootstrap", p.of.Path, "--image=registry.example.com/poolwright:1", "--secret=git", "--branch=live"}, more...)
}

// launched proves that so many fleets were created, and nothing ended, since the first so many requests.
func (p *past) launched(calls, fleets int) {
	p.Helper()
	made := p.launchesAndEnds(calls)
	if len(made) != fleets || slices.ContainsFunc(made, func(call string) bool { return !strings.HasPrefix(call, "CreateFleet ") }) {
		p.Errorf("not %d fleets: %q", fleets, made)
	}
}

// standing is what of a cluster a take-over that is refused leaves as it is.
type standing struct {
	Namespaces, Definitions, Deployments map[string]string
}

func (p *past) standing() standing {
	p.Helper()
	of := func(version schema.GroupVersionKind) map[string]string {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(version)
		if err := p.hand.List(p.Context(), list); err != nil {
			p.Fatal(err)
		}
		out := map[string]string{}
		for _, o := range list.Items {
			out[o.Namespace+"/"+o.Name] = fmt.Sprintf("%s, generation %d, deleted %v", o.UID, o.Generation, o.DeletionTimestamp)
		}
		return out
	}
	return standing{
		of(corev1.SchemeGroupVersion.WithKind("Namespace")),
		of(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}),
		of(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}),
	}
}

// changesOfAWS are the requests since the first so many that change something.
func (p *past) changesOfAWS(since int) (calls []string) {
	for _, call := range p.AWS.Calls()[since:] {
		reads := slices.ContainsFunc([]string{"Describe", "Get", "List", "Simulate"}, func(verb string) bool { return strings.HasPrefix(call.Operation, verb) })
		if !call.Dry && !reads {
			calls = append(calls, call.Operation+" "+call.Params)
		}
	}
	return calls
}

// refusesTakeOver: bootstrap takes nothing over, and changes nothing.
func (p *past) refusesTakeOver() {
	p.Helper()
	before, calls := p.standing(), len(p.AWS.Calls())
	p.expect(p.types(p.bootstraps("--dry-run")...), 1)
	p.expect(p.types(p.bootstraps("--take-over", "--yes")...), 2)
	if diff := gocmp.Diff(before, p.standing()); diff != "" {
		p.Errorf("the cluster (-before +after):\n%s", diff)
	}
	if made := p.changesOfAWS(calls); len(made) > 0 {
		p.Errorf("AWS was changed: %q", made)
	}
}

// isInstalledBesideItsDefinitions: those of v1alpha5 and the objects in them are in nobody's way, and stay.
func (p *past) isInstalledBesideItsDefinitions() {
	p.Helper()
	objects := func() string {
		return p.kubectl("", "get", "provisioners,awsnodetemplates", "-o", "jsonpath={range .items[*]}{.metadata.uid} {.metadata.generation} {.metadata.deletionTimestamp}\n{end}")
	}
	before, written := p.standing(), objects()
	p.expect(p.types(p.bootstraps("--wait=false", "--yes")...), 0)
	after := p.standing()
	for name, was := range before.Definitions {
		if after.Definitions[name] != was {
			p.Errorf("CRD %s was %s and is %s", name, was, after.Definitions[name])
		}
	}
	if diff := gocmp.Diff(written, objects()); diff != "" || written == "" {
		p.Errorf("Provisioners and AWSNodeTemplates (-before +after):\n%s", diff)
	}
}

// isUntouched: the node has neither a taint nor an end, and its pod runs on.
func (l *leftNode) isUntouched() {
	l.Helper()
	pod, err := l.running()
	if err != nil || string(pod.UID) != l.podUID {
		l.Errorf("the pod that was left on a node was %s: %+v, %v", l.podUID, pod, err)
	}
	var node corev1.Node
	if err := l.hand.Get(l.Context(), l.node, &node); err != nil {
		l.Fatal(err)
	}
	if diff := gocmp.Diff(l.nodeSpec, node.Spec); diff != "" || node.DeletionTimestamp != nil {
		l.Errorf("the node is deleted at %v, its spec (-before +after):\n%s", node.DeletionTimestamp, diff)
	}
	for _, call := range l.AWS.Calls() {
		if (call.Operation == "TerminateInstances" || call.Operation == "CreateFleet") && strings.Contains(call.Params, l.instance) {
			l.Errorf("%s named the instance: %s", call.Operation, call.Params)
		}
	}
}

// deployed are the running pods of workloads by workload, each with the value that its node has under a label. It waits until
// each node is one of them.
func (p *past) deployed(label string) (out map[string][]string) {
	p.Helper()
	p.eventually("each pod is on a node with "+label, func() error {
		var pods corev1.PodList
		var nodes corev1.NodeList
		if err := errors.Join(p.hand.List(p.Context(), &pods), p.hand.List(p.Context(), &nodes)); err != nil {
			return err
		}
		of := map[string]string{}
		for _, node := range nodes.Items {
			of[node.Name] = node.Labels[label]
		}
		out = map[string][]string{}
		for _, pod := range pods.Items {
			if pod.Namespace == "kube-system" || pod.Namespace == engineSystem {
				continue
			}
			if pod.Status.Phase != corev1.PodRunning || of[pod.Spec.NodeName] == "" {
				return fmt.Errorf("pod %s is %s on node %q with %q", pod.Name, pod.Status.Phase, pod.Spec.NodeName, of[pod.Spec.NodeName])
			}
			name := cmp.Or(pod.Labels["app.kubernetes.io/name"], pod.Labels["app"], pod.Name)
			out[name] = append(out[name], of[pod.Spec.NodeName])
		}
		return nil
	})
	return out
}

// nodesWith are the names of the nodes that have a label.
func (p *past) nodesWith(label string) (names []string) {
	p.Helper()
	var list corev1.NodeList
	if err := p.hand.List(p.Context(), &list, client.HasLabels{label}); err != nil {
		p.Fatal(err)
	}
	for _, node := range list.Items {
		names = append(names, node.Name)
	}
	return names
}
