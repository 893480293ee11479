package objects

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// resource is a kind that the API server has.
type resource struct {
	path, name, kind string
	namespaced       bool
}

var resources = []resource{
	{"/api/v1", "nodes", "Node", false}, {"/api/v1", "pods", "Pod", true}, {"/api/v1", "events", "Event", true}, {"/api/v1", "configmaps", "ConfigMap", true},
	{"/apis/karpenter.sh/v1", "nodepools", "NodePool", false}, {"/apis/karpenter.sh/v1", "nodeclaims", "NodeClaim", false},
	{"/apis/poolwright.dev/v1alpha1", "syncs", "Sync", true}, {"/apis/poolwright.dev/v1alpha1", "clusters", "Cluster", false}, {"/apis/poolwright.dev/v1alpha1", "deviceplugins", "DevicePlugin", false},
}

// apiServer is as much of an API server as watches need: discovery, lists, and watches that send what the test has them send.
type apiServer struct {
	t testing.TB

	mu sync.Mutex
	// requests are those that it received, as the method, the path and whether it is a watch.
	requests []string
	objects  map[string][]string
	// forbidden are resources that may not be listed, missing those that are not installed.
	forbidden, missing []string
	down               bool
	// failing is how many lists of ConfigMaps fail.
	failing int
	watches map[string][]chan string
}

func newAPIServer(t testing.TB) (*apiServer, *rest.Config) {
	t.Helper()
	s := &apiServer{t: t, objects: map[string][]string{}, watches: map[string][]chan string{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.CloseClientConnections)
	return s, &rest.Config{Host: server.URL, QPS: -1}
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	watch := r.URL.Query().Get("watch") != ""
	s.mu.Lock()
	down := s.down
	fails := s.failing > 0 && !watch && strings.HasSuffix(r.URL.Path, "/configmaps")
	if fails {
		s.failing--
	}
	s.requests = append(s.requests, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, map[bool]string{true: "watch"}[watch])))
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	for _, of := range resources {
		if strings.HasPrefix(r.URL.Path, of.path+"/") && strings.HasSuffix(r.URL.Path, "/"+of.name) && !slices.Contains(s.missing, of.name) {
			switch {
			case down || fails:
				s.status(w, http.StatusInternalServerError, "InternalError")
			case slices.Contains(s.forbidden, of.name):
				s.status(w, http.StatusForbidden, "Forbidden")
			case watch:
				s.watch(w, r, of)
			default:
				s.mu.Lock()
				fmt.Fprintf(w, `{"kind":"%sList","apiVersion":%q,"metadata":{"resourceVersion":"1"},"items":[%s]}`, of.kind, version(of.path), strings.Join(s.objects[of.name], ","))
				s.mu.Unlock()
			}
			return
		}
		name := strings.LastIndex(r.URL.Path, "/") + 1
		if dir := r.URL.Path[:name]; strings.HasPrefix(dir, of.path+"/") && strings.HasSuffix(dir, "/"+of.name+"/") {
			s.named(w, of, r.URL.Path[name:])
			return
		}
	}
	s.discovery(w, r.URL.Path)
}

// named serves one object.
func (s *apiServer) named(w http.ResponseWriter, of resource, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.forbidden, of.name) {
		s.status(w, http.StatusForbidden, "Forbidden")
		return
	}
	for _, object := range s.objects[of.name] {
		var is metav1.PartialObjectMetadata
		if err := json.Unmarshal([]byte(object), &is); err != nil {
			s.t.Error(err)
		}
		if is.Name == name {
			fmt.Fprint(w, object)
			return
		}
	}
	s.status(w, http.StatusNotFound, "NotFound")
}

func version(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, "/apis/"), "/api/")
}

func (s *apiServer) status(w http.ResponseWriter, code int, reason string) {
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":"it is %s"}`, reason, code, reason)
}

// watch sends the objects that there are, then what the test has it send.
func (s *apiServer) watch(w http.ResponseWriter, r *http.Request, of resource) {
	s.mu.Lock()
	initial := slices.Clone(s.objects[of.name])
	events := make(chan string, 100)
	s.watches[of.name] = append(s.watches[of.name], events)
	s.mu.Unlock()
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for _, o := range initial {
			fmt.Fprintf(w, `{"type":"ADDED","object":%s}`, o)
		}
		fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`, of.kind, version(of.path))
	}
	w.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case text, open := <-events:
			if !open {
				return
			}
			fmt.Fprint(w, text)
			w.(http.Flusher).Flush()
		}
	}
}

// send has every watch of a resource send an event.
func (s *apiServer) send(name, eventType, object string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, events := range s.watches[name] {
		events <- fmt.Sprintf(`{"type":%q,"object":%s}`, eventType, object)
	}
}

// stop ends all watches and has every request fail from now on.
func (s *apiServer) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = true
	for _, of := range s.watches {
		for _, events := range of {
			close(events)
		}
	}
	s.watches = map[string][]chan string{}
}

// received are the requests so far.
func (s *apiServer) received() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// discovery serves the groups and the resources of each.
func (s *apiServer) discovery(w http.ResponseWriter, path string) {
	groups := map[string][]map[string]any{}
	for _, of := range resources {
		if !slices.Contains(s.missing, of.name) {
			groups[of.path] = append(groups[of.path], map[string]any{"name": of.name, "kind": of.kind, "namespaced": of.namespaced, "verbs": []string{"get", "list", "watch"}})
		}
	}
	var out any
	switch found, is := groups[path]; {
	case path == "/api":
		out = map[string]any{"kind": "APIVersions", "versions": []string{"v1"}}
	case path == "/apis":
		var list []any
		for of := range groups {
			if group, v, is := strings.Cut(version(of), "/"); is {
				one := map[string]string{"groupVersion": group + "/" + v, "version": v}
				list = append(list, map[string]any{"name": group, "versions": []any{one}, "preferredVersion": one})
			}
		}
		out = map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": list}
	case is:
		out = map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version(path), "resources": found}
	default:
		s.status(w, http.StatusNotFound, "NotFound")
		return
	}
	if err := json.NewEncoder(w).Encode(out); err != nil {
		s.t.Error(err)
	}
}
