package check

import (
	"context"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/provision/engine/takeover"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/readiness"
)

// karpenter reports the Karpenters that run already, and whether their nodes can be taken over.
func (c *checker) karpenter(ctx context.Context) []Result {
	found, err := takeover.Find(ctx, c.Kube)
	if err != nil {
		return c.unreadable(err)
	}
	if len(found) == 0 {
		return one(ok("no other Karpenter is installed"))
	}
	var out []Result
	for _, k := range found {
		results := c.existing(ctx, k)
		for _, r := range results {
			r.Object = "Deployment " + k.Deployment.String()
			out = append(out, r)
		}
	}
	return out
}

// existing reports one Karpenter.
func (c *checker) existing(ctx context.Context, k takeover.Karpenter) []Result {
	title := strings.TrimSpace("Karpenter " + k.Version)
	if k.Replicas == 0 {
		return one(ok("%s is scaled to zero", title))
	}
	if why := k.Undetectable(); why != "" {
		return one(failed("take that setting out and wait until it holds the lease "+takeover.Lease+", scale it to zero, or set spec.engine.mode to External",
			"%s may be detected too late, so that both would run: %s", title, why))
	}
	compared, err := k.CompareVersion(ctx, c.Kube)
	if err != nil {
		return c.unreadable(err)
	}
	if len(compared.Blocking) > 0 {
		first := compared.Blocking[0]
		return one(failed(first.Remedy+"; or set spec.engine.mode to External", "%s runs, and its nodes cannot be taken over: %s", title, first.Message))
	}
	message := title + " runs: the engine waits while it leads"
	if len(compared.Differences) > 0 {
		message += "; " + compared.Differences[0].Message
	}
	return one(warning("take its nodes over (docs/howto/take-over-karpenter.md), or set spec.engine.mode to External", "%s", message))
}

// flux and argoCD are no failures: Poolwright leaves alone what they manage.
func (c *checker) flux(context.Context) []Result {
	return c.manager("Flux", schema.GroupKind{Group: "kustomize.toolkit.fluxcd.io", Kind: "Kustomization"}, schema.GroupKind{Group: "helm.toolkit.fluxcd.io", Kind: "HelmRelease"})
}

func (c *checker) argoCD(context.Context) []Result {
	return c.manager("Argo CD", schema.GroupKind{Group: "argoproj.io", Kind: "Application"})
}

// manager reports a tool that manages objects as well, found by its kinds.
func (c *checker) manager(name string, kinds ...schema.GroupKind) []Result {
	for _, kind := range kinds {
		_, err := c.Kube.RESTMapper().RESTMapping(kind)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return c.unreadable(err)
		}
		r := ok("%s is installed; Poolwright does not write the objects that it manages", name)
		r.Remedy = "let either manage an object, never both: docs/howto/beside-flux-or-argocd.md"
		return one(r)
	}
	return one(ok("%s is not installed", name))
}

func (c *checker) clusterAutoscaler(ctx context.Context) []Result {
	var list appsv1.DeploymentList
	if err := c.Kube.List(ctx, &list); err != nil {
		return c.unreadable(err)
	}
	var out []Result
	for i := range list.Items {
		d := &list.Items[i]
		if d.Spec.Replicas != nil && *d.Spec.Replicas == 0 || !runs(d, "cluster-autoscaler") {
			continue
		}
		r := warning("leave to it only node groups on which no pod of a NodePool fits, or scale it to zero",
			"the Cluster Autoscaler runs: for a pending pod that both could serve, both may launch a node")
		r.Object = "Deployment " + d.Namespace + "/" + d.Name
		out = append(out, r)
	}
	if len(out) == 0 {
		return one(ok("no Cluster Autoscaler runs"))
	}
	return out
}

// runs reports whether a container of the Deployment has an image of that name.
func runs(d *appsv1.Deployment, name string) bool {
	for _, container := range d.Spec.Template.Spec.Containers {
		image, _, _ := strings.Cut(container.Image, "@")
		base, _, _ := strings.Cut(path.Base(image), ":")
		if base == name {
			return true
		}
	}
	return false
}

// nvidiaPlugins reports what advertises GPUs beside a DevicePlugin of ours.
func (c *checker) nvidiaPlugins(ctx context.Context) []Result {
	const remedy = "keep it away from the nodes of pools that a DevicePlugin serves, by its node selector or by not installing it; where no DevicePlugin is declared, nothing is to be done"
	var list appsv1.DaemonSetList
	if err := c.Kube.List(ctx, &list); err != nil {
		return c.unreadable(err)
	}
	var out []Result
	_, err := c.Kube.RESTMapper().RESTMapping(schema.GroupKind{Group: "nvidia.com", Kind: "ClusterPolicy"})
	switch {
	case err == nil:
		out = append(out, warning(remedy, "NVIDIA's GPU Operator is installed, which brings a device plugin of its own"))
	case !meta.IsNoMatchError(err):
		return c.unreadable(err)
	}
	for i := range list.Items {
		set := &list.Items[i]
		image := readiness.PluginImage(set)
		if image == "" || set.Labels[gpu.ConfigLabel] != "" {
			continue
		}
		r := warning(remedy, "NVIDIA's device plugin runs, with the image %s, and is not made by a DevicePlugin: two on one node take each other's place", image)
		r.Object = "DaemonSet " + set.Namespace + "/" + set.Name
		out = append(out, r)
	}
	if len(out) == 0 {
		return one(ok("no other device plugin of NVIDIA's runs"))
	}
	slices.SortFunc(out, func(a, b Result) int { return strings.Compare(a.Object, b.Object) })
	return out
}
