package gpu

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// encoded is a ResourceSlice as JSON, or as protobuf as clients of Kubernetes send it.
func encoded(t *testing.T, name string, asProtobuf bool) []byte {
	t.Helper()
	slice := &resourcev1.ResourceSlice{TypeMeta: metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceSlice"},
		ObjectMeta: metav1.ObjectMeta{Name: name, GenerateName: "node-"}, Spec: resourcev1.ResourceSliceSpec{Driver: draDriver}}
	if !asProtobuf {
		text, err := json.Marshal(slice)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	scheme := runtime.NewScheme()
	if err := resourcev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := protobuf.NewSerializer(scheme, scheme).Encode(slice, &text); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

// served is an API server that ends with the test.
func served(t *testing.T) *apiServer {
	t.Helper()
	s, err := serveAPI()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

// request sends one and returns the status and the object.
func (s *apiServer) request(t *testing.T, method, path string, body []byte) (int, map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var out map[string]any
	if err := json.NewDecoder(response.Body).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, out
}

// names are those of the ResourceSlices that are listed.
func (s *apiServer) names(t *testing.T) []string {
	t.Helper()
	_, list := s.request(t, http.MethodGet, slicesPath, nil)
	items, _ := list["items"].([]any)
	var out []string
	for _, item := range items {
		metadata, _ := item.(map[string]any)["metadata"].(map[string]any)
		name, _ := metadata["name"].(string)
		out = append(out, name)
	}
	return out
}

func TestResourceSlicesAreKept(t *testing.T) {
	s := served(t)
	s.request(t, http.MethodPost, slicesPath, encoded(t, "", true))
	if got := s.names(t); !cmp.Equal(got, []string{"node-1"}) {
		t.Errorf("after the first is created there are %q", got)
	}
	if code, object := s.request(t, http.MethodPost, slicesPath, []byte("{")); code != http.StatusBadRequest {
		t.Errorf("what is no object is taken: %v", object)
	}
	s.request(t, http.MethodPut, slicesPath+"/node-1", encoded(t, "node-1", false))
	if code, object := s.request(t, http.MethodGet, slicesPath+"/node-1", nil); code != http.StatusOK || object["spec"] == nil {
		t.Errorf("the replaced one is %d, %v", code, object)
	}
	s.request(t, http.MethodDelete, slicesPath+"/node-1", nil)
	if got := s.names(t); len(got) != 0 {
		t.Errorf("after it is deleted there are %q", got)
	}
	if code, _ := s.request(t, http.MethodGet, slicesPath+"/node-1", nil); code != http.StatusNotFound {
		t.Errorf("a deleted one is %d", code)
	}
}

func TestAWatchSendsWhatIsWritten(t *testing.T) {
	s := served(t)
	if code, _ := s.request(t, http.MethodGet, slicesPath+"?watch=1&sendInitialEvents=true", nil); code != http.StatusUnprocessableEntity {
		t.Errorf("a watch that wants the present objects is %d", code)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+slicesPath+"?watch=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	s.request(t, http.MethodPost, slicesPath, encoded(t, "a", true))
	s.request(t, http.MethodPut, slicesPath+"/a", encoded(t, "a", true))
	s.request(t, http.MethodDelete, slicesPath+"/a", nil)
	decoder := json.NewDecoder(response.Body)
	for _, want := range []string{"ADDED", "MODIFIED", "DELETED"} {
		var event struct {
			Type   string
			Object resourcev1.ResourceSlice
		}
		if err := decoder.Decode(&event); err != nil {
			t.Fatal(err)
		}
		if event.Type != want || event.Object.Name != "a" || event.Object.Spec.Driver != draDriver {
			t.Errorf("the event is %+v, want %s", event, want)
		}
	}
}

func TestADriverFindsItsNodeAndItsClaims(t *testing.T) {
	s := served(t)
	s.claim("c", map[string]any{"kind": "ResourceClaim"})
	for path, want := range map[string]int{
		nodesPath + "node":                      http.StatusOK,
		claimsPath + "c":                        http.StatusOK,
		claimsPath + "other":                    http.StatusNotFound,
		"/apis/resource.k8s.io/v1beta2/a":       http.StatusNotFound,
		strings.TrimSuffix(nodesPath, "nodes/"): http.StatusNotFound,
	} {
		if code, object := s.request(t, http.MethodGet, path, nil); code != want {
			t.Errorf("%s is %d, %v; want %d", path, code, object, want)
		}
	}
}
