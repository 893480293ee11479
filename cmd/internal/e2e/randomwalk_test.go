package e2e

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/randomwalk"
)

// The files are what poolwright-sandbox prove random --shrink has written.
func TestASequenceThatOnceViolatedARuleViolatesNone(t *testing.T) {
	files, err := filepath.Glob("../../poolwright-sandbox/prove/randomwalk/testdata/cases/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("there is no case", err)
	}
	for i, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			t.Parallel()
			kept, err := randomwalk.ReadCase(file)
			if err != nil {
				t.Fatal(err)
			}
			options := randomwalk.Options{
				Product: binary, Timeout: 3 * time.Minute, Progress: t.Output(), Seed: uint64(i), Replay: kept.Operations,
			}
			report, err := randomwalk.Run(t.Context(), sharedEnv, options)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range report.Violations {
				t.Errorf("%s: %s", v.Rule, v.Detail)
			}
			if len(report.Samples) != report.Checks {
				t.Errorf("%d checks, %d samples", report.Checks, len(report.Samples))
			}
		})
	}
}
