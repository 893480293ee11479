package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"sigs.k8s.io/yaml"
)

// draDriver is the name of NVIDIA's DRA driver for GPUs.
const draDriver = "gpu.nvidia.com"

// DRARecording is what NVIDIA's DRA driver did on a machine.
type DRARecording struct {
	Date string `json:"date"`
	// Driver is the version of the driver's module.
	Driver string `json:"driver"`
	GPUs   []GPU  `json:"gpus"`
	// Registered are the name, the type and the services with which it registers.
	Registered []string `json:"registered"`
	// Slices are the specs of the ResourceSlices that it publishes.
	Slices []any `json:"slices"`
	// Prepared are the claims that it was given, by device: one of a GPU that there is, and one of none.
	Prepared []PreparedClaim `json:"prepared"`
}

// PreparedClaim is a ResourceClaim that was to be prepared.
type PreparedClaim struct {
	// Device is what is allocated to it.
	Device string `json:"device"`
	// Refused is why it is not prepared.
	Refused string `json:"refused,omitempty"`
	// CDIDevices are its names in CDI, CDI the specifications that were written for it.
	CDIDevices []string `json:"cdiDevices,omitempty"`
	CDI        []any    `json:"cdi,omitempty"`
	// Unprepared is true where it was given back without an error.
	Unprepared bool `json:"unprepared"`
}

// RecordDRA runs the DRA driver with its defaults, by which it changes no setting of a GPU. Driver is its program, root
// the folder in which the NVIDIA driver is installed. Every field of the Recorder but Plugin, Discovery and Folder
// is required.
func (r *Recorder) RecordDRA(ctx context.Context, driver, root string) (DRARecording, error) {
	out := DRARecording{Date: r.Date.UTC().Format(time.DateOnly), Driver: r.Version}
	var err error
	if out.GPUs, err = r.gpus(ctx); err != nil {
		return out, err
	}
	folder, err := os.MkdirTemp("", "gpu-dra-")
	if err != nil {
		return out, err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // a temporary folder
	api, err := serveAPI()
	if err != nil {
		return out, err
	}
	defer api.stop()
	program, err := r.startDRA(folder, api.url, driver, root)
	if err != nil {
		return out, err
	}
	defer program.stop()
	ctx, cancel := context.WithTimeout(ctx, 3*r.Timeout)
	defer cancel()
	if err := r.converse(ctx, folder, api, program, &out); err != nil {
		return out, errors.Join(err, errors.New(strings.Join(program.log.lines(), "\n")))
	}
	program.stop()
	after, err := r.gpus(ctx)
	if err != nil {
		return out, err
	}
	if fmt.Sprint(after) != fmt.Sprint(out.GPUs) {
		return out, fmt.Errorf("the GPUs have other settings than before: %v, before %v", after, out.GPUs)
	}
	return anonymous(out)
}

// startDRA starts the driver with all its folders in one.
func (r *Recorder) startDRA(folder, url, driver, root string) (*runningProgram, error) {
	config := filepath.Join(folder, "kubeconfig")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: \"" + url + "\"}}]\nusers: [{name: c, user: {}}]\ncontexts: [{name: c, context: {cluster: c, user: c}}]\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	for _, sub := range []string{"registry", "plugins", "cdi"} {
		if err := os.Mkdir(filepath.Join(folder, sub), 0o700); err != nil {
			return nil, err
		}
	}
	return start(r.environment(os.Getenv("PATH")), driver, "--node-name=node", "--image-name=none", "--kubeconfig="+config,
		"--kubelet-registrar-directory-path="+filepath.Join(folder, "registry"), "--kubelet-plugins-directory-path="+filepath.Join(folder, "plugins"),
		"--cdi-root="+filepath.Join(folder, "cdi"), "--nvidia-cdi-hook-path=/usr/bin/nvidia-cdi-hook", "--container-driver-root="+root, "--nvidia-driver-root="+root)
}

