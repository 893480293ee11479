package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/poolwright/poolwright/provision/sandbox"
)

// scenarios are all scenarios by the name of their set-up, made anew for each run.
func scenarios() map[string]scenario {
	return map[string]scenario{
		"altanova": {
			contents:  "three pools, two classes, the device plugin",
			workloads: []*workload{newWorkload("gpu-inference", "1 GPU", "tinyllama.yaml")},
			steps:     (*Run).altanova,
			figures: map[string]figure{
				"pendingToFleetSeconds": {text: "5 s"}, "fleetToRegisteredSeconds": {text: "60 s", simulated: true},
				"registeredToBoundSeconds": {text: "10 s + 5 s", simulated: true}, "boundToRunningSeconds": {text: "30 s", simulated: true}, "pendingToRunningSeconds": {text: "90 s", simulated: true},
				"deletedToTerminatedSeconds": {text: "5 min, and 10 s by the pull request"},
			},
		},
		"timeslicing": {
			contents:  "two pools, two classes, GPUs shared by ten",
			workloads: []*workload{newWorkload("gpu", "a tenth of a GPU, as 39 others do", "inference.yaml")},
			steps:     (*Run).timeslicing,
			figures:   map[string]figure{"deletedToTerminatedSeconds": {text: "1 min, and 10 s by the commit"}},
		},
		"piksel": {
			contents: "two pools of one class, the device plugin",
			workloads: []*workload{
				newWorkload("gpu", "1 GPU", "gpu.yaml"),
				newWorkload("default", "3 CPUs", "general.yaml"),
			},
			steps:   (*Run).piksel,
			figures: map[string]figure{"deletedToTerminatedSeconds": {text: "30 s"}, "keptSeconds": {text: "Never"}},
		},
		"pingvas": {
			contents: "two pools and a class in v1beta1, the device plugin",
			workloads: []*workload{
				newWorkload("gpu-spot", "1 GPU", "models.yaml", "ai-worker.yaml"),
				newWorkload("gpu-premium", "1 GPU on demand", "models.yaml", "ai-worker-premium.yaml"),
			},
			steps: (*Run).pingvas,
			figures: map[string]figure{
				"pendingToRunningSeconds": {text: "30–60 s", simulated: true}, "interruptedToDrainedSeconds": {text: "at most 2 min"},
				"deletedToTerminatedSeconds": {text: "1 min of gpu-premium, and 10 s by the commit"},
			},
		},
		"baseten": {
			contents:  "three provisioners in v1alpha5, the device plugin",
			workloads: []*workload{newWorkload("gpu", "1 GPU of the provisioner gpu", "gpu.yaml")},
			steps:     (*Run).baseten,
		},
	}
}

// New prepares a run. It fails where the set-up has no scenario, or
// its workloads cannot be read.
func New(environment *sandbox.Environment, options Options) (*Run, error) {
	t, known := scenarios()[options.Setup.Name]
	if !known {
		return nil, fmt.Errorf("there is no scenario of set-up %s", options.Setup.Name)
	}
	s := &Run{Options: options, environment: environment, scenario: t, marks: newTimeline()}
	for _, r := range t.workloads {
		if err := r.load(options.Folder); err != nil {
			return nil, err
		}
		s.watched.add(r)
	}
	var err error
	if s.kube, err = kubernetes.NewForConfig(environment.REST()); err != nil {
		return nil, fmt.Errorf("connecting to the sandbox: %w", err)
	}
	if s.dyn, err = dynamic.NewForConfig(environment.REST()); err != nil {
		return nil, fmt.Errorf("connecting to the sandbox: %w", err)
	}
	return s, nil
}

// Execute runs all steps and ends with the summary. Its error is which event
// did not come, with the end of the controller's log.
func (s *Run) Execute(ctx context.Context) error {
	s.marks.mark(sandboxReady, s.Setup.Cluster, "API server, scheduler, controllers, AWS, Gitea: all on loopback", time.Now())
	if err := s.prepare(ctx); err != nil {
		return err
	}
	for _, c := range slices.Concat(s.opening(ctx), s.scenario.steps(s, s.scenario.workloads), s.closing()) {
		if err := s.step(ctx, c); err != nil {
			return err
		}
	}
	s.Printer.Print(s.summary(ctx))
	return nil
}
