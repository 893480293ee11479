package readiness_test

import (
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/provision/gpu/readiness"
	"github.com/poolwright/poolwright/reconciler/deviceplugin/recording"
)

func TestAConfigurationThatTheRealPluginRefusesIsDiagnosed(t *testing.T) {
	recorded, err := recording.Load()
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, run := range recorded.Runs {
		if run.ExitCode == nil {
			continue
		}
		refused++
		t.Run(run.Name, func(t *testing.T) {
			node, claim, pod, set := starting()
			b := newBench(t, node, claim, pod, set)
			crashed(strings.Join(run.Log, "\n"))(b)
			b.step()
			b.clock.Step(10 * time.Minute)
			b.step()
			if reason, message, _ := strings.Cut(b.book.last, ": "); reason != readiness.InvalidConfig || !strings.Contains(message, "error starting plugins") {
				t.Errorf("%s: %s", reason, message)
			}
		})
	}
	if refused == 0 {
		t.Error("no refusal was recorded")
	}
}
