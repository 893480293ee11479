package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision/sandbox/process"
)

// argoCD is the real application-controller, repo-server and API server of Argo CD, in the namespace of a Sync's controller.
type argoCD struct {
	*syncFixture
	// folder has what `make argocd` builds, scratch what the programs write.
	folder, scratch string
	// redis, repoServer, metrics and api are the addresses of the Redis, of the repo-server, of the application-controller's
	// metrics and of the API server.
	redis, repoServer, metrics, api string
	// running are the components that were started and not ended.
	running []*process.Process
	starts  int
}

// argoGroup is the API group of Argo CD's kinds.
const argoGroup = "argoproj.io/v1alpha1"

// newArgoCD installs Argo CD with the customizations of config/argocd, and starts it.
func newArgoCD(s *syncFixture) *argoCD {
	s.Helper()
	built := os.Getenv(interopEnv)
	// A socket's path may have 108 bytes, which a test's own folder exceeds.
	scratch, err := os.MkdirTemp("", "argocd-")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = os.RemoveAll(scratch) })
	a := &argoCD{syncFixture: s, folder: filepath.Join(built, "argocd"), scratch: scratch}
	a.redis, a.repoServer, a.metrics, a.api = freeAddress(s.T), freeAddress(s.T), freeAddress(s.T), freeAddress(s.T)
	a.install()
	a.run()
	return a
}

// end kills all components.
func (a *argoCD) end() {
	a.Helper()
	for _, p := range a.running {
		if err := p.Kill(); err != nil {
			a.Fatal(err)
		}
	}
	a.running = nil
}

// skipWithoutInterop skips a test before it starts anything.
func skipWithoutInterop(t *testing.T) {
	t.Helper()
	if os.Getenv(interopEnv) == "" {
		t.Skip("neither Flux nor Argo CD is built: make interop does that, and runs this test")
	}
}

// install creates the CRDs, and what Argo CD reads of its own namespace.
func (a *argoCD) install() {
	a.Helper()
	a.servesKinds(a.createsCRDs(a.folder))
	part := map[string]string{"app.kubernetes.io/part-of": "argocd"}
	settings := &corev1.ConfigMap{Data: configMapData(a.T, filepath.Join(a.folder, "argocd-cm.yaml"))}
	settings.Name = "argocd-cm"
	maps.Copy(settings.Data, a.customizations("", "confirm"))
	permissions, secret := &corev1.ConfigMap{}, &corev1.Secret{}
	permissions.Name, secret.Name = "argocd-rbac-cm", "argocd-secret"
	for _, o := range []client.Object{settings, permissions, secret} {
		o.SetLabels(part)
	}
	repository := &corev1.Secret{StringData: map[string]string{"type": "git", "url": a.repository(), "username": a.owner.Name, "password": a.token}}
	repository.Name, repository.Labels = "argocd-repo", map[string]string{"argocd.argoproj.io/secret-type": "repository"}
	for _, o := range []client.Object{settings, permissions, secret, repository} {
		o.SetNamespace(a.system)
		if err := a.hand.Create(a.Context(), o); err != nil {
			a.Fatal(err)
		}
	}
	project := a.object("AppProject", "default", map[string]any{
		"sourceRepos": []any{"*"}, "destinations": []any{map[string]any{"namespace": "*", "server": "*"}},
		"clusterResourceWhitelist": []any{map[string]any{"group": "*", "kind": "*"}}, "orphanedResources": map[string]any{"warn": true},
	})
	if err := a.hand.Create(a.Context(), project); err != nil {
		a.Fatal(err)
	}
}

// customizations are the data of argocd-cm in folders of config/argocd; a later one replaces the keys of an earlier one.
func (a *argoCD) customizations(folders ...string) map[string]string {
	a.Helper()
	out := map[string]string{}
	for _, folder := range folders {
		maps.Copy(out, configMapData(a.T, filepath.Join("../../../config/argocd", folder, "argocd-cm.yaml")))
	}
	return out
}

// configMapData are the data of the ConfigMap in a file.
func configMapData(t *testing.T, file string) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out corev1.ConfigMap
	if err := yaml.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out.Data
}

// repository is the URL by which Argo CD reads it: not the proxy's, so that Git can be away for the Sync alone.
func (a *argoCD) repository() string { return sharedEnv.Git.URL() + "/" + a.owner.Name + "/nodes.git" }

