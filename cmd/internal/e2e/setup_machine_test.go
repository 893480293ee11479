package e2e

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
		err := s.hand.Get(s.Context(), client.ObjectKey{Namespace: "default", Name: pod}, &l.pod)
		if apierrors.IsNotFound(err) {
			return errors.Join(err, s.makesAgain(pod))
		}
		if err != nil {
			return err
		}
		if l.pod.Status.Phase != corev1.PodRunning || l.pod.DeletionTimestamp != nil {
			return fmt.Errorf("it is %s, deleted %v: %+v", l.pod.Status.Phase, l.pod.DeletionTimestamp, l.pod.Status.Conditions)
		}
		return l.on(l.pod.Spec.NodeName)
	})
	return l
}

// makesAgain creates a pod again that has no controller and that Kubernetes has evicted, which it does where its
// controller of taints observes the pod's binding before it observes that Karpenter has taken the taint of an unregistered
// node away.
func (s setupSuite) makesAgain(pod string) error {
	var evictions corev1.EventList
	of := client.MatchingFields{"involvedObject.name": pod, "reason": "TaintManagerEviction"}
	if err := s.hand.List(s.Context(), &evictions, client.InNamespace("default"), of); err != nil {
		return err
	}
	if len(evictions.Items) == 0 {
		return errors.New("it was not evicted for a taint")
	}
	for _, object := range *s.made {
		if object.GetName() == pod {
			s.Logf("pod %s was evicted: %s; it is created again", pod, evictions.Items[0].Message)
			return s.hand.Create(s.Context(), object.DeepCopyObject().(client.Object))
		}
	}
	return errors.New("the test has not created it")
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

// lasted proves that each node of the pool was ended once it was so long without any coming or going of pods, and not
// much later.
func (s setupSuite) lasted(pool string, least time.Duration) {
	s.Helper()
	last := map[string]*karpv1.NodeClaim{}
	for _, one := range s.history.all(s.gpuSuite) {
		if claim := one.object.(*karpv1.NodeClaim); claim.Labels[karpv1.NodePoolLabelKey] == pool {
			last[claim.Name] = claim
		}
	}
	var ended []endedNode
	for name, claim := range last {
		_, id, _ := strings.Cut(strings.TrimPrefix(claim.Status.ProviderID, "aws:///"), "/")
		if s.reclaimed[id] {
			continue
		}
		if calls := s.terminations(id); len(calls) > 0 {
			ended = append(ended, endedNode{name, claim.Status.LastPodEventTime.Time, calls[0].Time})
		}
	}
	if len(ended) == 0 {
		s.Errorf("no node of pool %s was ended", pool)
	}
	for _, wrong := range untimely(ended, least) {
		s.Errorf("pool %s: %s", pool, wrong)
	}
	for _, one := range ended {
		s.Logf("NodeClaim %s was ended %s after its last pod", one.name, one.at.Sub(one.lastPod).Round(100*time.Millisecond))
	}
}

// endedNode is when a node had its last coming or going of a pod, and when it was ended.
type endedNode struct {
	name        string
	lastPod, at time.Time
}

// afterDelay is how long after its delay a node is ended at the latest. Karpenter looks for empty nodes every ten
// seconds and validates each after fifteen more; the rest is for a machine that does other work.
const afterDelay = 90 * time.Second

// untimely are the nodes of a pool that were ended too soon or too late. Where a budget has one go at a time, a node
// waits for the one before it, too.
func untimely(nodes []endedNode, least time.Duration) (wrong []string) {
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b endedNode) int { return a.at.Compare(b.at) })
	var before time.Time
	for _, n := range nodes {
		since := n.lastPod
		if before.After(since) {
			since = before
		}
		switch idle := n.at.Sub(n.lastPod); {
		case n.lastPod.IsZero():
			wrong = append(wrong, fmt.Sprintf("NodeClaim %s has no time of a last pod", n.name))
		case idle < least:
			wrong = append(wrong, fmt.Sprintf("NodeClaim %s was ended %s after its last pod, not %s", n.name, idle, least))
		case n.at.Sub(since) > least+afterDelay:
			wrong = append(wrong, fmt.Sprintf("NodeClaim %s was ended only %s after its last pod, and could be after %s", n.name, idle, least))
		}
		before = n.at
	}
	return wrong
}

func TestNodesThatWereEndedTooSoonOrTooLateAreFound(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	node := func(name string, lastPod, at time.Duration) endedNode {
		return endedNode{name, begin.Add(lastPod), begin.Add(at)}
	}
	for name, c := range map[string]struct {
		nodes []endedNode
		want  []string
	}{
		"in time":                        {[]endedNode{node("a", 0, 60*time.Second), node("b", time.Minute, 3*time.Minute)}, nil},
		"too soon":                       {[]endedNode{node("a", 0, 59*time.Second)}, []string{"NodeClaim a was ended 59s after its last pod, not 1m0s"}},
		"too late":                       {[]endedNode{node("a", 0, 151*time.Second)}, []string{"NodeClaim a was ended only 2m31s after its last pod, and could be after 1m0s"}},
		"one after the other":            {[]endedNode{node("b", 0, 4*time.Minute), node("a", 0, 2*time.Minute)}, nil},
		"one long after the other":       {[]endedNode{node("b", 0, 5*time.Minute), node("a", 0, 2*time.Minute)}, []string{"NodeClaim b was ended only 5m0s after its last pod, and could be after 1m0s"}},
		"without a time of its last pod": {[]endedNode{{"a", time.Time{}, begin}}, []string{"NodeClaim a has no time of a last pod"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, untimely(c.nodes, time.Minute)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
