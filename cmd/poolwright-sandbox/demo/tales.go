package demo

// tale is what is told of one set-up between its push and zero.
type tale struct {
	// holds says what the first commit brings.
	holds string
	// roles are the workloads and the pools that serve them.
	roles    []*role
	chapters func(*Story, []*role) []chapter
}

// tales are all tales by the name of their set-up, made anew for each telling.
func tales() map[string]tale {
	return map[string]tale{
		"altanova": {
			holds:    "three pools, two classes, the device plugin",
			roles:    []*role{newRole("gpu-inference", "1 GPU", "tinyllama.yaml")},
			chapters: (*Story).altanova,
		},
		"timeslicing": {
			holds:    "two pools, two classes, GPUs shared by ten",
			roles:    []*role{newRole("gpu", "a tenth of a GPU, as 39 others do", "inference.yaml")},
			chapters: (*Story).timeslicing,
		},
		"piksel": {
			holds: "two pools of one class, the device plugin",
			roles: []*role{
				newRole("gpu", "1 GPU", "gpu.yaml"),
				newRole("default", "3 CPUs", "general.yaml"),
			},
			chapters: (*Story).piksel,
		},
		"pingvas": {
			holds: "two pools and a class in v1beta1, the device plugin",
			roles: []*role{
				newRole("gpu-spot", "1 GPU", "models.yaml", "ai-worker.yaml"),
				newRole("gpu-premium", "1 GPU on demand", "models.yaml", "ai-worker-premium.yaml"),
			},
			chapters: (*Story).pingvas,
		},
		"baseten": {
			holds:    "three provisioners in v1alpha5, the device plugin",
			roles:    []*role{newRole("gpu", "1 GPU of the provisioner gpu", "gpu.yaml")},
			chapters: (*Story).baseten,
		},
	}
}