// converse sends the driver what a kubelet sends it.
func (r *Recorder) converse(ctx context.Context, folder string, api *apiServer, program *runningProgram, out *DRARecording) error {
	socket := filepath.Join(folder, "registry", draDriver+"-reg.sock")
	if err := appears(ctx, socket, program); err != nil {
		return err
	}
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing is written
	registrar := registration.NewRegistrationClient(conn)
	info, err := registrar.GetInfo(ctx, &registration.InfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("reading the registration: %w", err)
	}
	out.Registered = append([]string{info.GetName(), info.GetType()}, info.GetSupportedVersions()...)
	if _, err := registrar.NotifyRegistrationStatus(ctx, &registration.RegistrationStatus{PluginRegistered: true}); err != nil {
		return fmt.Errorf("confirming the registration: %w", err)
	}
	select {
	case <-api.published:
	case <-program.ended:
		return errors.New("the driver ended before it published a ResourceSlice")
	case <-ctx.Done():
		return fmt.Errorf("waiting for a ResourceSlice: %w", ctx.Err())
	}
	out.Slices = api.specs()
	service, err := grpc.NewClient("unix://"+info.GetEndpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer service.Close() //nolint:errcheck // nothing is written
	for i, device := range []string{"gpu-0", "gpu-of-nobody"} {
		prepared, err := prepare(ctx, dra.NewDRAPluginClient(service), api, filepath.Join(folder, "cdi"), device, i)
		if err != nil {
			return err
		}
		out.Prepared = append(out.Prepared, prepared)
	}
	return nil
}

// prepare has the driver prepare a claim to which a device is allocated, and give it back.
func prepare(ctx context.Context, client dra.DRAPluginClient, api *apiServer, cdi, device string, number int) (PreparedClaim, error) {
	out := PreparedClaim{Device: device}
	claim := &dra.Claim{Namespace: "default", Name: fmt.Sprintf("claim-%d", number), Uid: fmt.Sprintf("10000000-0000-4000-8000-%012d", number+1)}
	api.claim(claim.GetName(), map[string]any{
		"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
		"metadata": map[string]any{"name": claim.GetName(), "namespace": claim.GetNamespace(), "uid": claim.GetUid(), "resourceVersion": "1"},
		"spec":     map[string]any{"devices": map[string]any{"requests": []any{map[string]any{"name": "gpu", "exactly": map[string]any{"deviceClassName": draDriver}}}}},
		"status": map[string]any{"allocation": map[string]any{"devices": map[string]any{"results": []any{
			map[string]any{"request": "gpu", "driver": draDriver, "pool": "node", "device": device}}}}},
	})
	response, err := client.NodePrepareResources(ctx, &dra.NodePrepareResourcesRequest{Claims: []*dra.Claim{claim}})
	if err != nil {
		return out, fmt.Errorf("preparing a claim of %s: %w", device, err)
	}
	result := response.GetClaims()[claim.GetUid()]
	out.Refused = result.GetError()
	for _, d := range result.GetDevices() {
		out.CDIDevices = append(out.CDIDevices, d.GetCdiDeviceIds()...)
	}
	if out.CDI, err = specifications(cdi); err != nil {
		return out, err
	}
	back, err := client.NodeUnprepareResources(ctx, &dra.NodeUnprepareResourcesRequest{Claims: []*dra.Claim{claim}})
	if err != nil {
		return out, fmt.Errorf("giving back a claim of %s: %w", device, err)
	}
	out.Unprepared = back.GetClaims()[claim.GetUid()].GetError() == ""
	return out, nil
}

// specifications are the files of CDI in a folder.
func specifications(folder string) ([]any, error) {
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var out []any
	for _, entry := range files {
		file := filepath.Join(folder, entry.Name())
		text, err := os.ReadFile(file) //nolint:gosec // of our own folder
		if err != nil {
			return nil, err
		}
		var one any
		if err := yaml.Unmarshal(text, &one); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		out = append(out, one)
	}
	return out, nil
}

// appears waits for a socket.
func appears(ctx context.Context, socket string, program *runningProgram) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		if _, err := os.Stat(socket); err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-program.ended:
			return errors.New("the driver ended before it registered")
		case <-ctx.Done():
			return fmt.Errorf("waiting for the driver to register: %w", ctx.Err())
		}
	}
}
