package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/sandbox/process"
)

const (
	// setupsEnv names the folder with KEDA, Prometheus and the programs of the example, which `make setups` builds. Without it the
	// tests of this file are skipped: `make test` builds none of them.
	setupsEnv = "POOLWRIGHT_SETUPS"
	// longEnv is what make test-long sets: tests wait for times as they are written, and compare times.
	longEnv = "POOLWRIGHT_LONG"

	kedaNamespace = "keda"
	// stopSeconds is an annotation of the sandbox: how long a pod takes to end, in which its worker has to be done.
	stopSeconds = "sandbox.poolwright.dev/stop-seconds"
)

// Set-up 003, its scaling: KEDA's operator and metrics adapter, Prometheus, the exporter, the protocol of Redis, the HPA and the
// workers are real programs; so are kube-controller-manager and the engine. Machines and kubelets are simulated: for each Running
// pod of the workers the test starts the worker's process beside the sandbox, with the environment of its container, sends it SIGTERM
// when the pod is terminated, and kills it when the pod is gone.
func TestSetupPingvasScalesByTheLengthOfItsQueue(t *testing.T) {
	folder := os.Getenv(setupsEnv)
	if folder == "" {
		t.Skip("KEDA and Prometheus are not built: make setups does that, and runs this test")
	}
	s := scaledSetup{setupSuite: applyExample(t, "pingvas"), folder: folder, redis: freeAddress(t), broker: freeAddress(t), prometheus: freeAddress(t)}
	s.startsQueue()
	s.startsKEDA()
	s.runsWorkers()
	deployments := s.record(&appsv1.DeploymentList{}, client.InNamespace("prod"))
	s.follows()
	s.scalesAsTheDocumentHasIt()
	s.shortens()

	// Twelve jobs of half a minute, three for each worker.
	created := time.Now()
	s.creates12Jobs()
	s.replicasReach(1)
	t.Logf("KEDA has the first worker after %s", since(created))
	s.replicasReach(4)
	t.Logf("the HPA has four workers after %s", since(created))
	// The repository has none. The Sync applies the Deployment for the sake of an annotation.
	s.edits("Annotate the workers", "workloads/ai-worker.yaml", "  name: ai-worker\n  namespace: prod\n", "  name: ai-worker\n  namespace: prod\n  annotations: {example.com/team: studio}\n")
	s.leavesReplicas(deployments)

	interrupted, by := s.interruptsAWorker()
	s.finishesEveryJob()
	s.wasFinishedByAnother(interrupted, by)
	t.Logf("every job is finished after %s; job %s went on from its checkpoint, and no step of any was executed twice", since(created), interrupted)

	s.replicasReach(0)
	s.until("no node is left", func() error {
		claims, err := s.claims("gpu-spot")
		if err == nil && len(claims) > 0 {
			return fmt.Errorf("there are %d NodeClaims", len(claims))
		}
		return err
	})
	t.Logf("no worker and no node is left after %s", since(created))
	s.leavesReplicas(deployments)
	if killed := s.workers.killed(); len(killed) > 0 {
		t.Errorf("pods were gone before their workers had ended: %v", killed)
	}
	s.zero()
}

// scaledSetup is pingvas with the real programs that scale its workers.
type scaledSetup struct {
	setupSuite
	folder                    string
	redis, broker, prometheus string
	workers                   *workerProcesses
}

// program starts one of the built programs, with further variables.
func (s *scaledSetup) program(name string, variables []string, args ...string) *process.Process {
	s.Helper()
	p, err := s.Environment.Run(name, "/usr/bin/env", slices.Concat(variables, []string{filepath.Join(s.folder, name)}, args)...)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if s.Failed() {
			s.Logf("the log of %s:\n%s", name, logTail(p.Log()))
		}
	})
	return p
}

// request returns the body of a response of 200.
func (s *scaledSetup) request(method, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(s.Context(), method, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the status is %s: %s", response.Status, body)
	}
	return body, err
}

// startsQueue starts the Redis of the example with its exporter, and a Prometheus that scrapes that.
func (s *scaledSetup) startsQueue() {
	s.Helper()
	s.program("broker", nil, "-redis="+s.redis, "-listen="+s.broker)
	s.eventually("the queue is exported", func() error {
		_, err := s.scrape(s.broker)
		return err
	})
	dir := s.TempDir()
	config := fmt.Sprintf("scrape_configs: [{job_name: celery, scrape_interval: 5s, static_configs: [{targets: [%q]}]}]\n", s.broker)
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		s.Fatal(err)
	}
	s.program("prometheus", nil, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+s.prometheus)
	s.eventually("Prometheus has the length of the queue", func() error {
		body, err := s.request(http.MethodGet, "http://"+s.prometheus+"/api/v1/query?query="+url.QueryEscape(`celery_queue_length{queue_name="queue:pro"}`))
		if err == nil && !strings.Contains(string(body), "queue:pro") {
			return fmt.Errorf("it has %s", body)
		}
		return err
	})
}

