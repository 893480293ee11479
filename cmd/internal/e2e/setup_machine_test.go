package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// machine is what a set-up asks of a node, as the node, its instance and the
// launch template of that show it.
type machine struct {
	Pool     string // NodePool
	Type     string // instance type
	Capacity string // spot or on-demand
	// Labels are those that are not Kubernetes', AWS's or Karpenter's own.
	Labels map[string]string
	// Taints are written KEY=VALUE:EFFECT; startup taints are gone.
	Taints []string
	// Volume is the root volume, as the launch template has it.
	Volume   volume
	Metadata metadata
	// Image is the image's name, which tells family, variant, version, release.
	Image string
}

// volume is an EBS volume in EC2's words, "" for what is left to EC2.
type volume struct{ Device, Size, Type, IOPS, Throughput, Encrypted, DeletedWith string }

// metadata are the options of the instance metadata service.
type metadata struct{ Endpoint, Tokens, HopLimit, IPv6 string }

// landing is where a pod came to run.
type landing struct {
	setupSuite
	pod      corev1.Pod
	node     corev1.Node
	claim    karpv1.NodeClaim
	instance sandboxaws.Instance
	// template is what the instance was launched with, by EC2's names.
	template map[string]string
}

// lands waits until a pod of the default namespace runs on a node that is
// initialized.
func (s setupSuite) lands(pod string) (l landing) {
	s.Helper()
	l.setupSuite = s
	s.until("pod "+pod+" runs on an initialized node", func() error {
		if err := s.hand.Get(s.Context(), client.ObjectKey{Namespace: "default", Name: pod}, &l.pod); err != nil {
			return err
		}
		if l.pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s: %+v", l.pod.Status.Phase, l.pod.Status.Conditions)
		}
		return l.on(l.pod.Spec.NodeName)
	})
	return l
}

// on reads what there is to a node, or says what is not there yet.
func (l *landing) on(name string) error {
	if err := l.hand.Get(l.Context(), client.ObjectKey{Name: name}, &l.node); err != nil {
		return err
	}
	if l.node.Labels[karpv1.NodeInitializedLabelKey] != "true" {
		return fmt.Errorf("node %s is not initialized: %+v", name, l.node.Spec.Taints)
	}
	claims, err := l.claims(l.node.Labels[karpv1.NodePoolLabelKey])
	if err != nil {
		return err
	}
	for _, claim := range claims {
		if claim.Status.NodeName == name {
			l.claim = claim
		}
	}
	for _, i := range l.AWS.Instances() {
		if strings.HasSuffix(l.node.Spec.ProviderID, "/"+i.ID) {
			l.instance, l.template = i, l.AWS.Template(i.ID)
		}
	}
	if l.claim.Name == "" || l.template == nil {
		return fmt.Errorf("node %s has NodeClaim %q and instance %v", name, l.claim.Name, l.instance)
	}
	return nil
}

// is compares all that a set-up says about its machines.
func (l landing) is(want machine) {
	l.Helper()
	got := machine{
		Pool: l.instance.Tags[karpv1.NodePoolLabelKey], Type: l.instance.Type, Capacity: l.instance.CapacityType,
		Labels: ownLabels(l.node.Labels), Taints: taintsOf(l.node.Spec.Taints),
		Volume: volumeOf(l.template), Metadata: metadataOf(l.template),
		Image: l.AWS.ImageName(l.template["ImageId"]),
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		l.Errorf("the machine of pod %s is not as declared (-declared +launched):\n%s", l.pod.Name, diff)
	}
	displayed := []string{l.node.Labels[karpv1.NodePoolLabelKey], l.node.Labels[corev1.LabelInstanceTypeStable], l.node.Labels[karpv1.CapacityTypeLabelKey]}
	if diff := cmp.Diff([]string{want.Pool, want.Type, want.Capacity}, displayed); diff != "" {
		l.Errorf("the labels of node %s say otherwise (-declared +labels):\n%s", l.node.Name, diff)
	}
}

// ownLabels leaves out what Kubernetes, AWS and Karpenter put on every node.
func ownLabels(labels map[string]string) map[string]string {
	theirs := []string{
		"kubernetes.io/", "beta.kubernetes.io/", "node.kubernetes.io/", "topology.kubernetes.io/", "failure-domain.beta.kubernetes.io/",
		"karpenter.sh/", "karpenter.k8s.aws/", "k8s.io/", "topology.k8s.aws/", "topology.ebs.csi.aws.com/", "eks.amazonaws.com/",
	}
	own := maps.Clone(labels)
	maps.DeleteFunc(own, func(key, _ string) bool {
		return slices.ContainsFunc(theirs, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
	})
	return own
}

func taintsOf(taints []corev1.Taint) (texts []string) {
	for _, t := range taints {
		texts = append(texts, t.ToString())
	}
	slices.Sort(texts)
	return texts
}

func volumeOf(template map[string]string) volume {
	const mapping = "BlockDeviceMapping.1."
	return volume{
		Device: template[mapping+"DeviceName"], Size: template[mapping+"Ebs.VolumeSize"], Type: template[mapping+"Ebs.VolumeType"],
		IOPS: template[mapping+"Ebs.Iops"], Throughput: template[mapping+"Ebs.Throughput"],
		Encrypted: template[mapping+"Ebs.Encrypted"], DeletedWith: template[mapping+"Ebs.DeleteOnTermination"],
	}
}

func metadataOf(template map[string]string) metadata {
	const options = "MetadataOptions."
	return metadata{
		Endpoint: template[options+"HttpEndpoint"], Tokens: template[options+"HttpTokens"],
		HopLimit: template[options+"HttpPutResponseHopLimit"], IPv6: template[options+"HttpProtocolIpv6"],
	}
}

// al2023 is the name of an image for the EKS cluster's version of Kubernetes.
func (s setupSuite) al2023(variant, release string) string {
	return fmt.Sprintf("amazon-eks-node-al2023-x86_64-%s-%s-%s", variant, s.of.Version, release)
}

// latest is the newest release of images.
func (s setupSuite) latest() string { return s.aws.Releases[len(s.aws.Releases)-1] }

// lasted proves that no node of the pool was ended before it was so long without
// any coming or going of pods. How long it lasted at most is nobody's promise.
func (s setupSuite) lasted(pool string, least time.Duration) {
	s.Helper()
	last := map[string]*karpv1.NodeClaim{}
	for _, one := range s.history.all(s.gpuSuite) {
		if claim := one.object.(*karpv1.NodeClaim); claim.Labels[karpv1.NodePoolLabelKey] == pool {
			last[claim.Name] = claim
		}
	}
	ended := 0
	for name, claim := range last {
		_, id, _ := strings.Cut(strings.TrimPrefix(claim.Status.ProviderID, "aws:///"), "/")
		for _, call := range s.terminations(id) {
			ended++
			if idle := call.Time.Sub(claim.Status.LastPodEventTime.Time); idle < least {
				s.Errorf("NodeClaim %s was ended %s after its last pod, not %s", name, idle, least)
			} else {
				s.Logf("NodeClaim %s was ended %s after its last pod", name, idle.Round(100*time.Millisecond))
			}
		}
	}
	if ended == 0 {
		s.Errorf("no node of pool %s was ended", pool)
	}
}
