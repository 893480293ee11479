package e2e

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/setups"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/sandbox/nodes"
	"github.com/poolwright/poolwright/provision/sandbox/sandboxtest"
)

// past is a cluster of a set-up as its document has it, before Poolwright: Karpenter and NVIDIA's chart, whose
// nodes run pods.
type past struct {
	*stocked
	name string
	of   setups.Setup
	// role is the nodes', made by Terraform or CloudFormation, and profile its instance profile where a class has that.
	role, profile string
	// queue is that of interruptions; empty where it has the cluster's name.
	queue string
	// selects has the labels of GPU nodes by which NVIDIA's chart chooses them.
	selects string
	// sharing is the plugin's configuration, in the ConfigMap of the document; empty where pods have whole GPUs.
	sharing string
	// limit are the lines of a pool that only a DevicePlugin gives a meaning.
	limit string
	// variables are those of the document's script, with their values.
	variables []string
	// converted is a file of testdata where the example's are of an API that this Karpenter no longer reads: it was upgraded, and
	// has the objects in v1, as Karpenter 1.0 converts them. differs are the fields in which these are not what
	// poolwright convert makes of the example.
	converted string
	differs   []string
	// class is the file of the example's class whose user data differs from that in converted: that would replace each node.
	class string
	// workloads are files of the example, and their pods stay, so many; scaled are Deployments of them that begin with none.
	workloads, scaled []string
	pods              int
	// file has the one pod that requests a GPU, of this name; empty where scaled do.
	file, pod string
	// gpus is what a GPU node offers to pods.
	gpus int64
}

// pasts are the documents' clusters. Their Karpenter is the oldest that can be taken over: that is where the
// guide has those of the documents upgraded to. TestAClusterOfV1alpha5IsDrained has that of baseten.
func pasts() []past {
	return []past{
		{name: "altanova", role: awsNodeRole, selects: "nodepool: gpu-inference", workloads: []string{"tinyllama.yaml"}, pods: 1, file: "tinyllama.yaml", pod: "tinyllama-inference", gpus: 1},
		{
			name: "timeslicing", role: "KarpenterNodeRole-gpu-timeslicing", selects: "eks-node: gpu", workloads: []string{"gpu-workload.yaml"}, pods: 1, gpus: 40,
			sharing: "      timeSlicing:\n        resources: [{name: nvidia.com/gpu, replicas: 10}]\n",
			limit: "  annotations:\n    # Twelve GPUs, three nodes. Poolwright writes it as the 120 shares that they\n    # are under the configuration of this pool.\n" +
				"    poolwright.dev/gpu-limit: \"12\"\n",
		},
		{
			name: "piksel", role: "piksel-dev-cluster-karpenter-node", queue: "Karpenter-piksel-dev-cluster", selects: "karpenter.sh/nodepool: gpu",
			workloads: []string{"gpu.yaml", "general.yaml"}, pods: 2, file: "gpu.yaml", pod: "landcover-model", gpus: 1,
		},
		{
			name: "pingvas", role: "KarpenterNodeRole-pingvas-studio-cluster", profile: "KarpenterNodeInstanceProfile-pingvas-studio-cluster",
			converted: "pingvas-v1.yaml", differs: []string{`NodePool/gpu-spot spec.disruption.consolidateAfter "0s" -> "30s"`},
			class:   "clusters/studio/nodeclass.yaml",
			selects: "role: gpu-worker", workloads: []string{"00-namespace.yaml", "models.yaml", "ai-worker.yaml", "ai-worker-premium.yaml"},
			scaled: []string{"ai-worker", "ai-worker-premium"}, pods: 2, gpus: 1,
		},
	}
}

func TestAClusterMovesFromItsCharts(t *testing.T) {
	onlyLong(t)
	for _, p := range pasts() {
		t.Run(p.name, p.moves)
	}
}