// run starts the components.
func (a *argoCD) run() {
	a.Helper()
	a.execute("redis", filepath.Join(a.folder, "redis"), a.redis)
	a.program("repo-server", "--redis="+a.redis, "--disable-tls", "--client-ca-path=", "--address=127.0.0.1", "--port="+port(a.repoServer),
		"--metrics-address=127.0.0.1", "--metrics-port="+port(freeAddress(a.T)))
	// What cannot be rendered once waits for the next refresh.
	a.eventually("Argo CD's repo-server listens", func() error {
		connection, err := net.Dial("tcp", a.repoServer)
		if err != nil {
			return err
		}
		return connection.Close()
	})
	// An Application is refreshed when an object of it changes and when a test requests it, never by time. What was changed by hand is
	// put back after a second.
	a.program("application-controller", "--namespace="+a.system, "--redis="+a.redis, "--repo-server="+a.repoServer, "--repo-server-plaintext",
		"--metrics-port="+port(a.metrics), "--app-resync=0", "--self-heal-backoff-timeout-seconds=0", "--self-heal-timeout-seconds=1")
	a.program("server", "--namespace="+a.system, "--insecure", "--disable-auth", "--redis="+a.redis, "--repo-server="+a.repoServer, "--repo-server-plaintext",
		"--address=127.0.0.1", "--port="+port(a.api), "--metrics-port="+port(freeAddress(a.T)))
}

// program starts a component of Argo CD.
func (a *argoCD) program(component string, args ...string) *process.Process {
	a.Helper()
	return a.execute(component, "/usr/bin/env", append([]string{
		"ARGOCD_BINARY_NAME=argocd-" + component, "ARGOCD_FAKE_IN_CLUSTER=true", "ARGOCD_GPG_ENABLED=false",
		// It runs git, helm and, for the password of Git, itself.
		"PATH=" + a.folder + ":" + os.Getenv("PATH"), "TMPDIR=" + a.scratch, "ARGOCD_ASK_PASS_SOCK=" + filepath.Join(a.scratch, "ask-pass.sock"),
		"ARGOCD_TLS_DATA_PATH=" + a.scratch, "ARGOCD_SSH_DATA_PATH=" + a.scratch, "ARGOCD_PLUGINSOCKFILEPATH=" + a.scratch,
		filepath.Join(a.folder, "argocd"),
	}, args...)...)
}

func (a *argoCD) execute(name, path string, args ...string) *process.Process {
	a.Helper()
	a.starts++
	p, err := a.Environment.Run(fmt.Sprintf("argocd-%s-%s-%d", a.name, name, a.starts), path, args...)
	if err != nil {
		a.Fatal(err)
	}
	a.Cleanup(func() { _ = p.Kill() })
	a.running = append(a.running, p)
	return p
}

func port(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// configure changes keys of argocd-cm; nil removes one.
func (a *argoCD) configure(data map[string]any) {
	a.Helper()
	raw, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		a.Fatal(err)
	}
	settings := &corev1.ConfigMap{}
	settings.Namespace, settings.Name = a.system, "argocd-cm"
	if err := a.hand.Patch(a.Context(), settings, mergePatch(string(raw))); err != nil {
		a.Fatal(err)
	}
}

// object is one of Argo CD's in its namespace.
func (a *argoCD) object(kind, name string, spec map[string]any) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	out.SetAPIVersion(argoGroup)
	out.SetKind(kind)
	out.SetNamespace(a.system)
	out.SetName(name)
	return out
}

// application creates one of a folder of the repository, with a policy such as {"automated": {...}}.
func (a *argoCD) application(name, path string, source, policy map[string]any) *unstructured.Unstructured {
	a.Helper()
	from := map[string]any{"repoURL": a.repository(), "targetRevision": a.repo.branch, "path": path}
	maps.Copy(from, source)
	app := a.object("Application", name, map[string]any{
		"project": "default", "destination": map[string]any{"server": "https://kubernetes.default.svc", "namespace": a.system}, "source": from, "syncPolicy": policy,
	})
	if err := a.hand.Create(a.Context(), app.DeepCopy()); err != nil {
		a.Fatal(err)
	}
	return app
}

// automated is the policy by which Argo CD applies a folder, puts back what changes, and prunes.
func automated() map[string]any {
	return map[string]any{"automated": map[string]any{"selfHeal": true, "prune": true}}
}

// application's state, as its status has it.
type appState struct {
	Status struct {
		Sync   struct{ Status, Revision string }
		Health struct{ Status string }
		// Resources are those that Git declares, and those that would be pruned.
		Resources []struct {
			Group, Kind, Name, Status string
			RequiresPruning           bool
		}
		Conditions     []struct{ Type, Message string }
		OperationState struct{ Phase, Message string }
	}
}

