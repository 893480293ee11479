// Package dynamicresources checks that the API server lets Karpenter watch what its feature gate DRANVIDIAGPU makes it
// watch: ResourceClaims, ResourceSlices and DeviceClasses.
//
// A manager ends where the cache of one kind cannot be filled, and with it everything that the engine does: the gate is
// left off instead. It refuses to decide which gates are on. Start reading at Check.
package dynamicresources

import (
	"context"
	"errors"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Why Karpenter cannot watch them.
var (
	// ErrUnserved is where the API server does not serve a kind in resource.k8s.io/v1, as before Kubernetes 1.34.
	ErrUnserved = errors.New("the API server does not serve it: upgrade the cluster to Kubernetes 1.34 or later")
	// ErrForbidden is where the engine may not list or watch a kind.
	ErrForbidden = errors.New("the controller's role does not allow it: apply the roles of this release")
)

// Check is nil where all three kinds are served and the client may list and watch them. Other errors than ErrUnserved and
// ErrForbidden mean that this could not be found out.
func Check(ctx context.Context, config *rest.Config) error {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("preparing the client for the API server: %w", err)
	}
	group := resourcev1.SchemeGroupVersion
	var served metav1.APIResourceList
	err = kube.Discovery().RESTClient().Get().AbsPath("/apis", group.Group, group.Version).Do(ctx).Into(&served)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s: %w", group, ErrUnserved)
	}
	if err != nil {
		return fmt.Errorf("reading the kinds of %s: %w", group, err)
	}
	for _, resource := range []string{"deviceclasses", "resourceclaims", "resourceslices"} {
		if !slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == resource }) {
			return fmt.Errorf("%s of %s: %w", resource, group, ErrUnserved)
		}
		for _, verb := range []string{"list", "watch"} {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Group: group.Group, Version: group.Version, Resource: resource, Verb: verb},
			}}
			reviewed, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("reviewing the permission to %s %s: %w", verb, resource, err)
			}
			if !reviewed.Status.Allowed {
				return fmt.Errorf("%s %s of %s: %w", verb, resource, group, ErrForbidden)
			}
		}
	}
	return nil
}
