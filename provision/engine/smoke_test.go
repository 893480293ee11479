package engine

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// TestTheEngineStartsRunsAndStops is the whole life of an engine in one process,
// with an emulated AWS and an API server without objects. There is only one such
// test: Karpenter's metrics register once a process.
func TestTheEngineStartsRunsAndStops(t *testing.T) {
	kube := newKube(t)
	cloud, awsURL := emulated(t, kube)
	cleanAWS(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	args := os.Args
	os.Args = []string{"poolwright", "--a-flag-that-Karpenter-does-not-know"}
	t.Cleanup(func() { os.Args = args })

	var logs logs
	s := valid()
	s.Cluster, s.InterruptionQueue = "sandbox", "sandbox"
	eng, err := New(Config{Settings: s, REST: kube.config, Log: funcr.New(logs.add, funcr.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	if coreoptions.Injectables != nil {
		t.Error("Karpenter's option parsers are still there")
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()

	// A start that fails is an error that says what to do, and can be repeated.
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
	if err := eng.AddTo(ctx, newManager(t, eng)); err == nil || !strings.Contains(err.Error(), "reaching EC2 in us-east-1") {
		t.Fatalf("without AWS: %v", err)
	}
	t.Setenv("AWS_ENDPOINT_URL", awsURL)
	mgr := newManager(t, eng)
	if err := eng.AddTo(ctx, mgr); err != nil {
		t.Fatalf("%v\n%s", err, logs.text())
	}
	if err := eng.AddTo(ctx, newManager(t, eng)); !errors.Is(err, ErrAlreadyRun) {
		t.Fatalf("a second engine: %v", err)
	}

	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	eventually(t, "the caches to be fresh", func() error { return eng.freshness.Check(ctx) })
	// These come from far-apart controllers: instances, configurations, prices, queue.
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(logs.text())
		}
	})
	for _, operation := range []string{"DescribeInstances", "ListInstanceProfiles", "GetProducts", "ReceiveMessage", "DescribeInstanceStatus"} {
		eventually(t, operation, func() error {
			for _, call := range cloud.Calls() {
				if call.Operation == operation {
					return nil
				}
			}
			return errors.New("not called")
		})
	}
	eventually(t, "all controllers to start", func() error {
		if started := strings.Count(logs.text(), `"msg"="Starting Controller"`); started < 50 {
			return fmt.Errorf("%d have", started)
		}
		return nil
	})
	readsOfferings(t, eng)
	readsReservations(t, eng, cloud)
	kube.outage(t, eng)
	stop()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("the manager stopped with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("the manager did not stop")
	}
	if text := logs.text(); strings.Contains(text, "panic") {
		t.Errorf("something panicked:\n%s", text)
	}
}

// outage stops the API server from answering and wants no disruption then, nor
// right after it.
func (k *kube) outage(t *testing.T, eng *Engine) {
	t.Helper()
	k.setDown(true)
	eventually(t, "the outage to be detected", func() error {
		if eng.freshness.Check(t.Context()) == nil {
			return errors.New("still trusted")
		}
		return nil
	})
	k.setDown(false)
	if err := eng.freshness.Check(t.Context()); err == nil {
		t.Error("a view from before the outage was trusted right after it")
	}
}

func newManager(t *testing.T, eng *Engine) manager.Manager {
	t.Helper()
	mgr, err := ctrl.NewManager(eng.RESTConfig(), eng.ManagerOptions(manager.Options{
		Metrics:                server.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		LeaderElection:         true, LeaderElectionID: "poolwright", LeaderElectionNamespace: "poolwright-system",
	}))
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

func emulated(t *testing.T, k *kube) (*sandboxaws.Cloud, string) {
	t.Helper()
	config := sandboxaws.DefaultConfig()
	config.Account = valid().Account
	config.Cluster.Endpoint, config.Cluster.CA = k.config.Host, k.config.CAData
	config.Catalog, config.NotOffered = moreExpensive(t), map[string][]string{"g4dn.xlarge": {"us-east-1b"}}
	cloud, err := sandboxaws.New(config)
	if err != nil {
		t.Fatal(err)
	}
	amazon := httptest.NewServer(cloud)
	t.Cleanup(func() { amazon.CloseClientConnections(); amazon.Close() })
	return cloud, amazon.URL
}

func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline, tick := time.After(5*time.Minute), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waiting for %s: %v", what, err)
		}
	}
}

// logs keeps what the engine says.
type logs struct {
	mu    sync.Mutex
	lines []string
}

func (l *logs) add(prefix, args string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, prefix+" "+args)
}

func (l *logs) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// kube is an API server that has kinds and leases but no other objects.
type kube struct {
	config *rest.Config
	kinds  map[string][]map[string]any

	mu     sync.Mutex
	down   bool
	leases map[string][]byte
}

