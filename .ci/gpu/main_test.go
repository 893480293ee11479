package gpu

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// The test binary is the programs that are recorded, too: which of them, its name decides.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "nvidia-device-plugin":
		os.Exit(exitCode(runPlugin()))
	case "gpu-feature-discovery":
		os.Exit(exitCode(runDiscovery()))
	case "gpu-kubelet-plugin":
		os.Exit(exitCode(runDRA()))
	default:
		os.Exit(m.Run())
	}
}

func exitCode(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, "E1128 01:02:03.000004   56 main.go:7] "+err.Error())
		return 1
	}
	return 0
}

// flagged is the value of a flag.
func flagged(name string) string {
	for _, arg := range os.Args[1:] {
		if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return value
		}
	}
	return ""
}

// runPlugin is a plugin that offers as many devices as its configuration has lines, and one that has not what MPS
// needs, or refuses its configuration.
func runPlugin() error {
	config, err := os.ReadFile(flagged("config-file"))
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "I1128 01:02:03.000004   56 main.go:7] Loading configuration.\n{\n  \"version\": \"v1\"\n}")
	if strings.Contains(string(config), "refused") {
		return errors.New("unable to load config")
	}
	if strings.Contains(string(config), "mps") {
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGTERM)
		if err := exec.Command(mpsControl).Run(); err != nil {
			fmt.Fprintln(os.Stderr, "I1128 01:02:03.000004   56 main.go:7] Failed to start one or more plugins. Retrying in 30s...")
			<-ended
			return nil
		}
		signal.Stop(ended)
	}
	folder := os.Getenv("PLUGIN_FOLDER")
	_ = os.Remove(filepath.Join(folder, "fake.sock")) // of a plugin that was ended
	listener, err := net.Listen("unix", filepath.Join(folder, "fake.sock"))
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	pluginapi.RegisterDevicePluginServer(server, fakePlugin{devices: strings.Count(string(config), "\n")})
	go func() { _ = server.Serve(listener) }()
	for last := os.FileInfo(nil); ; time.Sleep(5 * time.Millisecond) {
		socket := filepath.Join(folder, "kubelet.sock")
		now, err := os.Stat(socket)
		if err != nil || last != nil && os.SameFile(last, now) && last.ModTime().Equal(now.ModTime()) {
			continue
		}
		last = now
		conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		_, err = pluginapi.NewRegistrationClient(conn).Register(context.Background(), &pluginapi.RegisterRequest{Version: "v1beta1", Endpoint: "fake.sock", ResourceName: "nvidia.com/gpu",
			Options: &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true}}, grpc.WaitForReady(true))
		if err != nil {
			return err
		}
	}
}

type fakePlugin struct {
	pluginapi.UnimplementedDevicePluginServer
	devices int
}

func (fakePlugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true}, nil
}

func (p fakePlugin) ListAndWatch(_ *pluginapi.Empty, stream pluginapi.DevicePlugin_ListAndWatchServer) error {
	response := &pluginapi.ListAndWatchResponse{}
	for i := range p.devices {
		response.Devices = append(response.Devices, &pluginapi.Device{ID: fmt.Sprintf("GPU-12345678-abcd-abcd-abcd-123456789abc::%d", p.devices-1-i), Health: "Healthy",
			Topology: &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: 1}}}})
	}
	if err := stream.Send(response); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (fakePlugin) GetPreferredAllocation(_ context.Context, r *pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
	return &pluginapi.PreferredAllocationResponse{ContainerResponses: []*pluginapi.ContainerPreferredAllocationResponse{{DeviceIDs: r.GetContainerRequests()[0].GetAvailableDeviceIDs()[:1]}}}, nil
}

func (fakePlugin) Allocate(_ context.Context, r *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	ids := r.GetContainerRequests()[0].GetDevicesIds()
	if len(ids) > 1 || !strings.Contains(ids[0], "::") {
		return nil, fmt.Errorf("refused: %d", len(ids))
	}
	return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{{
		Envs:    map[string]string{"NVIDIA_VISIBLE_DEVICES": ids[0]},
		Mounts:  []*pluginapi.Mount{{ContainerPath: "/in", HostPath: "/out"}},
		Devices: []*pluginapi.DeviceSpec{{HostPath: "/dev/nvidia0"}}, CdiDevices: []*pluginapi.CDIDevice{{Name: "nvidia.com/gpu=0"}},
	}}}, nil
}

// runDiscovery writes a label, unless the configuration is refused.
func runDiscovery() error {
	config, err := os.ReadFile(flagged("config-file"))
	if err != nil || strings.Contains(string(config), "refused") {
		return errors.New("no labels")
	}
	return os.WriteFile(flagged("output-file"), []byte("nvidia.com/gpu.count=1\n"), 0o600)
}
