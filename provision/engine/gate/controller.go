package gate

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

const (
	// nameLabel and stockName are how Karpenter's chart labels its Deployment.
	nameLabel = "app.kubernetes.io/name"
	stockName = "karpenter"
)

// Controller is the container of a Deployment that runs Karpenter's controller, or nil.
// It is known by its image; where that comes from a mirror of another name, by the
// chart's label and the variables that every Karpenter is given.
func Controller(d *appsv1.Deployment) *corev1.Container {
	containers := d.Spec.Template.Spec.Containers
	for i := range containers {
		image, _, _ := strings.Cut(containers[i].Image, "@")
		repository, name, found := strings.CutLast(image, "/")
		if !found {
			repository, name = "", image
		}
		// Behind the last slash, a colon begins the tag and no registry's port.
		if name, _, _ = strings.Cut(name, ":"); name == "controller" && strings.HasSuffix(repository, "/karpenter") {
			return &containers[i]
		}
	}
	if d.Labels[nameLabel] != stockName {
		return nil
	}
	for i := range containers {
		if slices.ContainsFunc(containers[i].Env, func(e corev1.EnvVar) bool { return e.Name == "CLUSTER_NAME" || e.Name == "KARPENTER_SERVICE" }) {
			return &containers[i]
		}
	}
	return nil
}
