package gpu

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// The paths that a DRA driver requests.
const (
	nodesPath  = "/api/v1/nodes/"
	slicesPath = "/apis/resource.k8s.io/v1/resourceslices"
	claimsPath = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/"
)

// apiServer is as much of an API server as a DRA driver needs: it has one Node, keeps ResourceSlices, and has the
// ResourceClaims that it is given. Everything else is not found.
type apiServer struct {
	url  string
	http http.Server

	mu       sync.Mutex
	version  int
	slices   map[string]map[string]any
	claims   map[string]map[string]any
	watchers []chan []byte
	// published gets a token with every ResourceSlice that is written.
	published chan struct{}
}

// serveAPI starts one on a free port of this machine.
func serveAPI() (*apiServer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening as an API server: %w", err)
	}
	s := &apiServer{url: "http://" + listener.Addr().String(), slices: map[string]map[string]any{}, claims: map[string]map[string]any{}, published: make(chan struct{}, 1)}
	s.http.Handler = s
	go func() { _ = s.http.Serve(listener) }()
	return s, nil
}

// ServeHTTP returns one request.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case path == slicesPath && r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
		s.watch(w, r)
	case path == slicesPath && r.Method == http.MethodGet:
		s.list(w)
	case strings.HasPrefix(path, slicesPath):
		s.write(w, r, strings.TrimPrefix(strings.TrimPrefix(path, slicesPath), "/"))
	case strings.HasPrefix(path, claimsPath):
		s.mu.Lock()
		claim := s.claims[strings.TrimPrefix(path, claimsPath)]
		s.mu.Unlock()
		response(w, claim)
	case strings.HasPrefix(path, nodesPath):
		response(w, map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": strings.TrimPrefix(path, nodesPath), "uid": "node", "resourceVersion": "1"}})
	default:
		response(w, nil)
	}
}

// response sends an object; nil is not found.
func response(w http.ResponseWriter, object map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	if object == nil {
		w.WriteHeader(http.StatusNotFound)
		object = failure(http.StatusNotFound, "NotFound")
	}
	_ = json.NewEncoder(w).Encode(object)
}

func failure(code int, reason string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason}
}

func (s *apiServer) list(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	items := make([]any, 0, len(s.slices))
	for _, slice := range s.slices {
		items = append(items, slice)
	}
	response(w, map[string]any{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSliceList", "metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)}, "items": items})
}

// watch sends what is written from now on. A client that requests the present objects first is refused: it lists then.
func (s *apiServer) watch(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("sendInitialEvents") != "" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = json.NewEncoder(w).Encode(failure(http.StatusUnprocessableEntity, "Invalid"))
		return
	}
	events := make(chan []byte, 100)
	s.mu.Lock()
	s.watchers = append(s.watchers, events)
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	_ = control.Flush()
	for {
		select {
		case event := <-events:
			if _, err := w.Write(event); err != nil {
				return
			}
			_ = control.Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// write creates, replaces or deletes a ResourceSlice.
func (s *apiServer) write(w http.ResponseWriter, r *http.Request, name string) {
	var object map[string]any
	if r.Method == http.MethodPost || r.Method == http.MethodPut {
		var err error
		if object, err = resourceSlice(r); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			response(w, failure(http.StatusBadRequest, "BadRequest"))
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	event := "MODIFIED"
	switch r.Method {
	case http.MethodPost:
		event = "ADDED"
		metadata, _ := object["metadata"].(map[string]any)
		if name, _ = metadata["name"].(string); name == "" {
			prefix, _ := metadata["generateName"].(string)
			name = prefix + strconv.Itoa(s.version)
			metadata["name"] = name
		}
		metadata["uid"] = "slice-" + strconv.Itoa(s.version)
	case http.MethodPut:
	case http.MethodDelete:
		event, object = "DELETED", s.slices[name]
		delete(s.slices, name)
	default:
		response(w, s.slices[name])
		return
	}
	if metadata, ok := object["metadata"].(map[string]any); ok {
		metadata["resourceVersion"] = strconv.Itoa(s.version)
	}
	if event != "DELETED" {
		s.slices[name] = object
		select {
		case s.published <- struct{}{}:
		default:
		}
	}
	if text, err := json.Marshal(map[string]any{"type": event, "object": object}); err == nil {
		for _, watcher := range s.watchers {
			select {
			case watcher <- text:
			default: // It is gone.
			}
		}
	}
	response(w, object)
}

// resourceSlice is what a request writes. Clients of Kubernetes send it as protobuf.
func resourceSlice(r *http.Request) (map[string]any, error) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := resourcev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	decoded, _, err := serializer.NewCodecFactory(scheme).UniversalDeserializer().Decode(text, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("reading a ResourceSlice: %w", err)
	}
	decoded.GetObjectKind().SetGroupVersionKind(resourcev1.SchemeGroupVersion.WithKind("ResourceSlice"))
	return runtime.DefaultUnstructuredConverter.ToUnstructured(decoded)
}

// specs are the specs of the ResourceSlices.
func (s *apiServer) specs() []any {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []any
	for _, slice := range s.slices {
		out = append(out, slice["spec"])
	}
	return out
}

// claim adds a ResourceClaim.
func (s *apiServer) claim(name string, object map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims[name] = object
}

func (s *apiServer) stop() { _ = s.http.Close() }
