package kwokbridge

import (
	_ "embed"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/apis/v1alpha1"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"
	"sigs.k8s.io/yaml"
)

//go:embed stages.yaml
var stagesYAML string

// loadStages returns the stages of a kind. Delays given by name replace those of
// the file.
func loadStages(kind string, delays map[string]time.Duration) (lifecycle.Lifecycle, error) {
	var found []*internalversion.Stage
	for i, text := range strings.Split(stagesYAML, "\n---\n") {
		var read v1alpha1.Stage
		if err := yaml.UnmarshalStrict([]byte(text), &read); err != nil {
			return nil, fmt.Errorf("reading stage %d: %w", i+1, err)
		}
		if read.Spec.ResourceRef.Kind != kind {
			continue
		}
		stage, err := internalversion.ConvertToInternalStage(&read)
		if err != nil {
			return nil, fmt.Errorf("reading stage %q: %w", read.Name, err)
		}
		if delay, ok := delays[read.Name]; ok {
			ms := delay.Milliseconds()
			stage.Spec.Delay = &internalversion.StageDelay{DurationMilliseconds: &ms}
		}
		found = append(found, stage)
	}
	return lifecycle.NewLifecycle(found)
}