// moves takes a cluster from the charts to Poolwright by the steps of the guide. Whatever ran goes on running, where
// it is.
func (p *past) moves(t *testing.T) {
	p.begins(t)
	p.runsPods()
	before := p.withNodes()
	running, calls := p.workloadPods(), len(p.AWS.Calls())
	t.Logf("before: %v, nodes %v", running, before)

	guide := newPage(t, "howto/move-from-the-charts.md")
	p.files(guide)
	p.takenOver(guide)
	p.same(before, calls)
	p.movesPlugin(guide)
	p.same(before, calls)
	if diff := gocmp.Diff(running, p.workloadPods()); diff != "" {
		t.Errorf("pods (-before +after):\n%s", diff)
	}
	p.adopted()
	if p.sharing != "" {
		p.sharesOn(calls)
	} else {
		p.goesOn(before, calls)
	}
}

// withNodes are the incarnations once Karpenter has found the Node of each: a pod may run before.
func (p *past) withNodes() (all map[string]string) {
	p.Helper()
	p.eventually("each NodeClaim has its Node", func() error {
		var err error
		if all, err = p.incarnations(); err != nil {
			return err
		}
		for claim, one := range all {
			if strings.HasSuffix(one, " node ") {
				return fmt.Errorf("%s has none: %s", claim, one)
			}
		}
		return nil
	})
	return all
}

// stands starts the cluster without Karpenter, with the example in a clone.
func (p *past) stands(t *testing.T) {
	t.Helper()
	var err error
	if p.of, err = setups.Named(p.name); err != nil {
		t.Fatal(err)
	}
	config := p.of.SandboxConfig()
	if p.profile != "" {
		config.AWS.Profiles = map[string]string{p.profile: p.role}
	}
	config.AWS.Roles, config.AWS.Queues, config.AWS.Tags = []string{p.role}, []string{cmp.Or(p.queue, p.of.Cluster)}, nil
	config.AWS.Delays.Fleet, config.AWS.Delays.Running, config.AWS.Delays.Shutdown = 500*time.Millisecond, time.Second, time.Second
	config.Nodes = nodes.Delays{Join: 500 * time.Millisecond, NodeGone: time.Second}
	l := &laptop{engineSuite: engineSuite{newFixture(t, sandboxtest.Start(t, config)), &engineFixture{aws: config.AWS}}}
	p.stocked = &stocked{laptop: l}
	p.emptyClone()
	if err := os.CopyFS(p.repo.dir, os.DirFS(filepath.Join("..", "..", "..", "examples", p.of.Name))); err != nil {
		t.Fatal(err)
	}
	p.repo.commit("Begin")
}

// begins installs the past.
func (p *past) begins(t *testing.T) {
	release := olderRelease(t, "1.12", "1.12.0") // First: without it, nothing is started.
	p.stands(t)
	p.release = release
	// NVIDIA's chart runs, and is replaced last.
	p.repo.replace(p.kustomization(), "  - device-plugin.yaml\n", "")
	if p.limit != "" {
		p.repo.replace(filepath.Join(p.of.Path, "nodepools.yaml"), p.limit, "")
	}
	p.repo.commit("Leave the device plugin to NVIDIA's chart")
	if p.of.SyncFile != "" {
		p.variables = []string{"${CLUSTER_NAME}", p.of.Cluster}
		for variable, image := range map[string]string{"AMD_AMI_ID": "standard", "GPU_AMI_ID": "nvidia"} {
			name := "/aws/service/eks/optimized-ami/" + p.of.Version + "/amazon-linux-2023/x86_64/" + image + "/recommended/image_id"
			p.variables = append(p.variables, "${"+variable+"}", newestImage(t, p.Environment, name))
		}
	}
	p.runsStock()
	if p.converted == "" {
		p.kubectlApply(p.of.Path, p.variables...)
	} else {
		text, err := os.ReadFile(filepath.Join("testdata", p.converted))
		if err != nil {
			t.Fatal(err)
		}
		p.kubectl(string(text), "apply", "-f", "-")
	}
	p.kubectl(p.chartOfNVIDIA(), "apply", "-f", "-")
}

