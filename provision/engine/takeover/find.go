// Package takeover reads a Karpenter that runs in a cluster already, and reports what
// would change for its nodes if the embedded one ran them from now on: whose version is
// newer, which settings differ, and which nodes would be replaced.
//
// It refuses to write, and to decide who leads at this moment: the engine's gate
// OtherKarpenter does. Start reading at Find, then Karpenter.Compare.
package takeover

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/engine/gate"
)

const (
	versionLabel = "app.kubernetes.io/version"
	chartLabel   = "helm.sh/chart"
	// caBundle is the variable whose text is part of every node's drift hash.
	caBundle = "CLUSTER_CA_BUNDLE"
)

// Lease is the name of the lease by which Karpenters elect a leader unless another is
// configured.
const Lease = "karpenter-leader-election"

// Karpenter is one that was installed in the cluster, by a chart or by hand.
type Karpenter struct {
	// Deployment is where its pods come from.
	Deployment types.NamespacedName
	// Replicas is how many pods the Deployment declares; none means that it was stopped.
	Replicas int32
	// ReplicasBefore is how many pods it had before a take-over scaled it to zero, by its
	// ReplicasAnnotation; none where it was not taken over from, or runs again.
	ReplicasBefore int32
	// Version is that of its image or its labels, such as "1.14.1"; empty where they hold
	// no version.
	Version string
	// CABundle is its CLUSTER_CA_BUNDLE, as it is written: another way to write
	// the same certificate is another drift hash. Empty means that it takes the
	// API server's.
	CABundle string
	// Election is the lease by which it elects a leader, if Undetectable is empty.
	Election types.NamespacedName
	options  options
}

// ReplicasAnnotation on a Deployment is how many replicas it had when it was
// scaled to zero for a take-over.
const ReplicasAnnotation = "poolwright.dev/replicas-before-take-over"

// Find returns the Karpenters of a cluster, sorted by namespace and name: the
// Deployments that are labelled as its chart does, or run its image.
func Find(ctx context.Context, c client.Reader) ([]Karpenter, error) {
	var list appsv1.DeploymentList
	if err := c.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("finding a Karpenter that runs already: %w", err)
	}
	var found []Karpenter
	for i := range list.Items {
		container := gate.Controller(&list.Items[i])
		if container == nil {
			continue
		}
		k, err := karpenterOf(ctx, c, &list.Items[i], container)
		if err != nil {
			return nil, err
		}
		found = append(found, k)
	}
	slices.SortFunc(found, func(a, b Karpenter) int {
		return strings.Compare(a.Deployment.String(), b.Deployment.String())
	})
	return found, nil
}

// karpenterOf reads a Karpenter's Deployment.
func karpenterOf(ctx context.Context, c client.Reader, d *appsv1.Deployment, container *corev1.Container) (Karpenter, error) {
	options, err := optionsOf(ctx, c, d.Namespace, container)
	if err != nil {
		return Karpenter{}, err
	}
	k := Karpenter{
		Deployment: client.ObjectKeyFromObject(d), Replicas: 1,
		Version: versionOf(d, container), CABundle: options.values[caBundle],
		Election: types.NamespacedName{Namespace: cmp.Or(options.values[electionNamespace], d.Namespace), Name: Lease},
		options:  options,
	}
	if d.Spec.Replicas != nil {
		k.Replicas = *d.Spec.Replicas
	}
	if before, err := strconv.ParseInt(d.Annotations[ReplicasAnnotation], 10, 32); err == nil && k.Replicas == 0 {
		k.ReplicasBefore = int32(before)
	}
	return k, nil
}

// withoutTag cuts the tag off an image: the part behind a colon that is not a
// registry's port.
func withoutTag(image string) string {
	if at := strings.LastIndexByte(image, ':'); at > strings.LastIndexByte(image, '/') {
		return image[:at]
	}
	return image
}

// versionOf reads the image's tag first, which is what runs.
func versionOf(d *appsv1.Deployment, c *corev1.Container) string {
	image, _, _ := strings.Cut(c.Image, "@")
	tag := strings.TrimPrefix(strings.TrimPrefix(image, withoutTag(image)), ":")
	for _, text := range []string{tag, d.Labels[versionLabel], strings.TrimPrefix(d.Labels[chartLabel], "karpenter-")} {
		if v, err := version.ParseSemantic(text); err == nil {
			return v.String()
		}
	}
	return ""
}