func (a *argoCD) state(app *unstructured.Unstructured) appState {
	a.Helper()
	live := app.DeepCopy()
	if err := a.hand.Get(a.Context(), client.ObjectKeyFromObject(app), live); err != nil {
		a.Fatal(err)
	}
	raw, err := json.Marshal(live.Object)
	if err != nil {
		a.Fatal(err)
	}
	var out appState
	if err := json.Unmarshal(raw, &out); err != nil {
		a.Fatal(err)
	}
	return out
}

// becomes waits until an Application has a status of health and of sync; empty is any.
func (a *argoCD) becomes(app *unstructured.Unstructured, sync, health string) appState {
	a.Helper()
	return a.waits(app, sync, health, func() {})
}

// comparedBecomes is becomes after the settings were changed, which refreshes no Application by itself.
func (a *argoCD) comparedBecomes(app *unstructured.Unstructured, sync, health string) {
	a.Helper()
	a.waits(app, sync, health, func() { a.refresh(app, "normal") })
}

func (a *argoCD) waits(app *unstructured.Unstructured, sync, health string, before func()) appState {
	a.Helper()
	var now appState
	a.eventually(strings.TrimSpace("Application "+app.GetName()+" is "+sync+" "+health), func() error {
		before()
		now = a.state(app)
		if got := now.Status.Sync.Status; sync != "" && got != sync {
			return fmt.Errorf("it is %q: %+v", got, now.Status)
		}
		if got := now.Status.Health.Status; health != "" && got != health {
			return fmt.Errorf("its health is %q: %+v", got, now.Status)
		}
		return nil
	})
	return now
}

// refreshAnnotation has Argo CD compare an Application again: "normal", or "hard" without what was rendered before.
const refreshAnnotation = "argocd.argoproj.io/refresh"

// refresh has Argo CD compare an Application with Git now, and waits until it has.
func (a *argoCD) refresh(app *unstructured.Unstructured, how string) {
	a.Helper()
	if err := a.hand.Patch(a.Context(), app.DeepCopy(), mergePatch(fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, refreshAnnotation, how))); err != nil {
		a.Fatal(err)
	}
	a.eventually("Argo CD has refreshed "+app.GetName(), func() error {
		live := app.DeepCopy()
		if err := a.hand.Get(a.Context(), client.ObjectKeyFromObject(app), live); err != nil {
			return err
		}
		if _, waits := live.GetAnnotations()[refreshAnnotation]; waits {
			return errors.New("it has not")
		}
		return nil
	})
}

// refreshes is how often Argo CD has compared Applications, by its own metric.
func (a *argoCD) refreshes() int {
	a.Helper()
	response, err := http.Get("http://" + a.metrics + "/metrics") //nolint:noctx // A sandbox's loopback.
	if err != nil {
		a.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	total := 0
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), "} "); ok && strings.HasPrefix(name, "argocd_app_reconcile_count{") {
			n, err := strconv.Atoi(value)
			if err != nil {
				a.Fatal(err)
			}
			total += n
		}
	}
	return total
}

// call sends a request to Argo CD's API, as its page does, and decodes the response into out, where it is not nil.
func (a *argoCD) call(method, path string, body, out any) error {
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(raw)
	}
	request, err := http.NewRequestWithContext(a.Context(), method, "http://"+a.api+"/api/v1"+path, content)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, raw)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(raw, out)
}

// action runs an action of the Sync in an Application, as the menu of Argo CD's page does.
func (a *argoCD) action(app *unstructured.Unstructured, name string, parameters map[string]string) error {
	a.Helper()
	list := []map[string]string{}
	for key, value := range parameters {
		list = append(list, map[string]string{"name": key, "value": value})
	}
	return a.call(http.MethodPost, "/applications/"+app.GetName()+"/resource/actions/v2", map[string]any{
		"name": app.GetName(), "appNamespace": a.system, "namespace": a.system, "project": "default",
		"group": "poolwright.dev", "version": "v1alpha1", "kind": "Sync", "resourceName": a.name, "action": name, "resourceActionParameters": list,
	}, nil)
}

// mustRun is action, of which an error ends the test.
func (a *argoCD) mustRun(app *unstructured.Unstructured, name string, parameters map[string]string) {
	a.Helper()
	a.eventually("Argo CD's API server responds", func() error { return a.call(http.MethodGet, "/applications", nil, nil) })
	if err := a.action(app, name, parameters); err != nil {
		a.Fatal(err)
	}
}
