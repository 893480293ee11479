package takeover

import (
	stdcmp "cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/provision/engine"
)

// The label of Karpenter's chart, and its value.
const nameLabel, stockName = "app.kubernetes.io/name", "karpenter"

const authority = "Q0E="

// cluster is what a case changes before it is compared.
type cluster struct {
	deployment   *appsv1.Deployment
	crd          *apiextensionsv1.CustomResourceDefinition
	pool         *karpv1.NodePool
	class        *awsv1.EC2NodeClass
	claims       []*karpv1.NodeClaim
	settings     engine.Settings
	nameless     bool              // has no CA
	settingsData map[string]string // by ConfigMap settings
}

// env sets a variable of the Deployment's container.
func (c *cluster) env(name, value string) {
	container := &c.deployment.Spec.Template.Spec.Containers[0]
	for i := range container.Env {
		if container.Env[i].Name == name {
			container.Env[i].Value = value
			return
		}
	}
	container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: value})
}

// newCluster has two nodes of a Karpenter that differs in nothing.
func newCluster() *cluster {
	c := &cluster{settings: engine.DefaultSettings()}
	c.settings.Cluster, c.settings.InterruptionQueue = "dev", "dev"
	c.deployment = &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter", Labels: map[string]string{nameLabel: stockName}}}
	c.deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "controller", Image: "public.ecr.aws/karpenter/controller:" + engine.KarpenterVersion + "@sha256:1"}}
	for name, value := range map[string]string{
		"CLUSTER_NAME": "dev", "INTERRUPTION_QUEUE": "dev", "BATCH_MAX_DURATION": "10s",
		"FEATURE_GATES": "ReservedCapacity=true,NodeOverlay=true", "VM_MEMORY_OVERHEAD_PERCENT": "0.075",
	} {
		c.env(name, value)
	}
	c.crd = &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "nodeclaims.karpenter.sh"}}
	c.crd.Status.StoredVersions = []string{"v1"}
	c.pool = &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}
	c.class = &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	c.class.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}}
	ca := authority
	for _, name := range []string{"general-1", "general-2"} {
		claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{karpv1.NodePoolLabelKey: "general"},
			Annotations: map[string]string{
				karpv1.NodePoolHashAnnotationKey: c.pool.Hash(), karpv1.NodePoolHashVersionAnnotationKey: karpv1.NodePoolHashVersion,
				awsv1.AnnotationEC2NodeClassHash: c.class.Hash(&ca), awsv1.AnnotationEC2NodeClassHashVersion: awsv1.EC2NodeClassHashVersion,
			},
		}}
		claim.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
		c.claims = append(c.claims, claim)
	}
	return c
}

func (c *cluster) client(t *testing.T) client.Client {
	t.Helper()
	if err := apiextensionsv1.AddToScheme(scheme.Scheme); err != nil {
		t.Fatal(err)
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.deployment.Namespace, Name: "settings"}, Data: c.settingsData}
	objects := []client.Object{c.deployment, c.crd, c.pool, c.class, settings}
	for _, claim := range c.claims {
		objects = append(objects, claim)
	}
	return fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build()
}

func TestAPasswordInAnEndpointIsNotPrinted(t *testing.T) {
	for _, endpoint := range []string{"https://user:wordfish@api.example.com", "https://user:wordfish@api.example.com:port"} {
		c := newCluster()
		c.env("CLUSTER_ENDPOINT", endpoint)
		text := c.text(t)
		if strings.Contains(text, "wordfish") || !strings.Contains(text, "CLUSTER_ENDPOINT") {
			t.Errorf("of %s is printed:\n%s", strings.Replace(endpoint, "wordfish", "PASSWORD", 1), text)
		}
	}
}

