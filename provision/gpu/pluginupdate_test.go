package gpu_test

import (
	"testing"
	"time"

	"github.com/poolwright/poolwright/provision/gpu"
)

func TestARolloutRecordIsParsedAsItWasWritten(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, m := range []gpu.PluginUpdate{{Hash: "r", Pod: "p", Time: noon}, {Hash: "r", Pod: "p", Time: noon, Stopped: true}} {
		if got := gpu.ParsePluginUpdate(m.String()); got != m {
			t.Errorf("%q read as %v", m, got)
		}
	}
	for text, want := range map[string]gpu.PluginUpdate{
		"r p 2026-11-20T12:00:00Z":         {Hash: "r", Pod: "p", Time: noon},
		"r p 2026-11-20T12:00:00Z stopped": {Hash: "r", Pod: "p", Time: noon, Stopped: true},
	} {
		if got := gpu.ParsePluginUpdate(text); got != want {
			t.Errorf("%q of an earlier release read as %v", text, got)
		}
	}
	for _, text := range []string{"", "{}", `{"hash":"r","pod":"p"}`, `{"hash":1}`, "null", "r p", "r p yesterday", "r p 2026-11-20T12:00:00Z gone", " p 2026-11-20T12:00:00Z", "r p 2026-11-20T12:00:00Z stopped x"} {
		if got := gpu.ParsePluginUpdate(text); got != (gpu.PluginUpdate{}) {
			t.Errorf("%q read as %v", text, got)
		}
	}
}
