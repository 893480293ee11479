package userdata

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// kubeletMaxPods is kubelet's own default, used where the image is configured not to
// count network interfaces.
const kubeletMaxPods = 110

// apply reads kubelet command-line flags over k, later ones over earlier ones.
// Flags that do not show on the Node are skipped.
func (k *Kubelet) apply(args []string) error {
	for i := 0; i < len(args); i++ {
		name, value, given := strings.Cut(args[i], "=")
		if !strings.HasPrefix(name, "--") {
			return fmt.Errorf("kubelet argument %d is not a flag", i+1)
		}
		if !given && i+1 < len(args) && !strings.HasPrefix(args[i+1], "--") {
			i++
			value = args[i]
		}
		if err := k.set(strings.TrimPrefix(name, "--"), value); err != nil {
			return err
		}
	}
	return nil
}

func (k *Kubelet) set(flag, value string) (err error) {
	switch flag {
	case "node-labels":
		err = addPairs(&k.Labels, value, "=")
	case "register-with-taints":
		k.Taints, err = parseTaints(value)
	case "max-pods":
		k.MaxPods, err = positive(value)
	case "pods-per-core":
		k.PodsPerCore, err = strconv.Atoi(value)
	case "kube-reserved":
		k.KubeReserved = nil
		err = addPairs(&k.KubeReserved, value, "=")
	case "system-reserved":
		k.SystemReserved = nil
		err = addPairs(&k.SystemReserved, value, "=")
	case "eviction-hard":
		k.EvictionHard = nil
		err = addPairs(&k.EvictionHard, value, "<")
	}
	if err != nil {
		return fmt.Errorf("kubelet refuses --%s: its value is malformed", flag)
	}
	return nil
}

// addPairs reads "a=1,b=2" into *m.
func addPairs(m *map[string]string, text, separator string) error {
	if *m == nil {
		*m = map[string]string{}
	}
	for pair := range strings.SplitSeq(text, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, separator)
		if !ok {
			return fmt.Errorf("a pair has no %q", separator)
		}
		(*m)[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return nil
}

func parseTaints(text string) ([]corev1.Taint, error) {
	var taints []corev1.Taint
	for item := range strings.SplitSeq(text, ",") {
		if item == "" {
			continue
		}
		left, effect, ok := strings.Cut(item, ":")
		if !ok {
			return nil, fmt.Errorf("a taint has no effect")
		}
		key, value, _ := strings.Cut(left, "=")
		taints = append(taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	return taints, nil
}

func positive(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("not a positive number")
	}
	return n, nil
}

// check refuses what kubelet itself, or the API server at registration, refuses.
// Label keys and taint keys are no secrets, so they are named.
func (k *Kubelet) check() error {
	for key, value := range k.Labels {
		if errs := validation.IsQualifiedName(key); len(errs) > 0 {
			return fmt.Errorf("kubelet refuses the node label %q: not a label key", key)
		}
		if errs := validation.IsValidLabelValue(value); len(errs) > 0 {
			return fmt.Errorf("kubelet refuses the value of the node label %q", key)
		}
		if reserved(key) {
			return fmt.Errorf("kubelet refuses the node label %q: its domain is reserved for Kubernetes", key)
		}
	}
	for _, t := range k.Taints {
		if errs := validation.IsQualifiedName(t.Key); len(errs) > 0 {
			return fmt.Errorf("kubelet refuses the taint %q: not a taint key", t.Key)
		}
		switch t.Effect {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		default:
			return fmt.Errorf("kubelet refuses the taint %q: unknown effect", t.Key)
		}
	}
	return nil
}

// reserved reports whether a kubelet may not set the label on itself.
func reserved(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok || !under(domain, "kubernetes.io") && !under(domain, "k8s.io") {
		return false
	}
	if under(domain, "kubelet.kubernetes.io") || under(domain, "node.kubernetes.io") {
		return false
	}
	switch key {
	case corev1.LabelHostname, corev1.LabelArchStable, corev1.LabelOSStable,
		corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelInstanceTypeStable,
		corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelInstanceType,
		"beta.kubernetes.io/os", "beta.kubernetes.io/arch":
		return false
	}
	return true
}

func under(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}
