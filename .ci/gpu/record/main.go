// Command record records NVIDIA's device plugin on a machine with a GPU, and prints the recording as JSON. It is what
// make gpu-recording runs.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/poolwright/poolwright/.ci/gpu"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		stop()
		os.Exit(1)
	}
}

// run is main with its arguments.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("record", flag.ContinueOnError)
	cases := flags.String("cases", "cases.json", "file of the cases")
	programs := flags.String("programs", ".", "folder of nvidia-device-plugin and gpu-feature-discovery")
	version := flags.String("version", "", "version of the plugin's module")
	driver := flags.Bool("dra", false, "record NVIDIA's DRA driver, gpu-kubelet-plugin, instead")
	root := flags.String("driver-root", "/", "folder in which NVIDIA's driver is installed, for -dra")
	if err := flags.Parse(args); err != nil {
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	recorder := gpu.Recorder{
		Plugin: filepath.Join(*programs, "nvidia-device-plugin"), Discovery: filepath.Join(*programs, "gpu-feature-discovery"), SMI: "nvidia-smi",
		Version: *version, Folder: gpu.PluginFolder, Timeout: 20 * time.Second, Date: time.Now(),
	}
	if *driver {
		recording, err := recorder.RecordDRA(ctx, filepath.Join(*programs, "gpu-kubelet-plugin"), *root)
		if err != nil {
			return err
		}
		return encoder.Encode(recording)
	}
	list, err := gpu.ReadCases(*cases)
	if err != nil {
		return err
	}
	recording, err := recorder.Record(ctx, list)
	if err != nil {
		return err
	}
	return encoder.Encode(recording)
}