// startsKEDA installs KEDA's kinds and its API of external metrics, and starts its operator and its adapter.
func (s *scaledSetup) startsKEDA() {
	s.Helper()
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": kedaNamespace}}}
	if err := s.hand.Create(s.Context(), namespace); err != nil {
		s.Fatal(err)
	}
	s.createsCRDs(s.folder)
	certificates := s.certificates()
	metrics, adapter := freeAddress(s.T), freeAddress(s.T)
	variables := []string{"POD_NAMESPACE=" + kedaNamespace, "KEDA_CLUSTER_OBJECT_NAMESPACE=" + kedaNamespace, "WATCH_NAMESPACE="}
	s.eventually("KEDA's kinds are served", func() error {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("keda.sh/v1alpha1")
		list.SetKind("ScaledObjectList")
		return s.hand.List(s.Context(), list)
	})
	s.program("operator", variables, "--cert-dir="+certificates, "--metrics-service-bind-address="+metrics, "--metrics-bind-address=127.0.0.1:0",
		"--health-probe-bind-address=127.0.0.1:0", "--zap-log-level=info")
	_, port, err := net.SplitHostPort(adapter)
	if err != nil {
		s.Fatal(err)
	}
	s.program("adapter", variables, "--bind-address=127.0.0.1", "--secure-port="+port, "--port=0", "--metrics-service-address="+metrics, "--cert-dir="+certificates,
		"--tls-cert-file="+filepath.Join(certificates, "tls.crt"), "--tls-private-key-file="+filepath.Join(certificates, "tls.key"),
		"--lister-kubeconfig="+s.Kubeconfig, "--authentication-kubeconfig="+s.Kubeconfig, "--authorization-kubeconfig="+s.Kubeconfig)
	s.serves(port, certificates)
}

// serves registers the adapter as the API of external metrics. It runs beside the cluster, so that its Service is a name of this machine.
func (s *scaledSetup) serves(port, certificates string) {
	s.Helper()
	authority, err := os.ReadFile(filepath.Join(certificates, "ca.crt"))
	if err != nil {
		s.Fatal(err)
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		s.Fatal(err)
	}
	for _, object := range []map[string]any{
		{
			"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "keda-metrics-apiserver", "namespace": kedaNamespace},
			"spec": map[string]any{"type": "ExternalName", "externalName": "localhost"},
		},
		{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1beta1.external.metrics.k8s.io"},
			"spec": map[string]any{
				"service": map[string]any{"name": "keda-metrics-apiserver", "namespace": kedaNamespace, "port": number},
				"group":   "external.metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
				"caBundle": base64.StdEncoding.EncodeToString(authority),
			},
		},
	} {
		if err := s.hand.Create(s.Context(), &unstructured.Unstructured{Object: object}); err != nil {
			s.Fatal(err)
		}
	}
	s.eventually("external metrics are served", func() error {
		service := &unstructured.Unstructured{}
		service.SetAPIVersion("apiregistration.k8s.io/v1")
		service.SetKind("APIService")
		if err := s.hand.Get(s.Context(), client.ObjectKey{Name: "v1beta1.external.metrics.k8s.io"}, service); err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(service.Object, "status", "conditions")
		for _, one := range conditions {
			if c, _ := one.(map[string]any); c["type"] == "Available" && c["status"] == "True" {
				return nil
			}
		}
		return fmt.Errorf("it is %v", conditions)
	})
}

// certificates are what KEDA's operator writes into its Secret, and its pods mount: of one authority, for both ends.
func (s *scaledSetup) certificates() string {
	s.Helper()
	dir := s.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"keda-metrics-apiserver." + kedaNamespace + ".svc"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		s.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		s.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, content := range map[string][]byte{
		"ca.crt": certificate, "tls.crt": certificate, "tls.key": pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			s.Fatal(err)
		}
	}
	return dir
}

// scalesAsTheDocumentHasIt compares the HPA that KEDA makes with the document's.
func (s *scaledSetup) scalesAsTheDocumentHasIt() {
	s.Helper()
	var hpa autoscalingv2.HorizontalPodAutoscaler
	s.eventually("KEDA has made the HPA", func() error {
		return s.hand.Get(s.Context(), client.ObjectKey{Namespace: "prod", Name: "ai-worker-hpa"}, &hpa)
	})
	type behaviour struct {
		Window, Percent, Period int32
	}
	read := func(rules *autoscalingv2.HPAScalingRules) behaviour {
		return behaviour{*rules.StabilizationWindowSeconds, rules.Policies[0].Value, rules.Policies[0].PeriodSeconds}
	}
	if diff := cmp.Diff([]behaviour{{0, 100, 15}, {300, 50, 60}}, []behaviour{read(hpa.Spec.Behavior.ScaleUp), read(hpa.Spec.Behavior.ScaleDown)}); diff != "" {
		s.Errorf("the behaviour of the HPA differs from the document's (-want +got):\n%s", diff)
	}
	target := hpa.Spec.Metrics[0].External.Target
	if hpa.Spec.MaxReplicas != 20 || target.Type != autoscalingv2.AverageValueMetricType || target.AverageValue.String() != "3" {
		s.Errorf("the HPA has at most %d pods, by %+v", hpa.Spec.MaxReplicas, target)
	}
}