func TestDifferencesFromAKarpenterThatRunsAlreadyAreReported(t *testing.T) {
	var all strings.Builder
	for _, k := range []struct {
		name string
		edit func(*cluster)
	}{
		{"the same Karpenter with the same settings", func(*cluster) {}},
		{"no variable but the cluster's name", func(c *cluster) {
			c.deployment.Spec.Template.Spec.Containers[0].Env = nil
			c.env("CLUSTER_NAME", "dev")
			c.settings.InterruptionQueue = ""
		}},
		{"an older one of version 1, with other settings", func(c *cluster) {
			c.deployment.Spec.Template.Spec.Containers[0].Image = "registry.example.com:5000/karpenter/controller:v1.12.3"
			c.env("BATCH_IDLE_DURATION", "5s")
			c.env("VM_MEMORY_OVERHEAD_PERCENT", "0.05")
			c.env("RESERVED_ENIS", "1")
			c.env("CLUSTER_ENDPOINT", "https://example.com")
			c.env("FEATURE_GATES", "SpotToSpotConsolidation=true")
			for _, claim := range c.claims {
				claim.Annotations[awsv1.AnnotationEC2NodeClassHashVersion] = "v4"
			}
		}},
		{"one of 1.14, whose drift hash of classes had another version", func(c *cluster) {
			c.deployment.Spec.Template.Spec.Containers[0].Image = "public.ecr.aws/karpenter/controller:1.14.1"
			for _, claim := range c.claims {
				claim.Annotations[awsv1.AnnotationEC2NodeClassHash], claim.Annotations[awsv1.AnnotationEC2NodeClassHashVersion] = "1", "v5"
			}
		}},
		{"one with feature gates and settings of 1.15", func(c *cluster) {
			c.env("FEATURE_GATES", "NodeOverlay=true,TerminateFirstDrift=true,PodDeletionCostManagement=true")
			c.env("AWS_FEATURE_GATES", "DRANVIDIAGPU=true,RebootForRepair=true")
			c.env("IGNORE_DRA_REQUESTS", "False")
			c.env("LEGACY_NODE_REPAIR", "true")
			c.env("SECURITY_GROUP_REFRESH_INTERVAL", "5m")
			c.env("SCHEDULER_CONFIG", "{podTopologySpread: {}}")
		}},
		{"one that configures its process, and requests processor time", func(c *cluster) {
			c.env("LOG_LEVEL", "debug")
			c.env("METRICS_PORT", "9090")
			c.env("DISABLE_CONTROLLER_WARMUP", "true")
			container := &c.deployment.Spec.Template.Spec.Containers[0]
			container.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2500m")}
			container.Env = append(container.Env, corev1.EnvVar{Name: "CPU_REQUESTS", ValueFrom: &corev1.EnvVarSource{
				ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "requests.cpu", Divisor: resource.MustParse("1m")},
			}})
		}},
		{"values that no field takes", func(c *cluster) {
			c.env("VM_MEMORY_OVERHEAD_PERCENT", "1.5")
			c.env("CLUSTER_ENDPOINT", "http://api.example.com")
			c.env("KUBE_CLIENT_QPS", "-1")
			c.env("BATCH_IDLE_DURATION", "1ms")
			c.env("IGNORE_DRA_REQUESTS", "false")
		}},
		{"gates that the Cluster declares already, and one that it does not", func(c *cluster) {
			c.settings.FeatureGates = map[string]bool{"NodeOverlay": false, "NodeRepair": true, "StaticCapacity": true}
			c.env("FEATURE_GATES", "NodeRepair=true,CapacityBuffer=true,ReservedCapacity=false")
		}},
		{"one whose drift hash has no CA bundle", func(c *cluster) {
			c.deployment.Spec.Template.Spec.Containers[0].Image = "public.ecr.aws/karpenter/controller:1.9.0"
		}},
		{"one of 1.0", func(c *cluster) {
			c.deployment.Spec.Template.Spec.Containers[0].Image = "mirror.example.com/k:1.0.8"
		}},
		{"one of v1alpha5, whose settings lie in a ConfigMap", func(c *cluster) {
			container := &c.deployment.Spec.Template.Spec.Containers[0]
			container.Image = "public.ecr.aws/karpenter/controller:v0.31.4"
		}},
		{"a newer one", func(c *cluster) {
			c.deployment.Spec.Template.Spec.Containers[0].Image = "public.ecr.aws/karpenter/controller:99.1.0"
		}},
		{"one of an unknown version, with variables from elsewhere", func(c *cluster) {
			container := &c.deployment.Spec.Template.Spec.Containers[0]
			container.Image = "public.ecr.aws/karpenter/controller@sha256:2"
			container.Env = append(container.Env, corev1.EnvVar{Name: "BATCH_IDLE_DURATION", ValueFrom: &corev1.EnvVarSource{}}, corev1.EnvVar{Name: "SYSTEM_NAMESPACE", ValueFrom: &corev1.EnvVarSource{}})
			container.EnvFrom = []corev1.EnvFromSource{{}}
		}},
		{"a queue from a Secret", func(c *cluster) {
			env := c.deployment.Spec.Template.Spec.Containers[0].Env
			for i := range env {
				if env[i].Name == "INTERRUPTION_QUEUE" {
					env[i] = corev1.EnvVar{Name: env[i].Name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "queue"}}}
				}
			}
		}},
		{"a queue and a cluster from a ConfigMap, and a duration from all of one", func(c *cluster) {
			container := &c.deployment.Spec.Template.Spec.Containers[0]
			container.Env = nil
			settings := corev1.LocalObjectReference{Name: "settings"}
			for name, key := range map[string]string{"CLUSTER_NAME": "cluster", "INTERRUPTION_QUEUE": "queue"} {
				container.Env = append(container.Env, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: settings, Key: key}}})
			}
			container.EnvFrom = []corev1.EnvFromSource{{Prefix: "BATCH_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: settings}}}
			c.settingsData = map[string]string{"cluster": "prod", "queue": "theirs", "IDLE_DURATION": "7s"}
		}},
		{"flags outweigh variables", func(c *cluster) {
			c.deployment.Spec.Template.Spec.Containers[0].Args = []string{"--interruption-queue=theirs", "-cluster-name", "prod", "--isolated-vpc", "--batch-idle-duration=$(IDLE)"}
		}},
		{"a shell starts it", func(c *cluster) {
			container := &c.deployment.Spec.Template.Spec.Containers[0]
			container.Command = []string{"sh", "-c", "exec karpenter --interruption-queue=theirs"}
			container.Args = []string{"x"}
			container.Env = nil
		}},
		{"objects that may be stored as v1beta1", func(c *cluster) { c.crd.Status.StoredVersions = []string{"v1beta1", "v1"} }},
		{"a queue that nobody would read", func(c *cluster) { c.settings.InterruptionQueue = "" }},
		{"another queue, and another cluster", func(c *cluster) {
			c.env("INTERRUPTION_QUEUE", "theirs")
			c.env("CLUSTER_NAME", "prod")
		}},
		{"a CA bundle that is written in another way", func(c *cluster) {
			ca := authority + "\n"
			c.env(caBundle, ca)
			for _, claim := range c.claims {
				claim.Annotations[awsv1.AnnotationEC2NodeClassHash] = c.class.Hash(&ca)
			}
		}},
		{"a class that was changed", func(c *cluster) { c.class.Spec.Tags = map[string]string{"team": "ml"} }},
		{"a NodePool that was changed, and a node that drifts already", func(c *cluster) {
			c.pool.Spec.Template.Labels = map[string]string{"team": "ml"}
			c.claims[0].StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDrifted, "AMIDrift", "")
		}},
		{"nodes of EKS Auto Mode are not ours", func(c *cluster) { c.claims[0].Spec.NodeClassRef.Group = "eks.amazonaws.com" }},
		{"a node that drifts already, beside one that stays", func(c *cluster) {
			c.claims[0].StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDrifted, "AMIDrift", "")
		}},
		{"nodes of a class that is gone", func(c *cluster) { c.class.Name = "gone" }},
		{"a cluster that does not report its CA", func(c *cluster) { c.nameless = true }},
		{"one that was stopped", func(c *cluster) { c.deployment.Spec.Replicas = new(int32) }},
	} {
		c := newCluster()
		k.edit(c)
		fmt.Fprintf(&all, "# %s\n%s\n", k.name, c.text(t))
	}
	golden.Compare(t, "testdata/takeover.golden", all.String())
}

