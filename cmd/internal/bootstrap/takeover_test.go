package bootstrap

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
	"github.com/poolwright/poolwright/reconciler/state"
)

// karpenters are Deployments of those names, told the same as eks declares.
func karpenters(names ...string) (out []*appsv1.Deployment) {
	for _, name := range names {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{
			Name: "controller", Image: "public.ecr.aws/karpenter/controller:" + engine.KarpenterVersion,
			Env: []corev1.EnvVar{{Name: "CLUSTER_NAME", Value: reconcilertest.Cluster(nil).Spec.Name}, {Name: installation.CABundleVariable, Value: "Y2E=\n"}},
		}}
		out = append(out, d)
	}
	return out
}

func TestAKarpenterIsTakenOverFromOnlyWhereThatEndsWell(t *testing.T) {
	one := func(edit func(*appsv1.Deployment)) []*appsv1.Deployment {
		all := karpenters("karpenter")
		edit(all[0])
		return all
	}
	for name, c := range map[string]struct {
		there   []*appsv1.Deployment
		mode    v1alpha1.EngineMode
		not     bool   // --take-over is not asked for
		takes   string // the Deployment
		refuses string
		message []string
		bundle  string
		warns   string
	}{
		"nothing runs": {warns: "nothing to take over"},
		"one runs": {there: karpenters("karpenter"), takes: "kube-system/karpenter", bundle: "Y2E=\n",
			message: []string{"Karpenter " + engine.KarpenterVersion + " runs here already"}},
		"no takeover is requested": {there: karpenters("karpenter"), not: true, bundle: "Y2E=\n",
			message: []string{"with --take-over", "kubectl -n kube-system scale deployment karpenter --replicas=0"}},
		"two run": {there: karpenters("a", "b"), refuses: "2 Karpenters run here", bundle: "Y2E=\n"},
		"its queue would be read by nobody": {refuses: "1 thing is in the way", bundle: "Y2E=\n", message: []string{"spec.engine.interruptionQueue: q"},
			there: one(func(d *appsv1.Deployment) {
				env := &d.Spec.Template.Spec.Containers[0].Env
				*env = append(*env, corev1.EnvVar{Name: "INTERRUPTION_QUEUE", Value: "q"})
			})},
		"Flux would scale it up again": {refuses: "1 thing is in the way", bundle: "Y2E=\n", message: []string{"Flux HelmRelease flux-system/karpenter", "set its replicas to 0 there"},
			there: one(func(d *appsv1.Deployment) {
				d.Labels = map[string]string{"helm.toolkit.fluxcd.io/name": "karpenter", "helm.toolkit.fluxcd.io/namespace": "flux-system"}
			})},
		"it was stopped before, and its nodes live on":           {there: one(func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32) }), bundle: "Y2E=\n", warns: "nothing to take over"},
		"the engine is not to run":                               {there: karpenters("karpenter"), mode: v1alpha1.EngineExternal, refuses: "spec.engine.mode is External"},
		"the engine is not to run, and no takeover is requested": {there: karpenters("karpenter"), mode: v1alpha1.EngineExternal, not: true, bundle: "Y2E=\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			for _, d := range c.there {
				objects = append(objects, d)
			}
			b := &Bootstrap{direct: reconcilertest.InstalledClient(t, objects...), req: Request{TakeOver: !c.not}}
			d := declaredEKS{spec: reconcilertest.Cluster(nil).Spec, origin: state.Origin{File: "cluster.yaml", Line: 3}}
			d.spec.Engine.Mode = c.mode
			err := b.findOthers(t.Context(), d)
			takes := ""
			if err == nil {
				takes, err = b.TakesOver()
			}
			if (err == nil) != (c.refuses == "") || err != nil && !strings.Contains(err.Error(), c.refuses) || takes != c.takes || b.caBundle != c.bundle {
				t.Errorf("takes over from %q with the CA %q, %v", takes, b.caBundle, err)
			}
			if warned := strings.Join(b.Warnings, "\n"); (warned != "") != (c.warns != "") || !strings.Contains(warned, c.warns) {
				t.Errorf("it warns %q, not %q", warned, c.warns)
			}
			got := b.OtherKarpenters()
			for _, text := range c.message {
				if !strings.Contains(got, text) {
					t.Errorf("it does not say %q:\n%s", text, got)
				}
			}
		})
	}
}

// What nodes are compared by is what the controller is given.
func TestOneCABundleIsComparedAndInstalled(t *testing.T) {
	const theirs, other, root = "dGhlaXJz\n", "b3RoZXI=", "cm9vdA=="
	stock := func(name string, replicas int32, bundle string) *appsv1.Deployment {
		d := karpenters(name)[0]
		d.Spec.Replicas = &replicas
		d.Spec.Template.Spec.Containers[0].Env[1].Value = bundle
		return d
	}
	ours := func(bundle string) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "poolwright-system", Name: installation.Deployment}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: installation.Deployment, Image: "poolwright:1", Env: []corev1.EnvVar{{Name: installation.CABundleVariable, Value: bundle}}}}
		return d
	}
	for name, c := range map[string]struct {
		there    []*appsv1.Deployment
		bundle   string
		blocking string
		warns    bool
	}{
		"one that runs without outweighs one that was stopped":     {there: []*appsv1.Deployment{stock("a-old", 0, other), stock("b", 1, "")}},
		"one that runs outweighs the controller":                   {there: []*appsv1.Deployment{stock("a", 1, theirs), ours(other)}, bundle: theirs},
		"the controller has one, and the Karpenter that runs none": {there: []*appsv1.Deployment{stock("a", 1, ""), ours(other)}, bundle: other, blocking: "set env deployment poolwright CLUSTER_CA_BUNDLE-"},
		"the controller has the cluster's own":                     {there: []*appsv1.Deployment{stock("a", 1, ""), ours(root)}, bundle: root},
		"none runs, and nothing is installed":                      {there: []*appsv1.Deployment{stock("a", 0, theirs)}, bundle: theirs},
		"two were stopped":                                         {there: []*appsv1.Deployment{stock("a", 0, theirs), stock("b", 0, other)}, bundle: theirs, warns: true},
		"the controller outweighs one that was stopped":            {there: []*appsv1.Deployment{stock("a", 0, theirs), ours("")}, warns: true},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-root-ca.crt"}, Data: map[string]string{"ca.crt": "root"}}}
			for _, d := range c.there {
				objects = append(objects, d)
			}
			b := &Bootstrap{direct: reconcilertest.InstalledClient(t, objects...), req: Request{Namespace: "poolwright-system"}}
			if err := b.findOthers(t.Context(), declaredEKS{spec: reconcilertest.Cluster(nil).Spec}); err != nil {
				t.Fatal(err)
			}
			got := b.OtherKarpenters()
			if b.caBundle != c.bundle || (len(b.Warnings) > 0) != c.warns || strings.Contains(got, "In the way") != (c.blocking != "") || !strings.Contains(got, c.blocking) {
				t.Errorf("the controller is given %q, with the warnings %q:\n%s", b.caBundle, b.Warnings, got)
			}
		})
	}
}
