package check

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/crds"
	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/cmd/internal/leaderelection"
	"github.com/poolwright/poolwright/config/crd"
	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// crds checks that the cluster has our kinds, as this program has them, and Karpenter's.
func (c *checker) crds(ctx context.Context) []Result {
	known, err := crds.Known()
	if err != nil {
		return one(failed("", "%v", err))
	}
	var out []Result
	for _, want := range known {
		var live apiextensionsv1.CustomResourceDefinition
		err := c.Kube.Get(ctx, client.ObjectKeyFromObject(want), &live)
		var r Result
		switch {
		case apierrors.IsNotFound(err):
			r = failed("start the controller, which installs it; where it has no permission to, install the chart poolwright-crds", "it is not installed")
		case err != nil:
			return c.unreadable(err)
		default:
			r = compareCRD(want, &live)
		}
		if r.Status != OK {
			r.Object = "CRD " + want.Name
			out = append(out, r)
		}
	}
	if len(out) == 0 {
		return one(ok("all %d CRDs are installed; ours have the serial %d", len(known), crd.Serial))
	}
	return out
}

// compareCRD compares a definition with the one that this program has.
func compareCRD(want, live *apiextensionsv1.CustomResourceDefinition) Result {
	if !served(live) {
		return failed("for the reason run: kubectl describe crd "+want.Name, "the API server does not serve it")
	}
	if want.Spec.Group != v1alpha1.GroupVersion.Group {
		return ok("it is served")
	}
	written := live.Annotations[crd.SerialAnnotation]
	serial, err := strconv.Atoi(written)
	switch {
	case err != nil:
		return warning("start the controller, which writes it", "it has no serial, so that it is not known of which release it is")
	case serial < crd.Serial:
		return warning("update the controller, or the chart poolwright-crds, to this program's version", "it is of an older release: its serial is %d, this program's %d", serial, crd.Serial)
	case serial > crd.Serial:
		return warning("update this program to the controller's version", "it is of a newer release: its serial is %d, this program's %d", serial, crd.Serial)
	}
	return ok("it has the serial %d", serial)
}

func served(live *apiextensionsv1.CustomResourceDefinition) bool {
	for _, condition := range live.Status.Conditions {
		if condition.Type == apiextensionsv1.Established {
			return condition.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

// controller checks that the replicas are available.
func (c *checker) controller(ctx context.Context) []Result {
	var d appsv1.Deployment
	err := c.Kube.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: installation.Deployment}, &d)
	if apierrors.IsNotFound(err) {
		return one(failed("install it (docs/howto/bootstrap.md), or choose its namespace with -n", "there is no Deployment %s in namespace %s", installation.Deployment, c.Namespace))
	}
	if err != nil {
		return c.unreadable(err)
	}
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	message := fmt.Sprintf("%d of %s are available", d.Status.AvailableReplicas, plural.Count(int(want), "replica"))
	if want == 0 {
		return one(failed("scale Deployment "+installation.Deployment+" to 2 replicas", "the Deployment is scaled to zero"))
	}
	if d.Status.AvailableReplicas >= want && d.Status.UpdatedReplicas >= want && d.Status.ObservedGeneration >= d.Generation {
		return one(ok("%s", message))
	}
	waits, err := installation.PodErrors(ctx, c.Kube, c.Namespace)
	if err != nil {
		return c.unreadable(err)
	}
	if len(waits) > 0 {
		message += ": " + strings.Join(waits, "; ")
	}
	remedy := "for details run: kubectl -n " + c.Namespace + " describe pods"
	if d.Status.AvailableReplicas == 0 {
		return one(failed(remedy, "%s", message))
	}
	return one(warning(remedy, "%s", message))
}

// controllerVersion compares the image's tag with this program's version.
func (c *checker) controllerVersion(ctx context.Context) []Result {
	live, err := installation.ReadLive(ctx, c.Kube, c.Namespace)
	if err != nil {
		return c.unreadable(err)
	}
	if live.Image == "" {
		return one(skipped("there is no controller", ""))
	}
	image, _, _ := strings.Cut(live.Image, "@")
	tag := image[strings.LastIndexByte(image, ':')+1:]
	theirs, err := version.ParseSemantic(tag)
	ours, unknown := version.ParseSemantic(c.Version)
	switch {
	case err != nil || unknown != nil:
		return one(ok("the controller's image is %s, this program is %s", live.Image, c.Version))
	case theirs.String() != ours.String():
		return one(warning("use the same version of both", "the controller is %s, this program %s", theirs, ours))
	}
	return one(ok("the controller is %s, as this program", theirs))
}

// maxRenewalAge is how old a renewal may be, by a clock that is not the holder's, before the lease
// is read again.
const maxRenewalAge = 2 * leaderelection.LeaseDuration

// leader checks that a replica leads and renews its lease.
func (c *checker) leader(ctx context.Context) []Result {
	const remedy = "read the logs of the controller; a standby takes over within a minute"
	lease, err := installation.FindLease(ctx, c.Kube, c.Namespace)
	switch {
	case err != nil:
		return c.unreadable(err)
	case !lease.Exists:
		return one(failed(remedy, "no controller has led: there is no lease %s", leaderelection.LeaseName))
	case lease.Holder == "":
		return one(failed(remedy, "nobody leads: the lease %s was given up", leaderelection.LeaseName))
	}
	engine := "without the engine"
	if lease.Engine {
		engine = "with the engine"
	}
	age := c.Now().Sub(lease.Renewed)
	if age.Abs() <= maxRenewalAge {
		return one(ok("%s leads, %s", lease.Holder, engine))
	}
	// Its clock may differ from this one: a renewal that moves is a leader.
	select {
	case <-ctx.Done():
		return c.unreadable(ctx.Err())
	case <-time.After(c.LeaseRecheck):
	}
	again, err := installation.FindLease(ctx, c.Kube, c.Namespace)
	if err != nil {
		return c.unreadable(err)
	}
	if !again.Renewed.Equal(lease.Renewed) {
		return one(warning("correct the clock here or on its node", "%s leads, %s, and its clock differs from this one by about %s", again.Holder, engine, age.Round(time.Second)))
	}
	return one(failed(remedy, "nobody leads: %s has not renewed the lease since %s", lease.Holder, lease.Renewed.UTC().Format(time.RFC3339)))
}