// kustomization is the file that lists the plugin.
func (p *past) kustomization() string {
	for _, folder := range []string{"base", p.of.Path} {
		if _, err := os.Stat(filepath.Join(p.repo.dir, folder, "device-plugin.yaml")); err == nil {
			return filepath.Join(folder, "kustomization.yaml")
		}
	}
	p.Fatal("the example has no device-plugin.yaml")
	return ""
}

// chartOfNVIDIA is what the document's values make of NVIDIA's chart.
func (p *past) chartOfNVIDIA() string {
	config, mount, volume, env := "", "", "", "            - {name: FAIL_ON_INIT_ERROR, value: \"false\"}\n"
	if p.sharing != "" {
		config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: nvidia-device-plugin, namespace: kube-system}\ndata:\n  any: |-\n" +
			"    version: v1\n    flags: {migStrategy: none}\n    sharing:\n" + p.sharing + "---\n"
		mount, volume = "            - {name: config, mountPath: /config}\n", "        - {name: config, configMap: {name: nvidia-device-plugin}}\n"
		env = "            - {name: CONFIG_FILE, value: /config/any}\n"
	}
	return config + fmt.Sprintf(`apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: nvdp-nvidia-device-plugin
  namespace: kube-system
  labels: {app.kubernetes.io/name: nvidia-device-plugin, app.kubernetes.io/instance: nvdp, app.kubernetes.io/managed-by: Helm}
spec:
  selector: {matchLabels: {app.kubernetes.io/name: nvidia-device-plugin, app.kubernetes.io/instance: nvdp}}
  template:
    metadata: {labels: {app.kubernetes.io/name: nvidia-device-plugin, app.kubernetes.io/instance: nvdp}}
    spec:
      priorityClassName: system-node-critical
      nodeSelector: {%s}
      tolerations: [{operator: Exists}]
      containers:
        - name: nvidia-device-plugin-ctr
          image: nvcr.io/nvidia/k8s-device-plugin:v0.17.0
          env:
%s          volumeMounts:
%s            - {name: device-plugin, mountPath: /var/lib/kubelet/device-plugins}
      volumes:
%s        - {name: device-plugin, hostPath: {path: /var/lib/kubelet/device-plugins}}
`, p.selects, env, mount, volume)
}

// runsPods creates the workloads, and returns when all their pods run.
func (p *past) runsPods() {
	p.Helper()
	for _, file := range p.workloads {
		p.kubectl("", "apply", "-f", filepath.Join("workloads", file))
	}
	for _, deployment := range p.scaled {
		p.kubectl("", "-n", "prod", "scale", "deployment", deployment, "--replicas=1")
	}
	p.allRun(p.pods)
	p.offersGPUs()
}

// allRun waits until so many pods of workloads run.
func (p *past) allRun(want int) {
	p.Helper()
	p.eventually(fmt.Sprintf("%d pods run", want), func() error {
		if got := p.workloadPods(); len(got) != want {
			return fmt.Errorf("these run: %v", got)
		}
		return nil
	})
}

// workloadPods are the running pods of workloads by name, each with its incarnation, its node and its restarts.
func (p *past) workloadPods() map[string]string {
	p.Helper()
	var list corev1.PodList
	if err := p.hand.List(p.Context(), &list); err != nil {
		p.Fatal(err)
	}
	out := map[string]string{}
	for _, pod := range list.Items {
		if pod.Namespace != "kube-system" && pod.Namespace != engineSystem && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			restarts := int32(0)
			for _, c := range pod.Status.ContainerStatuses {
				restarts += c.RestartCount
			}
			out[pod.Namespace+"/"+pod.Name] = fmt.Sprintf("%s on %s, %d restarts", pod.UID, pod.Spec.NodeName, restarts)
		}
	}
	return out
}

