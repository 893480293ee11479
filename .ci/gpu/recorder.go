package gpu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// PluginFolder is where the plugin's sockets are; it has no option for another.
const PluginFolder = "/var/lib/kubelet/device-plugins"

// mpsControl is the program by which the plugin queries the daemon of MPS.
const mpsControl = "nvidia-cuda-mps-control"

// Recorder records NVIDIA's programs. Every field but Discovery and Environment is required.
type Recorder struct {
	// Plugin, Discovery and SMI are the programs nvidia-device-plugin, gpu-feature-discovery and nvidia-smi. Without
	// Discovery no labels are recorded.
	Plugin, Discovery, SMI string
	// Version is that of Plugin's module.
	Version string
	// Folder is where a kubelet and its plugins have their sockets.
	Folder string
	// Environment is what programs are given beside the paths of programs and libraries.
	Environment []string
	// Timeout is how long a plugin may take to register, or to end.
	Timeout time.Duration
	// Date is written into the recording.
	Date time.Time
}

// Record runs the plugin with each case. It fails where there is a kubelet already, where a GPU cannot be listed, and
// where a GPU has other settings afterwards.
func (r *Recorder) Record(ctx context.Context, cases []Case) (Recording, error) {
	out := Recording{Date: r.Date.UTC().Format(time.DateOnly), Plugin: r.Version}
	var err error
	if out.GPUs, err = r.gpus(ctx); err != nil {
		return out, err
	}
	if err := os.MkdirAll(r.Folder, 0o755); err != nil {
		return out, fmt.Errorf("making the folder of plugins: %w", err)
	}
	for _, c := range cases {
		run, err := r.run(ctx, c)
		if err != nil {
			return out, fmt.Errorf("recording the case %s: %w", c.Name, err)
		}
		out.Runs = append(out.Runs, run)
	}
	after, err := r.gpus(ctx)
	if err != nil {
		return out, err
	}
	if !slices.Equal(out.GPUs, after) {
		return out, fmt.Errorf("the GPUs have other settings than before: %v, before %v", after, out.GPUs)
	}
	return anonymous(out)
}

// run records one case.
func (r *Recorder) run(ctx context.Context, c Case) (Run, error) {
	out := Run{Case: c}
	folder, err := os.MkdirTemp("", "gpu-case-")
	if err != nil {
		return out, err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // a temporary folder
	config := filepath.Join(folder, "config.yaml")
	if err := os.WriteFile(config, []byte(c.Config), 0o600); err != nil {
		return out, err
	}
	failed, err := standIn(folder, c.Daemon != "")
	if err != nil {
		return out, err
	}
	path := folder + ":" + os.Getenv("PATH")
	kubelet, err := listen(r.Folder)
	if err != nil {
		return out, err
	}
	defer func() { kubelet.stop() }()
	args := slices.Clone(c.Command[1:])
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], c.ConfigPath, config)
	}
	plugin, err := start(r.environment(path), r.Plugin, args...)
	if err != nil {
		return out, err
	}
	defer plugin.stop()
	if out.Resources, err = r.serve(ctx, kubelet, plugin, failed); err != nil {
		return out, errors.Join(err, errors.New(strings.Join(plugin.log.lines(), "\n")))
	}
	if len(out.Resources) > 0 {
		kubelet.stop()
		if kubelet, err = listen(r.Folder); err != nil {
			return out, err
		}
		select {
		case again := <-kubelet.registrations:
			out.Resources[0].RegistersAgain = again.GetResourceName() == out.Resources[0].Name
		case <-time.After(r.Timeout):
		}
	}
	select {
	case <-plugin.ended:
		out.ExitCode = &plugin.code
	default:
	}
	plugin.stop()
	if len(out.Resources) == 0 {
		out.Log = plugin.log.lines()
	}
	if r.Discovery != "" {
		out.Labels, err = r.labels(path, config)
	}
	return out, err
}

// standIn writes a program in the place of mpsControl: one that responds as that of a healthy daemon does, or one that runs
// the machine's own, which finds no daemon, and then makes the file that is returned.
func standIn(folder string, healthy bool) (failed string, err error) {
	failed = filepath.Join(folder, "failed")
	script := "cat > /dev/null\necho 100.0\n"
	if !healthy {
		script = "PATH=${PATH#*:}\n" + mpsControl + "\ncode=$?\n[ $code = 0 ] || touch " + failed + "\nexit $code\n"
	}
	return failed, os.WriteFile(filepath.Join(folder, mpsControl), []byte("#!/bin/sh\n"+script), 0o700) //nolint:gosec // it is run
}

// serve waits until the plugin has registered, has ended or has found no daemon of MPS, by a file, and queries it.
func (r *Recorder) serve(ctx context.Context, k *kubeletServer, plugin *runningProgram, failed string) ([]Resource, error) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	timeout := time.NewTimer(r.Timeout)
	defer timeout.Stop()
	for {
		select {
		case registration := <-k.registrations:
			ctx, cancel := context.WithTimeout(ctx, r.Timeout)
			defer cancel()
			resource, err := k.query(ctx, registration)
			if err != nil {
				return nil, err
			}
			out := []Resource{resource}
			for len(k.registrations) > 0 {
				if resource, err = k.query(ctx, <-k.registrations); err != nil {
					return nil, err
				}
				out = append(out, resource)
			}
			return out, nil
		case <-plugin.ended:
			return nil, nil
		case <-ticker.C:
			// It has logged that when it comes to its signals, by which it is ended.
			if _, err := os.Stat(failed); err == nil {
				return nil, nil
			}
		case <-timeout.C:
			return nil, fmt.Errorf("the plugin neither registered nor ended within %s", r.Timeout)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// labels are what feature discovery would give the node.
func (r *Recorder) labels(path, config string) (map[string]string, error) {
	file := filepath.Join(filepath.Dir(config), "labels")
	discovery, err := start(r.environment(path), r.Discovery, "--oneshot", "--no-timestamp", "--use-node-feature-api=false", "--output-file="+file, "--config-file="+config)
	if err != nil {
		return nil, err
	}
	defer discovery.stop()
	select {
	case <-discovery.ended:
	case <-time.After(r.Timeout):
		return nil, fmt.Errorf("feature discovery did not end within %s: %s", r.Timeout, strings.Join(discovery.log.lines(), "\n"))
	}
	text, err := os.ReadFile(file) //nolint:gosec // our own
	if errors.Is(err, os.ErrNotExist) {
		return map[string]string{"error": strings.Join(discovery.log.lines(), "; ")}, nil
	}
	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			out[name] = value
		}
	}
	return out, err
}

// ReadCases reads the cases of a file.
func ReadCases(file string) ([]Case, error) {
	text, err := os.ReadFile(file) //nolint:gosec // the caller's
	if err != nil {
		return nil, fmt.Errorf("reading the cases: %w", err)
	}
	var out []Case
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("reading the cases of %s: %w", file, err)
	}
	for _, c := range out {
		if c.Name == "" || len(c.Command) == 0 || c.ConfigPath == "" {
			return nil, fmt.Errorf("reading the cases of %s: %+v has no name, command or path of its configuration", file, c)
		}
	}
	return out, nil
}