// follows has the Sync of the pools follow the workers and what scales them, too.
func (s *scaledSetup) follows() {
	s.Helper()
	const kustomization = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: ["
	s.git.repo.write("workloads/kustomization.yaml", kustomization+"00-namespace.yaml, models.yaml, ai-worker.yaml]\n")
	s.git.repo.write("scaling/kustomization.yaml", kustomization+"ai-worker.yaml]\n")
	labels := "      labels: {app: ai-worker}\n"
	s.git.repo.replace("workloads/ai-worker.yaml", labels, labels+"      annotations: {"+stopSeconds+": \"5\"}\n")
	s.git.repo.replace("scaling/ai-worker.yaml", "http://prometheus-operated.monitoring:9090", "http://"+s.prometheus)
	s.edits("Add the workers", "clusters/studio/kustomization.yaml", "  - device-plugin.yaml\n", "  - device-plugin.yaml\n  - ../../workloads\n  - ../../scaling\n")
}

// shortens the five minutes of less work until workers go, and until the last one goes, unless they are to be waited for.
func (s *scaledSetup) shortens() {
	s.Helper()
	if os.Getenv(longEnv) != "1" {
		s.edits("Let workers go sooner", "scaling/ai-worker.yaml", "cooldownPeriod: 300", "cooldownPeriod: 60", "stabilizationWindowSeconds: 300", "stabilizationWindowSeconds: 60")
	}
}

// replicas are the pods that the workers' Deployment is to have, or those that are there where these are more.
func (s *scaledSetup) replicas() int32 {
	s.Helper()
	var live appsv1.Deployment
	if err := s.hand.Get(s.Context(), client.ObjectKey{Namespace: "prod", Name: "ai-worker"}, &live); err != nil {
		s.Fatal(err)
	}
	return max(*live.Spec.Replicas, live.Status.Replicas)
}

// replicasReach waits until the workers' Deployment has so many pods, or more; for zero, until it has none.
func (s *scaledSetup) replicasReach(want int32) {
	s.Helper()
	s.until(fmt.Sprintf("there are %d workers", want), func() error {
		if got := s.replicas(); got < want || want == 0 && got > 0 {
			return fmt.Errorf("there are %d", got)
		}
		return nil
	})
}

// queuedJob is a job as the broker lists it.
type queuedJob struct {
	ID, List, Worker            string
	Steps, Checkpoint, Executed int
}

func (s *scaledSetup) creates12Jobs() {
	s.Helper()
	if _, err := s.request(http.MethodPost, "http://"+s.broker+"/jobs?queue=queue:pro&count=12&steps=60"); err != nil {
		s.Fatal(err)
	}
	if n := len(s.jobs()); n != 12 {
		s.Fatalf("there are %d jobs", n)
	}
}

func (s *scaledSetup) jobs() (jobs []queuedJob) {
	s.Helper()
	body, err := s.request(http.MethodGet, "http://"+s.broker+"/jobs")
	if err == nil {
		err = json.Unmarshal(body, &jobs)
	}
	if err != nil {
		s.Fatal(err)
	}
	return jobs
}

// interruptsAWorker has EC2 interrupt the node of a worker in the middle of a job. It returns the job and the worker's pod when the job
// is in its queue or another worker's list, with a checkpoint from which steps are left.
func (s *scaledSetup) interruptsAWorker() (id, pod string) {
	s.Helper()
	s.until("a worker is in the middle of a job", func() error {
		for _, j := range s.jobs() {
			if name, has := strings.CutPrefix(j.List, "unacked:"); has && j.Executed >= 10 && j.Executed <= j.Steps/2 {
				id, pod = j.ID, name
				return nil
			}
		}
		return fmt.Errorf("the jobs are %+v", s.jobs())
	})
	var on corev1.Pod
	if err := s.hand.Get(s.Context(), client.ObjectKey{Namespace: "prod", Name: pod}, &on); err != nil {
		s.Fatal(err)
	}
	var l landing
	l.setupSuite = s.setupSuite
	if err := l.on(on.Spec.NodeName); err != nil {
		s.Fatal(err)
	}
	if l.claim.Labels[karpv1.CapacityTypeLabelKey] != spot {
		s.Errorf("%v is not spot", l.instance)
	}
	warned := time.Now()
	if err := s.AWS.Interrupt(l.instance.ID); err != nil {
		s.Fatal(err)
	}
	s.until("its job has a checkpoint and is not in its list", func() error {
		for _, j := range s.jobs() {
			if j.ID == id && j.List != "unacked:"+pod {
				if j.List == "finished" || j.Checkpoint == 0 || j.Checkpoint >= j.Steps {
					s.Fatalf("job %s was not interrupted: it is in %s, with checkpoint %d of %d", id, j.List, j.Checkpoint, j.Steps)
				}
				s.Logf("EC2 warned %v; %s later job %s has checkpoint %d of %d, and is in %s", l.instance, since(warned), id, j.Checkpoint, j.Steps, j.List)
				return nil
			}
		}
		return fmt.Errorf("the jobs are %+v", s.jobs())
	})
	return id, pod
}

// wasFinishedByAnother: a worker other than the interrupted one executed the last step of the job.
func (s *scaledSetup) wasFinishedByAnother(id, interrupted string) {
	s.Helper()
	for _, j := range s.jobs() {
		if j.ID == id && (j.Worker == "" || j.Worker == interrupted) {
			s.Errorf("the last step of job %s was executed by %q, which was interrupted", id, j.Worker)
		}
	}
}

// finishesEveryJob waits until each job is in the list of finished ones, once, and each of its steps was executed once.
func (s *scaledSetup) finishesEveryJob() {
	s.Helper()
	s.until("every job is finished", func() error {
		for _, j := range s.jobs() {
			if j.List != "finished" {
				return fmt.Errorf("job %s is in %q, %d of %d steps", j.ID, j.List, j.Executed, j.Steps)
			}
		}
		return nil
	})
	for _, j := range s.jobs() {
		if j.Executed != j.Steps || j.Checkpoint != j.Steps {
			s.Errorf("job %s was executed %d steps, of %d", j.ID, j.Executed, j.Steps)
		}
	}
}

// workerProcesses are the worker's processes, of the pods that run.
type workerProcesses struct {
	sync.Mutex
	all   map[types.UID]*process.Process
	ended map[types.UID]bool
	early []string
}

// killed are the pods that were gone before their worker had ended.
func (w *workerProcesses) killed() []string {
	w.Lock()
	defer w.Unlock()
	return slices.Clone(w.early)
}

// runsWorkers starts, stops and kills a worker's process as the kubelet of its pod does, until the test ends.
func (s *scaledSetup) runsWorkers() {
	s.Helper()
	s.workers = &workerProcesses{all: map[types.UID]*process.Process{}, ended: map[types.UID]bool{}}
	ctx, cancel := context.WithCancel(s.Context())
	events, err := s.hand.Watch(ctx, &corev1.PodList{}, client.InNamespace("prod"), client.MatchingLabels{"app": "ai-worker"})
	if err != nil {
		cancel()
		s.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range events.ResultChan() {
			pod, is := event.Object.(*corev1.Pod)
			if !is {
				// The end of the test is an error in the stream, too.
				if ctx.Err() == nil {
					s.Errorf("the watch of the workers' pods ended: %+v", event.Object)
				}
				return
			}
			if err := s.kubelet(event.Type, pod); err != nil {
				s.Errorf("pod %s: %v", pod.Name, err)
			}
		}
	}()
	s.Cleanup(func() {
		cancel()
		events.Stop()
		<-done
	})
}

// kubelet does for the worker of a pod what its state requires.
func (s *scaledSetup) kubelet(event watch.EventType, pod *corev1.Pod) error {
	s.workers.Lock()
	defer s.workers.Unlock()
	p := s.workers.all[pod.UID]
	switch {
	case p == nil && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning:
		var err error
		s.workers.all[pod.UID], err = s.Environment.Run("worker-"+pod.Name, "/usr/bin/env", append(s.variables(pod), filepath.Join(s.folder, "worker"))...)
		return err
	case p == nil:
		return nil
	case event == watch.Deleted:
		select {
		case <-p.Done():
			return nil
		default:
			s.workers.early = append(s.workers.early, pod.Name)
			return p.Kill()
		}
	case pod.DeletionTimestamp != nil && !s.workers.ended[pod.UID]:
		s.workers.ended[pod.UID] = true
		if err := syscall.Kill(p.PID(), syscall.SIGTERM); !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// variables are those of the pod's container, with the broker of this machine.
func (s *scaledSetup) variables(pod *corev1.Pod) []string {
	out := []string{"HOSTNAME=" + pod.Name, "STEP=500ms"}
	for _, v := range pod.Spec.Containers[0].Env {
		out = append(out, v.Name+"="+strings.ReplaceAll(v.Value, "redis-sentinel:26379", s.redis))
	}
	return out
}