// offersGPUs waits until each GPU node offers what it should.
func (p *past) offersGPUs() {
	p.Helper()
	key, value, _ := strings.Cut(p.selects, ": ")
	p.eventually("the GPU nodes offer their GPUs", func() error {
		var list corev1.NodeList
		if err := p.hand.List(p.Context(), &list, client.MatchingLabels{key: value}); err != nil {
			return err
		}
		for i := range list.Items {
			if got := allocatableGPUs(&list.Items[i])[gpu.Resource]; got != p.gpus {
				return fmt.Errorf("node %s offers %d, not %d", list.Items[i].Name, got, p.gpus)
			}
		}
		if len(list.Items) == 0 {
			return errors.New("there is no GPU node")
		}
		return nil
	})
}

// typist is a person who follows the guide in the clone.
func (p *past) typist() *shell {
	folder := p.of.Path
	if p.of.SyncFile != "" {
		folder += " --sync-file " + p.of.SyncFile
	}
	return newShell(p.fixture, p.repo,
		"poolwright bootstrap clusters/dev --take-over", "poolwright bootstrap "+folder+" --yes --branch=live --take-over --image registry.example.com/poolwright:v1",
		"--secret git --dry-run", "--secret git --branch=live --dry-run", "--secret git", "--secret git --branch=live --yes --wait=false",
		"convert clusters/dev", "convert "+p.of.Path, "clusters/dev", folder)
}

// files are the guide's steps before anything is installed.
func (p *past) files(guide *page) {
	u := p.typist()
	u.prints(u.block(guide.take("kubectl get deployments"), exitCode{0}), p.release.version)
	u.block(guide.take("poolwright convert"), exitCode{0})
	if p.converted != "" {
		p.repo.commit("Write the pools in v1")
	}
	// Poolwright is not installed, for which a plan exits with 2.
	u.block(guide.take("poolwright plan"), exitCode{2})
	if p.class != "" {
		p.keepsItsScript()
	}
	if diff := gocmp.Diff(p.differs, p.differing()); diff != "" {
		p.Errorf("the fields of pools and classes that differ from what runs (-expected +planned):\n%s", diff)
	}
	if p.name == "altanova" {
		p.findsAnotherDisk()
	}
}

// differing plans, and returns the fields of pools and classes that the files would change, but for labels, which Poolwright
// sets, and for who manages a field. That Poolwright is not installed is the only problem that a plan has.
func (p *past) differing() (differing []string) {
	p.Helper()
	args := []string{"plan", p.of.Path, "-o", "json"}
	if p.of.SyncFile != "" {
		args = append(args, "--sync-file", p.of.SyncFile)
	}
	got := p.types(args...)
	var plan struct {
		Changes []struct {
			Action, Kind, Name string
			Fields             []struct {
				Path          string
				Before, After json.RawMessage
			}
		}
		Unknown  []struct{ Kind, Name, Reason string }
		Problems []struct{ Code, Message string }
	}
	if err := json.Unmarshal([]byte(got.out), &plan); err != nil {
		p.Fatalf("the plan is no JSON: %v, exit code %d\n%s\n%s", err, got.code, got.out, got.err)
	}
	if len(plan.Problems) != 1 || plan.Problems[0].Code != "PoolwrightNotInstalled" || got.code != 2 {
		p.Errorf("the plan has the problems %+v and exit code %d, and should have that Poolwright is not installed", plan.Problems, got.code)
	}
	ofNodes := []string{"NodePool", "EC2NodeClass"}
	for _, c := range plan.Changes {
		switch {
		case !slices.Contains(ofNodes, c.Kind):
		case c.Action != "update":
			differing = append(differing, c.Kind+"/"+c.Name+" "+c.Action)
		default:
			for _, f := range c.Fields {
				if f.Path != "metadata.managedFields" && !strings.HasPrefix(f.Path, "metadata.labels") {
					differing = append(differing, fmt.Sprintf("%s/%s %s %s -> %s", c.Kind, c.Name, f.Path, f.Before, f.After))
				}
			}
		}
	}
	for _, u := range plan.Unknown {
		if slices.Contains(ofNodes, u.Kind) {
			differing = append(differing, fmt.Sprintf("%s/%s unknown: %s", u.Kind, u.Name, u.Reason))
		}
	}
	return differing
}