// text is what is printed of the cluster's only Karpenter.
func (c *cluster) text(t *testing.T) string {
	t.Helper()
	kube := c.client(t)
	found, err := Find(t.Context(), kube)
	if err != nil || len(found) != 1 {
		t.Fatalf("found %v, %v", found, err)
	}
	ca := stdcmp.Or(found[0].CABundle, authority)
	if c.nameless {
		ca = ""
	}
	compared, err := found[0].Compare(t.Context(), kube, c.settings, ca)
	if err != nil {
		t.Fatal(err)
	}
	return found[0].Text(compared)
}

func TestOnlyKarpentersAreFound(t *testing.T) {
	deployment := func(name, image string, labels map[string]string, env ...corev1.EnvVar) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: labels, CreationTimestamp: metav1.NewTime(time.Unix(0, 0))}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "sidecar", Image: "s"}, {Name: "c", Image: image, Env: env}}
		return d
	}
	chart := map[string]string{nameLabel: stockName, versionLabel: "1.5.0", chartLabel: "karpenter-1.5.0"}
	kube := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(
		deployment("poolwright", "registry.example.com/poolwright:1", map[string]string{nameLabel: "poolwright"}, corev1.EnvVar{Name: caBundle, Value: "eA=="}),
		deployment("image", "registry.example.com:5000/karpenter/controller", nil),
		deployment("labels", "registry.example.com:5000/mirrored", chart, corev1.EnvVar{Name: "CLUSTER_NAME", Value: "dev"}),
		deployment("dashboard", "registry.example.com/karpenter-dashboard:1.0.0", map[string]string{nameLabel: stockName}),
	).Build()
	found, err := Find(t.Context(), kube)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, k := range found {
		got[k.Deployment.Name] = k.Version
	}
	if diff := cmp.Diff(map[string]string{"image": "", "labels": "1.5.0"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Another name, or none, is a Karpenter beside which the engine would start.
func TestAKarpenterIsDetectedByItsLeaseOnly(t *testing.T) {
	for name, c := range map[string]struct {
		env        map[string]string
		args       []string
		undetected string
		lease      string
	}{
		"by default":                       {lease: "kube-system/karpenter-leader-election"},
		"in another namespace":             {env: map[string]string{"LEADER_ELECTION_NAMESPACE": "leases"}, lease: "leases/karpenter-leader-election"},
		"by the name that is standard":     {env: map[string]string{"LEADER_ELECTION_NAME": Lease, "DISABLE_LEADER_ELECTION": "false", "LEADER_ELECT": "true"}},
		"by another name":                  {env: map[string]string{"LEADER_ELECTION_NAME": "mine"}, undetected: "LEADER_ELECTION_NAME is mine"},
		"by another name in a flag":        {args: []string{"--leader-election-name=mine"}, undetected: "LEADER_ELECTION_NAME is mine"},
		"without an election":              {env: map[string]string{"DISABLE_LEADER_ELECTION": "true"}, undetected: "DISABLE_LEADER_ELECTION is set"},
		"without an election, by flag":     {args: []string{"--disable-leader-election"}, undetected: "DISABLE_LEADER_ELECTION is set"},
		"without, as it was once reported": {env: map[string]string{"LEADER_ELECT": "false"}, undetected: "LEADER_ELECT is false"},
		"by a name put together":           {env: map[string]string{"LEADER_ELECTION_NAME": "$(X)"}, undetected: "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			target := newCluster()
			for variable, value := range c.env {
				target.env(variable, value)
			}
			target.deployment.Spec.Template.Spec.Containers[0].Args = c.args
			found, err := Find(t.Context(), target.client(t))
			if err != nil || len(found) != 1 {
				t.Fatalf("%v, %v", found, err)
			}
			got := found[0].Undetectable()
			if (got == "") != (c.undetected == "") || !strings.Contains(got, c.undetected) || c.lease != "" && found[0].Election.String() != c.lease {
				t.Errorf("unseen %q, lease %s", got, found[0].Election)
			}
		})
	}
}
