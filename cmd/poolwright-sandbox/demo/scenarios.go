package demo

// scenario is what happens in one set-up between its push and zero.
type scenario struct {
	// contents is what the first commit brings.
	contents string
	// workloads are the workloads and the pools that serve them.
	workloads []*workload
	steps     func(*Run, []*workload) []scenarioStep
}

// scenarios are all scenarios by the name of their set-up, made anew for each run.
func scenarios() map[string]scenario {
	return map[string]scenario{
		"altanova": {
			contents:  "three pools, two classes, the device plugin",
			workloads: []*workload{newWorkload("gpu-inference", "1 GPU", "tinyllama.yaml")},
			steps:     (*Run).altanova,
		},
		"timeslicing": {
			contents:  "two pools, two classes, GPUs shared by ten",
			workloads: []*workload{newWorkload("gpu", "a tenth of a GPU, as 39 others do", "inference.yaml")},
			steps:     (*Run).timeslicing,
		},
		"piksel": {
			contents: "two pools of one class, the device plugin",
			workloads: []*workload{
				newWorkload("gpu", "1 GPU", "gpu.yaml"),
				newWorkload("default", "3 CPUs", "general.yaml"),
			},
			steps: (*Run).piksel,
		},
		"pingvas": {
			contents: "two pools and a class in v1beta1, the device plugin",
			workloads: []*workload{
				newWorkload("gpu-spot", "1 GPU", "models.yaml", "ai-worker.yaml"),
				newWorkload("gpu-premium", "1 GPU on demand", "models.yaml", "ai-worker-premium.yaml"),
			},
			steps: (*Run).pingvas,
		},
		"baseten": {
			contents:  "three provisioners in v1alpha5, the device plugin",
			workloads: []*workload{newWorkload("gpu", "1 GPU of the provisioner gpu", "gpu.yaml")},
			steps:     (*Run).baseten,
		},
	}
}