// userDataOf is the user data of a class in a manifest.
var userDataOf = regexp.MustCompile(`(?m)^  userData: \|\n(?:    .*\n|\n)+`)

// keepsItsScript has the plan's difference of user data corrected: the file gets the script by which the nodes were launched.
func (p *past) keepsItsScript() {
	p.Helper()
	if differing := p.differing(); !slices.ContainsFunc(differing, func(field string) bool { return strings.Contains(field, " spec.userData ") }) {
		p.Errorf("the user data does not differ: %q", differing)
	}
	var scripts []string
	for _, file := range []string{filepath.Join(p.repo.dir, p.class), filepath.Join("testdata", p.converted)} {
		text, err := os.ReadFile(file)
		if err != nil {
			p.Fatal(err)
		}
		found := userDataOf.FindAllString(string(text), -1)
		if len(found) != 1 {
			p.Fatalf("%s has the user data %q", file, found)
		}
		scripts = append(scripts, found[0])
	}
	p.repo.replace(p.class, scripts[0], scripts[1])
	p.repo.commit("Keep the script of the nodes that run")
}

// findsAnotherDisk is the control of differing: a disk of one GiB more is a difference.
func (p *past) findsAnotherDisk() {
	p.Helper()
	const file, declared, other = "base/nodeclasses.yaml", "volumeSize: 200Gi", "volumeSize: 201Gi"
	p.repo.replace(file, declared, other)
	if differing := p.differing(); len(differing) != 1 || !strings.HasPrefix(differing[0], "EC2NodeClass/gpu spec.") || !strings.Contains(differing[0], "201Gi") {
		p.Errorf("with a disk of one GiB more, these differ: %q", differing)
	}
	p.repo.replace(file, other, declared)
}

// takenOver installs Poolwright beside Karpenter, and has it take over.
func (p *past) takenOver(guide *page) {
	p.Helper()
	u := p.typist()
	out := u.block(guide.take("poolwright bootstrap clusters/dev --image registry.example.com/poolwright:v1 --secret git --dry-run"), exitCode{1})
	u.prints(out, "Karpenter "+p.release.version+" runs here already")
	if strings.Contains(out, "In the way of taking over") {
		p.Error("something is in the way of taking over")
	}
	u.block(guide.take("poolwright bootstrap clusters/dev --image registry.example.com/poolwright:v1 --secret git\n"), exitCode{0})
	p.secret()
	p.startInstalled()
	p.eventually("the engine is held", func() error { return p.isReady("OtherKarpenterRunning", metav1.ConditionFalse) })
	begin := time.Now()
	u.block(guide.take("poolwright bootstrap clusters/dev --take-over"), exitCode{0})
	p.engineRuns()
	p.Logf("taking over took %s", since(begin))
}

// movesPlugin removes NVIDIA's chart and declares a DevicePlugin.
func (p *past) movesPlugin(guide *page) {
	p.Helper()
	// There is no Helm: these are the objects that it deletes.
	p.kubectl("", "-n", "kube-system", "delete", "daemonset", "nvdp-nvidia-device-plugin")
	p.repo.replace(p.kustomization(), "resources:\n", "resources:\n  - device-plugin.yaml\n")
	if p.limit != "" {
		p.repo.replace(filepath.Join(p.of.Path, "nodepools.yaml"), "  name: gpu\nspec:\n", "  name: gpu\n"+p.limit+"spec:\n")
	}
	p.repo.commit("Have Poolwright run the device plugin")
	u := p.typist()
	p.expect(p.types("reconcile", filepath.Base(p.of.Path)), 0)
	u.block(guide.take("kubectl wait deviceplugin"), exitCode{0})
	p.offersGPUs()
	p.eventually("the plugin is Poolwright's", func() error {
		var sets appsv1.DaemonSetList
		if err := p.hand.List(p.Context(), &sets, client.InNamespace("kube-system")); err != nil {
			return err
		}
		names := map[string]bool{}
		for _, set := range sets.Items {
			names[set.Name] = true
		}
		if names["nvdp-nvidia-device-plugin"] || len(names) == 0 {
			return fmt.Errorf("there are %v", slices.Sorted(maps.Keys(names)))
		}
		return nil
	})
	u.block(guide.take("poolwright get nodes"), exitCode{0})
}

