package gpu

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// gpus are the machine's with the settings that must stay as they are.
func (r *Recorder) gpus(ctx context.Context) ([]GPU, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	text, err := exec.CommandContext(ctx, r.SMI, "--query-gpu=name,memory.total,driver_version,compute_cap,mig.mode.current,compute_mode,persistence_mode", "--format=csv,noheader,nounits").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("listing the GPUs: %w: %s", err, text)
	}
	reader := csv.NewReader(strings.NewReader(string(text)))
	reader.TrimLeadingSpace = true
	rows, err := reader.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("listing the GPUs: %w: %s", err, text)
	}
	out := make([]GPU, 0, len(rows))
	for _, row := range rows {
		if len(row) != 7 {
			return nil, fmt.Errorf("listing the GPUs: %q has not 7 columns", row)
		}
		memory, err := strconv.Atoi(row[1])
		if err != nil {
			return nil, fmt.Errorf("listing the GPUs: reading the memory of %q: %w", row, err)
		}
		out = append(out, GPU{Name: row[0], MemoryMiB: memory, Driver: row[2], ComputeCapability: row[3], MIGMode: row[4], ComputeMode: row[5], PersistenceMode: row[6]})
	}
	if len(out) == 0 {
		return nil, errors.New("listing the GPUs: there is none")
	}
	return out, nil
}

// uuid is what NVIDIA's driver and the plugin name devices by.
var uuid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// anonymous is a recording without what identifies the machine: UUIDs become numbers in the order in which they come,
// and its name becomes "node".
func anonymous[T any](r T) (T, error) {
	var out T
	text, err := json.Marshal(r)
	if err != nil {
		return out, err
	}
	numbers := map[string]string{}
	text = uuid.ReplaceAllFunc(text, func(id []byte) []byte {
		if numbers[string(id)] == "" {
			numbers[string(id)] = fmt.Sprintf("00000000-0000-4000-8000-%012d", len(numbers)+1)
		}
		return []byte(numbers[string(id)])
	})
	if name, err := os.Hostname(); err == nil && len(name) > 3 {
		text = []byte(strings.ReplaceAll(string(text), name, "node"))
	}
	return out, json.Unmarshal(text, &out)
}
