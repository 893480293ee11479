package gpu

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// runDRA is a DRA driver that publishes one GPU.
func runDRA() error {
	config, err := os.ReadFile(flagged("kubeconfig"))
	if err != nil {
		return err
	}
	if os.Getenv("FAKE") == "ends" {
		return errors.New("no driver")
	}
	_, url, _ := strings.Cut(string(config), `server: "`)
	url, _, _ = strings.Cut(url, `"`)
	endpoint := filepath.Join(flagged("kubelet-plugins-directory-path"), "dra.sock")
	driver := &fakeDriver{url: url, cdi: flagged("cdi-root"), endpoint: endpoint}
	for _, socket := range []string{endpoint, filepath.Join(flagged("kubelet-registrar-directory-path"), draDriver+"-reg.sock")} {
		listener, err := net.Listen("unix", socket)
		if err != nil {
			return err
		}
		server := grpc.NewServer()
		registration.RegisterRegistrationServer(server, driver)
		dra.RegisterDRAPluginServer(server, driver)
		go func() { _ = server.Serve(listener) }()
	}
	time.Sleep(time.Hour)
	return nil
}

type fakeDriver struct {
	registration.UnimplementedRegistrationServer
	dra.UnimplementedDRAPluginServer
	url, cdi, endpoint string
}

func (d *fakeDriver) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Name: draDriver, Type: "DRAPlugin", Endpoint: d.endpoint, SupportedVersions: []string{"v1.DRAPlugin"}}, nil
}

// NotifyRegistrationStatus publishes, as protobuf, as a client of Kubernetes does.
func (d *fakeDriver) NotifyRegistrationStatus(context.Context, *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	slice := &resourcev1.ResourceSlice{TypeMeta: metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceSlice"}, ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"},
		Spec: resourcev1.ResourceSliceSpec{Driver: draDriver, Devices: []resourcev1.Device{{Name: "gpu-0"}}}}
	scheme := runtime.NewScheme()
	var text strings.Builder
	if err := errors.Join(resourcev1.AddToScheme(scheme), protobuf.NewSerializer(scheme, scheme).Encode(slice, &text)); err != nil {
		return nil, err
	}
	response, err := http.Post(d.url+slicesPath, "application/vnd.kubernetes.protobuf", strings.NewReader(text.String())) //nolint:gosec,noctx // our own server
	if err != nil {
		return nil, err
	}
	return &registration.RegistrationStatusResponse{}, response.Body.Close()
}

func (d *fakeDriver) NodePrepareResources(_ context.Context, r *dra.NodePrepareResourcesRequest) (*dra.NodePrepareResourcesResponse, error) {
	claim := r.GetClaims()[0]
	response, err := http.Get(d.url + claimsPath + claim.GetName()) //nolint:gosec,noctx // our own server
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // nothing is written
	var object resourcev1.ResourceClaim
	if err := json.NewDecoder(response.Body).Decode(&object); err != nil {
		return nil, err
	}
	out := &dra.NodePrepareResourceResponse{}
	if device := object.Status.Allocation.Devices.Results[0].Device; device != "gpu-0" {
		out.Error = "no device " + device
	} else {
		out.Devices = []*dra.Device{{CdiDeviceIds: []string{"claim=" + claim.GetUid()}}}
		if err := os.WriteFile(filepath.Join(d.cdi, "claim.yaml"), []byte("kind: claim\n"), 0o600); err != nil {
			return nil, err
		}
	}
	return &dra.NodePrepareResourcesResponse{Claims: map[string]*dra.NodePrepareResourceResponse{claim.GetUid(): out}}, nil
}

func (d *fakeDriver) NodeUnprepareResources(_ context.Context, r *dra.NodeUnprepareResourcesRequest) (*dra.NodeUnprepareResourcesResponse, error) {
	_ = os.Remove(filepath.Join(d.cdi, "claim.yaml"))
	return &dra.NodeUnprepareResourcesResponse{Claims: map[string]*dra.NodeUnprepareResourceResponse{r.GetClaims()[0].GetUid(): {}}}, nil
}
