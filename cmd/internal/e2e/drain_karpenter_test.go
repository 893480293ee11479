package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/iam"
	karpenterv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// endsEmptyNodesSoon shortens how long the real Karpenter keeps an empty node: TestDelaysAsWritten waits for the documents' delays.
func (p *past) endsEmptyNodesSoon() {
	p.Helper()
	var pools karpv1.NodePoolList
	if err := p.hand.List(p.Context(), &pools); err != nil {
		p.Fatal(err)
	}
	for i := range pools.Items {
		if pools.Items[i].Spec.Disruption.ConsolidateAfter.Duration == nil {
			continue // It keeps its nodes, and that stays.
		}
		if err := p.hand.Patch(p.Context(), &pools.Items[i], mergePatch(`{"spec":{"disruption":{"consolidateAfter":"1s"}}}`)); err != nil {
			p.Fatal(err)
		}
	}
}

// keepsAClassWithoutKarpenter: a class that is deleted while Karpenter does not run stays, until it runs again.
func (p *past) keepsAClassWithoutKarpenter(name string) {
	p.Helper()
	p.now = nil
	led := p.stockLeader()
	p.scaleStock(0)
	p.eventually("Karpenter has stopped", p.hasStopped)
	u := newShell(p.fixture, p.repo)
	u.block("kubectl delete ec2nodeclass "+name+" --timeout=3s", exitCode{1})
	class := &karpenterv1.EC2NodeClass{}
	if err := p.hand.Get(p.Context(), client.ObjectKey{Name: name}, class); err != nil || class.DeletionTimestamp == nil || !slices.Equal(class.Finalizers, []string{karpenterv1.TerminationFinalizer}) {
		p.Errorf("the class has %v, deleted %v, %v", class.Finalizers, class.DeletionTimestamp, err)
	}
	p.scaleStock(1)
	p.eventually("Karpenter leads again", func() error {
		if leads := p.stockLeader(); leads == "" || leads == led {
			return fmt.Errorf("its lease is held by %q", leads)
		}
		return nil
	})
}

// managedProfiles are the instance profiles that Karpenter has made for its classes.
func (p *past) managedProfiles() (names []string) {
	p.Helper()
	out, err := newAccount(p.Endpoint(), p.of.Region).iam.ListInstanceProfiles(p.Context(), &iam.ListInstanceProfilesInput{})
	if err != nil {
		p.Fatal(err)
	}
	for _, profile := range out.InstanceProfiles {
		if *profile.InstanceProfileName != p.profile {
			names = append(names, *profile.InstanceProfileName)
		}
	}
	return names
}

var scaledObjectKind = schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject"}

// hasScaledObjects creates those of the example, of a kind with any fields.
func (p *past) hasScaledObjects() {
	p.Helper()
	if _, err := os.Stat(filepath.Join(p.repo.dir, "scaling")); err != nil {
		return
	}
	p.kubectl(crdOf(scaledObjectKind, "scaledobjects", "Namespaced", anyFields), "create", "-f", "-")
	p.kubectl("", "wait", "--for=condition=Established", "crd/scaledobjects.keda.sh")
	p.kubectl("", "apply", "-f", "workloads/00-namespace.yaml", "-f", "scaling")
}

// scalesUp plays what KEDA does while jobs wait: what a ScaledObject names has a worker, unless it is paused.
func (p *past) scalesUp() {
	p.Helper()
	if len(p.scaled) == 0 {
		return
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(scaledObjectKind.GroupVersion().WithKind("ScaledObjectList"))
	if err := p.hand.List(p.Context(), list); err != nil || len(list.Items) == 0 {
		p.Fatalf("%d ScaledObjects, %v", len(list.Items), err)
	}
	for _, object := range list.Items {
		if name, _, _ := unstructured.NestedString(object.Object, "spec", "scaleTargetRef", "name"); object.GetAnnotations()["autoscaling.keda.sh/paused"] != "true" {
			p.kubectl("", "-n", object.GetNamespace(), "scale", "deployment", name, "--replicas=1")
		}
	}
}