func newKube(t *testing.T) *kube {
	t.Helper()
	k := &kube{kinds: map[string][]map[string]any{}, leases: map[string][]byte{}}
	k.add("v1", true, "Pod pods PersistentVolumeClaim persistentvolumeclaims ReplicationController replicationcontrollers Service services Event events")
	k.add("v1", false, "Node nodes Namespace namespaces PersistentVolume persistentvolumes")
	k.add("storage.k8s.io/v1", false, "VolumeAttachment volumeattachments StorageClass storageclasses CSINode csinodes")
	k.add("apps/v1", true, "DaemonSet daemonsets Deployment deployments ReplicaSet replicasets StatefulSet statefulsets")
	k.add("policy/v1", true, "PodDisruptionBudget poddisruptionbudgets")
	k.add("coordination.k8s.io/v1", true, "Lease leases")
	k.add("karpenter.sh/v1", false, "NodePool nodepools NodeClaim nodeclaims")
	k.add("karpenter.sh/v1alpha1", false, "NodeOverlay nodeoverlays")
	k.add("karpenter.k8s.aws/v1", false, "EC2NodeClass ec2nodeclasses")
	api := httptest.NewTLSServer(k)
	t.Cleanup(func() { api.CloseClientConnections(); api.Close() })
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})
	// Leases come as protobuf otherwise.
	k.config = &rest.Config{Host: api.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
	return k
}

func (k *kube) add(version string, namespaced bool, names string) {
	texts := strings.Fields(names)
	for i := 0; i < len(texts); i += 2 {
		k.kinds[version] = append(k.kinds[version], map[string]any{
			"kind": texts[i], "name": texts[i+1], "namespaced": namespaced,
			"verbs": []string{"get", "list", "watch", "create", "update", "patch", "delete"},
		})
	}
}

func (k *kube) setDown(down bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.down = down
}

func (k *kube) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	down := k.down
	k.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case down:
		w.WriteHeader(http.StatusServiceUnavailable)
	case parts[0] == "version":
		fmt.Fprint(w, `{"major":"1","minor":"33","gitVersion":"v1.33.0"}`)
	case parts[0] == "api" && len(parts) == 1:
		fmt.Fprint(w, `{"kind":"APIVersions","versions":["v1"]}`)
	case parts[0] == "apis" && len(parts) <= 2:
		k.groups(w, parts[1:])
	case parts[0] == "api":
		k.resource(w, r, "v1", parts[2:])
	default:
		k.resource(w, r, parts[1]+"/"+parts[2], parts[3:])
	}
}

func (k *kube) groups(w http.ResponseWriter, only []string) {
	groups := map[string][]map[string]string{}
	for gv := range k.kinds {
		if group, version, ok := strings.Cut(gv, "/"); ok {
			groups[group] = append(groups[group], map[string]string{"groupVersion": gv, "version": version})
		}
	}
	var all []any
	for group, versions := range groups {
		one := map[string]any{"kind": "APIGroup", "apiVersion": "v1", "name": group, "versions": versions, "preferredVersion": versions[0]}
		if len(only) > 0 && only[0] == group {
			json.NewEncoder(w).Encode(one)
			return
		}
		all = append(all, one)
	}
	if len(only) > 0 {
		notFound(w)
		return
	}
	json.NewEncoder(w).Encode(map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": all})
}

func (k *kube) resource(w http.ResponseWriter, r *http.Request, version string, path []string) {
	kinds, known := k.kinds[version]
	switch {
	case !known:
		notFound(w)
	case len(path) == 0:
		json.NewEncoder(w).Encode(map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": kinds})
	case len(path) >= 3 && path[2] == "leases":
		k.lease(w, r)
	case r.Method == http.MethodPost:
		w.WriteHeader(http.StatusCreated)
		io.Copy(w, r.Body)
	case len(path) > 1:
		notFound(w)
	default:
		for _, kind := range kinds {
			if kind["name"] == path[0] {
				k.list(w, r, version, kind["kind"].(string))
				return
			}
		}
		notFound(w)
	}
}

// list answers with no objects; a watch stays open and says nothing more.
func (k *kube) list(w http.ResponseWriter, r *http.Request, version, kind string) {
	if r.URL.Query().Get("watch") == "" {
		if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList") {
			version, kind = "meta.k8s.io/v1", "PartialObjectMetadata"
		}
		fmt.Fprintf(w, `{"kind":"%sList","apiVersion":%q,"metadata":{"resourceVersion":"7"},"items":[]}`, kind, version)
		return
	}
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", kind, version)
	}
	http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func (k *kube) lease(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch stored, ok := k.leases["lease"]; {
	case r.Method == http.MethodPost || r.Method == http.MethodPut:
		k.leases["lease"] = body
		w.Write(body)
	case ok:
		w.Write(stored)
	default:
		notFound(w)
	}
}

func notFound(w http.ResponseWriter) {
	w.WriteHeader(http.StatusNotFound)
	fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
}
