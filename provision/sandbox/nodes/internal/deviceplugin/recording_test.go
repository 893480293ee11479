package deviceplugin_test

import (
	"path"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/deviceplugin/recording"
)

// located is the configuration that the emulation finds for a recorded one.
func located(c recording.Case) (deviceplugin.Config, error) {
	volume := corev1.Volume{Name: "config"}
	volume.ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "plugin", Namespace: "kube-system"},
		Spec: corev1.PodSpec{Volumes: []corev1.Volume{volume}, Containers: []corev1.Container{{
			Name: "plugin", Image: "nvcr.io/nvidia/k8s-device-plugin:v0.19.3", Command: c.Command,
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: path.Dir(c.ConfigPath)}},
		}}},
	}
	return deviceplugin.Locate(pod, nil, func(string, string) (*corev1.ConfigMap, error) {
		return &corev1.ConfigMap{Data: map[string]string{path.Base(c.ConfigPath): c.Config}}, nil
	})
}

func TestTheEmulationOffersWhatTheRealPluginDid(t *testing.T) {
	recorded, err := recording.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range recorded.Runs {
		t.Run(run.Name, func(t *testing.T) {
			config, err := located(run.Case)
			if ended := run.ExitCode != nil; (err != nil) != ended {
				t.Fatalf("the real one ended: %t; the emulation: %v", ended, err)
			}
			serves := err == nil && (config.Strategy != deviceplugin.SharingStrategyMPS || run.Daemon != "")
			if serves != (len(run.Resources) == 1) {
				t.Fatalf("the real one registered %d resources; the emulation serves: %t", len(run.Resources), serves)
			}
			if !serves {
				return
			}
			offered := run.Resources[0]
			if each := config.AdvertisedPerGPU(); len(each) != 1 || each[offered.Name]*len(recorded.GPUs) != len(offered.Devices) {
				t.Errorf("the real one offers %s: %d, the emulation of each GPU %v", offered.Name, len(offered.Devices), each)
			}
			if refusal, ok := offered.Refused(2); ok && config.OnePerRequest != (refusal != "") {
				t.Errorf("the real one returns %q for a request for two, and the emulation refuses it: %t", refusal, config.OnePerRequest)
			}
		})
	}
}