// sharesOn proves that the engine counts shares: what Karpenter would have taken more nodes for goes to the one
// that is there.
func (p *past) sharesOn(calls int) {
	p.Helper()
	more := int(p.gpus) - p.pods
	p.repo.replace("workloads/inference.yaml", "replicas: 40", fmt.Sprintf("replicas: %d", more))
	p.kubectl("", "apply", "-f", "workloads/inference.yaml")
	p.allRun(p.pods + more)
	if made := p.launchesAndEnds(calls); len(made) > 0 {
		p.Errorf("instances came or went for pods that fit on one node: %q", made)
	}
}

// goesOn proves that the engine provisions: for one more pod of each GPU pool it launches one node, whose GPU Poolwright's
// plugin advertises.
func (p *past) goesOn(before map[string]string, calls int) {
	p.Helper()
	pools := max(1, len(p.scaled))
	for _, deployment := range p.scaled {
		p.kubectl("", "-n", "prod", "scale", "deployment", deployment, "--replicas=2")
	}
	if p.pod != "" {
		text, err := os.ReadFile(filepath.Join(p.repo.dir, "workloads", p.file))
		if err != nil {
			p.Fatal(err)
		}
		p.kubectl(strings.Replace(string(text), "name: "+p.pod+"\n", "name: "+p.pod+"-2\n", 1), "apply", "-f", "-")
	}
	p.allRun(p.pods + pools)
	p.offersGPUs()
	after := p.withNodes()
	fleets := map[string]bool{} // by instance
	for _, call := range p.AWS.Calls()[calls:] {
		if call.Operation == "CreateFleet" && len(call.Launched) == 1 {
			fleets[call.Launched[0]] = true
		}
	}
	if made := p.launchesAndEnds(calls); len(made) != pools || len(fleets) != pools {
		p.Errorf("for %d pods the engine requested %q, which launched %v", pools, made, fleets)
	}
	ofPools := map[string]bool{}
	for claim, one := range after {
		if was, old := before[claim]; old {
			if was != one {
				p.Errorf("NodeClaim %s was %s and is %s", claim, was, one)
			}
			delete(before, claim)
			continue
		}
		fields := strings.Fields(one)
		ofPools[fields[0]] = true
		if !fleets[filepath.Base(fields[2])] {
			p.Errorf("NodeClaim %s is of none of %v: %s", claim, fleets, one)
		}
		p.pluginIsOurs(claim)
	}
	if len(before) > 0 || len(ofPools) != pools {
		p.Errorf("nodes came for pools %v, and these are gone: %v", ofPools, before)
	}
}

// pluginIsOurs: on the node of a NodeClaim runs one device plugin, which Poolwright made.
func (p *past) pluginIsOurs(name string) {
	p.Helper()
	var claim karpv1.NodeClaim
	var pods corev1.PodList
	plugins := client.MatchingLabels{"app.kubernetes.io/name": "nvidia-device-plugin"} // of NVIDIA's chart, too
	err := errors.Join(p.hand.Get(p.Context(), client.ObjectKey{Name: name}, &claim), p.hand.List(p.Context(), &pods, client.InNamespace(gpu.PluginNamespace), plugins))
	if err != nil {
		p.Fatal(err)
	}
	var on, ours []string
	for _, pod := range pods.Items {
		if pod.Spec.NodeName != claim.Status.NodeName || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		on = append(on, pod.Name)
		if pod.Labels[gpu.ConfigLabel] != "" {
			ours = append(ours, pod.Name)
		}
	}
	if len(on) != 1 || len(ours) != 1 {
		p.Errorf("on node %s of %s run the device plugins %q, and Poolwright's are %q", claim.Status.NodeName, name, on, ours)
	}
}
