package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/provision/catalog"
)

const (
	labelPrefix = "karpenter.k8s.aws/instance-"
	clockLabel  = "cpu-sustained-clock-speed-mhz"
)

// readDocs returns the labels and resources per type on the reference page, with
// the prefix of the provider's labels taken off; resources that would then collide
// with a label are left out.
func readDocs(path string) (map[string]map[string]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the reference page: %w", err)
	}
	defer file.Close()
	docs := map[string]map[string]string{}
	var current map[string]string
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		line := strings.TrimSpace(scanner.Text())
		if heading, ok := strings.CutPrefix(line, "### `"); ok {
			current = map[string]string{}
			docs[strings.TrimSuffix(heading, "`")] = current
			continue
		}
		// A row is |name|value|; headings and rules of tables have no label's form.
		cells := strings.Split(line, "|")
		if current != nil && len(cells) == 4 && cells[0] == "" && !strings.HasPrefix(cells[1], " ") && !strings.HasPrefix(cells[1], "-") {
			name := cells[1]
			if short, ok := strings.CutPrefix(name, labelPrefix); ok {
				name = short
			} else if name == "cpu" || name == "memory" {
				continue // What pods can have of it; the label of that short name is what the type has.
			}
			current[name] = cells[2]
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("reading the reference page: %w", err)
	}
	if len(docs) == 0 {
		return nil, fmt.Errorf("reading the reference page: %s describes no instance type", path)
	}
	return docs, nil
}

// compareDocs lists where the page and the type differ, as "label: docs x, API y".
func compareDocs(t catalog.InstanceType, labels map[string]string) []string {
	wants := map[string]string{
		"cpu":                             strconv.Itoa(t.VCPUs),
		"memory":                          strconv.Itoa(t.MemoryMiB),
		"cpu-manufacturer":                label(t.Processor.Manufacturer),
		clockLabel:                        strconv.Itoa(t.Processor.ClockMHz),
		"hypervisor":                      t.Hypervisor,
		"encryption-in-transit-supported": strconv.FormatBool(t.Network.EncryptionInTransit),
		"network-bandwidth":               positive(t.Network.BandwidthMbps),
		"pods":                            strconv.Itoa(t.MaxPods()),
		"vpc.amazonaws.com/efa":           positive(t.Network.EFAInterfaces),
		"gpu-name":                        label(t.GPU.Name),
		"gpu-manufacturer":                label(t.GPU.Manufacturer),
		"gpu-memory":                      positive(t.GPU.MemoryMiB),
		"accelerator-name":                label(t.Accelerator.Name),
		"accelerator-manufacturer":        label(t.Accelerator.Manufacturer),
		"accelerator-count":               positive(t.Accelerator.Count),
		"aws.amazon.com/neuroncore":       positive(t.Accelerator.Count * t.Accelerator.NeuronCores),
	}
	wants["local-nvme"], wants["ebs-bandwidth"] = "", ""
	if t.Storage.NVMe {
		wants["local-nvme"] = positive(t.Storage.LocalGB)
	}
	if t.Storage.EBSOptimized == "default" {
		wants["ebs-bandwidth"] = positive(t.Storage.EBSMbps)
	}
	if t.HasGPU() {
		wants["gpu-count"] = strconv.Itoa(t.GPU.Count)
	}
	var differences []string
	for _, name := range sortedKeys(wants) {
		if labels[name] != wants[name] {
			differences = append(differences, fmt.Sprintf("%s: docs %q, API %q", name, labels[name], wants[name]))
		}
	}
	return differences
}

func label(s string) string { return strings.ToLower(strings.ReplaceAll(s, " ", "-")) }

// positive writes 0 as the page does: not at all.
func positive(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
