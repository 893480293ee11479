package e2e

import (
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	overlayv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// made lists what the DevicePlugin's declaration became, with the number of each
// thing's spec and its incarnation: by kind and name, for one configuration or all.
func (g gpuSuite) made(config string) (map[string]string, error) {
	found := map[string]string{}
	options := []client.ListOption{client.HasLabels{gpu.ConfigLabel}}
	if config != "" {
		options = []client.ListOption{client.MatchingLabels{gpu.ConfigLabel: config}}
	}
	note := func(kind string, o client.Object) {
		found[kind+"/"+o.GetName()] = fmt.Sprintf("%s, generation %d", o.GetUID(), o.GetGeneration())
	}
	var sets appsv1.DaemonSetList
	var configs corev1.ConfigMapList
	var overlays overlayv1alpha1.NodeOverlayList
	for _, list := range []client.ObjectList{&sets, &configs, &overlays} {
		if err := g.hand.List(g.Context(), list, options...); err != nil {
			return nil, err
		}
	}
	for i := range sets.Items {
		note("DaemonSet", &sets.Items[i])
	}
	for i := range configs.Items {
		note("ConfigMap", &configs.Items[i])
	}
	for i := range overlays.Items {
		note("NodeOverlay", &overlays.Items[i])
	}
	return found, nil
}

// declaredRevision is the PluginHashAnnotation that a configuration's new plugins get.
func (g gpuSuite) declaredRevision(config string) (string, error) {
	var set appsv1.DaemonSet
	err := g.hand.Get(g.Context(), client.ObjectKey{Namespace: gpu.PluginNamespace, Name: "nvidia-device-plugin-" + config}, &set)
	return set.Spec.Template.Annotations[gpu.PluginHashAnnotation], err
}

// overlayName is the configuration's overlay for our machine.
func overlayName(config string) string {
	return fmt.Sprintf("poolwright-gpu-%d-%s", gpusPerMachine, config)
}

// overlayOffer is what that says, as an Offer writes it.
func (g gpuSuite) overlayOffer(config string) (string, error) {
	var overlay overlayv1alpha1.NodeOverlay
	err := g.hand.Get(g.Context(), client.ObjectKey{Name: overlayName(config)}, &overlay)
	return capacityOf(&overlay).String(), err
}

func capacityOf(object client.Object) gpu.Resources {
	out := gpu.Resources{}
	for name, quantity := range object.(*overlayv1alpha1.NodeOverlay).Spec.Capacity {
		out[name] = quantity.Value()
	}
	return out
}

// comesThroughGit: one commit with pools and a DevicePlugin made everything, and
// runs that follow change nothing.
func (l *gpuSteps) comesThroughGit(g gpuSuite) {
	before, err := g.made("")
	if err != nil {
		g.Fatal(err)
	}
	for _, config := range l.configs() {
		for _, name := range []string{"DaemonSet/nvidia-device-plugin-" + config, "NodeOverlay/" + overlayName(config)} {
			if before[name] == "" {
				g.Errorf("there is no %s among %v", name, before)
			}
		}
		configs := 0
		for name := range before {
			if strings.HasPrefix(name, "ConfigMap/nvidia-device-plugin-"+config+"-") {
				configs++
			}
		}
		if configs != 1 {
			g.Errorf("configuration %s has %d ConfigMaps: %v", config, configs, before)
		}
	}
	written := g.metric(l.metrics, "poolwright_changes_total") // since the settings restarted the controller
	for range 2 {
		token := g.requests()
		g.until("the Sync has reconciled again", func() error {
			sync, err := g.sync()
			if err == nil && sync.Status.LastHandledReconcileAt != token {
				err = fmt.Errorf("the last request handled is %q", sync.Status.LastHandledReconcileAt)
			}
			if err != nil {
				return err
			}
			return isReady(sync, g.git.repo.revision())
		})
	}
	after, err := g.made("")
	if diff := cmp.Diff(before, after); diff != "" || err != nil {
		g.Errorf("runs that follow changed something: %v\n%s", err, diff)
	}
	if now := g.metric(l.metrics, "poolwright_changes_total"); now != written {
		g.Errorf("runs that follow wrote %g things, after %g", now-written, written)
	}
}

// configLeaves: what was made of a configuration goes with it and with its pool, once
// somebody has confirmed it, because a node of it runs; and nothing else goes.
func (l *gpuSteps) configLeaves(g gpuSuite) {
	const config = racePool
	others, err := g.made("")
	if err != nil {
		g.Fatal(err)
	}
	made, err := g.made(config)
	if err != nil || len(made) < 3 {
		g.Fatalf("configuration %s is %v, %v", config, made, err)
	}
	for name := range made {
		delete(others, name)
	}
	running := g.runningPods(config)
	if len(running) == 0 {
		g.gpuPods("race-gpu", config, gpu.Resource, 1, 1) // this case runs alone
		g.allRun(config)
		running = g.runningPods(config)
	}
	l.drop(config)
	g.commits("Have no such pool any longer", map[string]string{"device-plugin.yaml": l.text(), config + ".yaml": ""})
	g.requiresConfirmation("nvidia-device-plugin-"+config, "NodePool.karpenter.sh/"+config, "1 node")
	if diff := cmp.Diff(running, g.runningPods(config)); diff != "" {
		g.Errorf("before anybody confirmed, the pods changed:\n%s", diff)
	}
	if still, err := g.made(config); err != nil || still["DaemonSet/nvidia-device-plugin-"+config] == "" {
		g.Errorf("before anybody confirmed, of the configuration there is %v, %v", still, err)
	}
	confirmed := ""
	g.until("nothing of the configuration is left", func() error {
		left, err := g.made(config)
		if err != nil || len(left)+len(g.living(config)) == 0 {
			return err
		}
		// The token is another when less is to be deleted: it is read again.
		if token, err := g.confirmationToken(); err == nil && token != confirmed {
			g.annotates(v1alpha1.ConfirmAnnotation, token)
			confirmed = token
		}
		return fmt.Errorf("there is %v, instances %v", left, g.living(config))
	})
	g.until("the Sync is ready", func() error {
		sync, err := g.sync()
		if err != nil {
			return err
		}
		return isReady(sync, g.git.repo.revision())
	})
	now, err := g.made("")
	if diff := cmp.Diff(others, now); diff != "" || err != nil {
		g.Errorf("the other configurations changed: %v\n%s", err, diff)
	}
}

// requiresConfirmation waits until the Sync holds a deletion back, and says so in the
// words.
func (g gpuSuite) requiresConfirmation(texts ...string) {
	g.Helper()
	g.until("the Sync holds back what it would delete", func() error {
		if _, err := g.confirmationToken(); err != nil {
			return err
		}
		sync, err := g.sync()
		if err != nil {
			return err
		}
		message := meta.FindStatusCondition(sync.Status.Conditions, "Ready").Message
		for _, part := range texts {
			if !strings.Contains(message, part) {
				return fmt.Errorf("it does not speak of %q: %s", part, message)
			}
		}
		return nil
	})
}

// confirmationToken is the one that allows what is held back now.
func (g gpuSuite) confirmationToken() (string, error) {
	sync, err := g.sync()
	if err != nil {
		return "", err
	}
	ready := meta.FindStatusCondition(sync.Status.Conditions, "Ready")
	if ready == nil || ready.Reason != "PruneHeld" || sync.Status.LastAttemptedRevision != g.git.repo.revision() {
		return "", fmt.Errorf("Ready is %+v", ready)
	}
	if sync.Status.ConfirmationToken == "" || !strings.HasSuffix(ready.Message, "="+sync.Status.ConfirmationToken) {
		return "", fmt.Errorf("the token %q is not at the end of: %s", sync.Status.ConfirmationToken, ready.Message)
	}
	return sync.Status.ConfirmationToken, nil
}
