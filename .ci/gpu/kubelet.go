package gpu

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// kubeletServer is the side of a kubelet that device plugins register with.
type kubeletServer struct {
	pluginapi.UnimplementedRegistrationServer

	folder        string
	server        *grpc.Server
	registrations chan *pluginapi.RegisterRequest
}

// listen starts a kubelet whose sockets are in a folder. It refuses a folder in which there is one.
func listen(folder string) (*kubeletServer, error) {
	socket := filepath.Join(folder, "kubelet.sock")
	if _, err := os.Lstat(socket); err == nil {
		return nil, fmt.Errorf("listening as a kubelet: %s is there: a kubelet runs on this machine", socket)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listening as a kubelet: %w", err)
	}
	k := &kubeletServer{folder: folder, server: grpc.NewServer(), registrations: make(chan *pluginapi.RegisterRequest, 10)}
	pluginapi.RegisterRegistrationServer(k.server, k)
	go func() { _ = k.server.Serve(listener) }()
	return k, nil
}

// Register takes a plugin's registration.
func (k *kubeletServer) Register(_ context.Context, r *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	k.registrations <- r
	return &pluginapi.Empty{}, nil
}

// stop ends it; its socket goes with it.
func (k *kubeletServer) stop() { k.server.Stop() }

// query sends a plugin what a kubelet sends it.
func (k *kubeletServer) query(ctx context.Context, r *pluginapi.RegisterRequest) (Resource, error) {
	out := Resource{Name: r.GetResourceName(), Version: r.GetVersion(), Endpoint: r.GetEndpoint(),
		PreferredAllocation: r.GetOptions().GetGetPreferredAllocationAvailable(), PreStart: r.GetOptions().GetPreStartRequired()}
	conn, err := grpc.NewClient("unix://"+filepath.Join(k.folder, r.GetEndpoint()), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return out, fmt.Errorf("connecting to the plugin of %s: %w", out.Name, err)
	}
	defer conn.Close() //nolint:errcheck // nothing is written
	client := pluginapi.NewDevicePluginClient(conn)
	options, err := client.GetDevicePluginOptions(ctx, &pluginapi.Empty{})
	if err != nil {
		return out, fmt.Errorf("reading the options of %s: %w", out.Name, err)
	}
	out.SameOptions = options.GetGetPreferredAllocationAvailable() == out.PreferredAllocation && options.GetPreStartRequired() == out.PreStart
	if out.Devices, err = devices(ctx, client); err != nil {
		return out, fmt.Errorf("listing the devices of %s: %w", out.Name, err)
	}
	ids := make([]string, 0, len(out.Devices))
	for _, d := range out.Devices {
		ids = append(ids, d.ID)
	}
	if len(ids) == 0 {
		return out, nil
	}
	preferred, err := client.GetPreferredAllocation(ctx, &pluginapi.PreferredAllocationRequest{ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{
		{AvailableDeviceIDs: ids, AllocationSize: 1}}})
	if err != nil {
		return out, fmt.Errorf("reading the preferred allocation of %s: %w", out.Name, err)
	}
	for _, c := range preferred.GetContainerResponses() {
		out.Preferred = append(out.Preferred, c.GetDeviceIDs()...)
	}
	requests := [][]string{ids[:1], {"GPU-of-nobody"}}
	if len(ids) > 1 {
		requests = append(requests, ids[:2])
	}
	for _, request := range requests {
		out.Allocations = append(out.Allocations, allocate(ctx, client, request))
	}
	return out, nil
}

// devices are those of the plugin's first message, sorted.
func devices(ctx context.Context, client pluginapi.DevicePluginClient) ([]Device, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.ListAndWatch(ctx, &pluginapi.Empty{})
	if err != nil {
		return nil, err
	}
	first, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	var out []Device
	for _, d := range first.GetDevices() {
		device := Device{ID: d.GetID(), Health: d.GetHealth()}
		for _, node := range d.GetTopology().GetNodes() {
			device.NUMANodes = append(device.NUMANodes, node.GetID())
		}
		out = append(out, device)
	}
	slices.SortFunc(out, func(a, b Device) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// allocate requests devices for one container.
func allocate(ctx context.Context, client pluginapi.DevicePluginClient, ids []string) Allocation {
	out := Allocation{Devices: ids}
	response, err := client.Allocate(ctx, &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: ids}}})
	if err != nil {
		out.Refused = status.Code(err).String() + ": " + status.Convert(err).Message()
		return out
	}
	for _, c := range response.GetContainerResponses() {
		out.Env = c.GetEnvs()
		for _, m := range c.GetMounts() {
			if out.Mounts == nil {
				out.Mounts = map[string]string{}
			}
			out.Mounts[m.GetContainerPath()] = m.GetHostPath()
		}
		for _, d := range c.GetDevices() {
			out.DeviceNodes = append(out.DeviceNodes, d.GetHostPath())
		}
		for _, d := range c.GetCdiDevices() {
			out.CDIDevices = append(out.CDIDevices, d.GetName())
		}
	}
	return out
}
