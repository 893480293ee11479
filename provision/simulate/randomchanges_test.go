package simulate_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
)

// declaration is what a repository declares.
type declaration struct {
	pools       map[string]*karpv1.NodePool
	classes     map[string]*awsv1.EC2NodeClass
	overlays    map[string]*karpv1alpha1.NodeOverlay
	deployments map[string]*appsv1.Deployment
}

func (d declaration) clone() declaration {
	out := declaration{pools: map[string]*karpv1.NodePool{}, classes: map[string]*awsv1.EC2NodeClass{}, overlays: map[string]*karpv1alpha1.NodeOverlay{}, deployments: map[string]*appsv1.Deployment{}}
	for name, o := range d.pools {
		out.pools[name] = o.DeepCopy()
	}
	for name, o := range d.classes {
		out.classes[name] = o.DeepCopy()
	}
	for name, o := range d.overlays {
		out.overlays[name] = o.DeepCopy()
	}
	for name, o := range d.deployments {
		out.deployments[name] = o.DeepCopy()
	}
	return out
}

const (
	randomClass = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: %s}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@v20260611}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: c}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: c}}]
  blockDeviceMappings: [{deviceName: /dev/xvda, rootVolume: true, ebs: {volumeSize: 50Gi, volumeType: gp3}}]
`
	randomPool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %s}
spec:
  template:
    metadata: {labels: {pool: %s}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: %s}
      taints: [{key: pool, value: %s, effect: NoSchedule}]
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [%s]}
      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [%s]}
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
  disruption: {consolidateAfter: Never, budgets: [{nodes: "2"}]}
`
)

// firstDeclaration has four pools: of CPUs on demand and on spot, and the same of GPUs.
func firstDeclaration(tb testing.TB) declaration {
	tb.Helper()
	texts := []string{fmt.Sprintf(randomClass, "general"), fmt.Sprintf(randomClass, "accelerated")}
	for _, p := range [][4]string{
		{"cpu", "general", "on-demand", "m5, c6i"}, {"burst", "general", "spot, on-demand", "m5, c6i, t3"},
		{"gpu", "accelerated", "on-demand", "g4dn, g5"}, {"batch", "accelerated", "spot", "g4dn, g5"},
	} {
		texts = append(texts, fmt.Sprintf(randomPool, p[0], p[0], p[1], p[0], p[2], p[3]))
	}
	d := declaration{}.clone()
	snapshot := read(tb, texts...)
	for _, o := range snapshot.NodePools {
		d.pools[o.Name] = o
	}
	for _, o := range snapshot.NodeClasses {
		o.Status = awsv1.EC2NodeClassStatus{}
		d.classes[o.Name] = o
	}
	d.deployments["web"] = randomDeployment("web", "cpu", 3, "1500m", 0)
	d.deployments["cron"] = randomDeployment("cron", "burst", 2, "1", 0)
	d.deployments["infer"] = randomDeployment("infer", "gpu", 3, "2", 1)
	d.deployments["train"] = randomDeployment("train", "batch", 2, "3", 1)
	return d
}

func randomDeployment(name, pool string, replicas int32, cpu string, gpus int) *appsv1.Deployment {
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1Gi")}
	limits := corev1.ResourceList{}
	tolerations := []corev1.Toleration{{Key: "pool", Operator: corev1.TolerationOpEqual, Value: pool, Effect: corev1.TaintEffectNoSchedule}, {Key: "extra", Operator: corev1.TolerationOpExists}}
	if gpus > 0 {
		requests["nvidia.com/gpu"], limits["nvidia.com/gpu"] = *resource.NewQuantity(int64(gpus), resource.DecimalSI), *resource.NewQuantity(int64(gpus), resource.DecimalSI)
		tolerations = append(tolerations, corev1.Toleration{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	}
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(labels)}, Spec: corev1.PodSpec{
				NodeSelector: map[string]string{"pool": pool}, Tolerations: tolerations,
				Containers: []corev1.Container{{Name: "c", Image: "example.com/c:1", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}},
			}},
		},
	}
}

// generator makes changes at random.
type generator struct {
	*rand.Rand
	made int
	// subnets and groups are the ids that AWS has.
	subnets []awsv1.Subnet
	groups  []awsv1.SecurityGroup
}

// pick is one of the sorted names of a map.
func pick[T any](g *generator, of map[string]T) (T, string) {
	names := slices.Sorted(maps.Keys(of))
	name := names[g.IntN(len(names))]
	return of[name], name
}

func oneOf[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

// change makes one or two changes, and describes them.
func (g *generator) change(d declaration) (declaration, string) {
	d = d.clone()
	var out []string
	for range 1 + g.IntN(5)/4 {
		g.made++
		switch g.IntN(10) {
		case 0, 1, 2, 3:
			out = append(out, g.changePool(d))
		case 4, 5, 6:
			out = append(out, g.changeClass(d))
		case 7:
			out = append(out, g.changeOverlay(d))
		default:
			out = append(out, g.changeWorkload(d))
		}
	}
	return d, strings.Join(out, "; ")
}

func (g *generator) changePool(d declaration) string {
	pool, name := pick(g, d.pools)
	spec := &pool.Spec.Template.Spec
	value := fmt.Sprint("v", g.made)
	what := ""
	switch g.IntN(17) {
	case 0:
		what = "taint"
		if g.IntN(2) == 0 && len(spec.Taints) > 1 {
			spec.Taints = spec.Taints[:1]
		} else {
			spec.Taints = append(spec.Taints[:1:1], corev1.Taint{Key: "extra", Value: value, Effect: oneOf(g, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule)})
		}
	case 1:
		what = "a taint that no pod tolerates"
		if len(spec.Taints) > 1 && spec.Taints[1].Key == "nobody" {
			spec.Taints = spec.Taints[:1]
		} else {
			spec.Taints = append(spec.Taints[:1:1], corev1.Taint{Key: "nobody", Effect: corev1.TaintEffectNoSchedule})
		}
	case 2:
		what = "label"
		pool.Spec.Template.Labels["team"] = value
	case 3:
		what = "annotation"
		pool.Spec.Template.Annotations = map[string]string{"note": value}
	case 4:
		what = "startupTaints"
		spec.StartupTaints = []corev1.Taint{{Key: "startup-" + value, Effect: corev1.TaintEffectNoSchedule}}
	case 5:
		what = "capacity type"
		setRequirement(pool, karpv1.CapacityTypeLabelKey, oneOf(g, []string{"on-demand"}, []string{"spot"}, []string{"on-demand", "spot"}))
	case 6:
		what = "families"
		all := []string{"m5", "c6i", "t3"}
		if pool.Spec.Template.Spec.NodeClassRef.Name == "accelerated" && (name == "gpu" || name == "batch") {
			all = []string{"g4dn", "g5"}
		}
		g.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		setRequirement(pool, "karpenter.k8s.aws/instance-family", all[:1+g.IntN(len(all))])
	case 7:
		what = "zone"
		setRequirement(pool, corev1.LabelTopologyZone, oneOf(g, []string{"us-east-1a"}, []string{"us-east-1b", "us-east-1a"}, nil))
	case 8:
		what = "size"
		setRequirement(pool, "karpenter.k8s.aws/instance-size", oneOf(g, []string{"xlarge", "2xlarge"}, []string{"2xlarge", "4xlarge"}, nil))
	case 9:
		what = "expireAfter"
		spec.ExpireAfter = karpv1.MustParseNillableDuration(fmt.Sprintf("%dh", 8000+g.made))
	case 10:
		what = "terminationGracePeriod"
		spec.TerminationGracePeriod = &metav1.Duration{Duration: time.Duration(1+g.IntN(3)) * time.Hour}
	case 11:
		what = "limits"
		pool.Spec.Limits = oneOf(g, nil, karpv1.Limits{corev1.ResourceCPU: resource.MustParse("64")}, karpv1.Limits{"nodes": resource.MustParse("8")})
	case 12:
		what = "weight"
		pool.Spec.Weight = new(int32(1 + g.IntN(90)))
	case 13:
		what = "budgets"
		pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: oneOf(g, "1", "50%", "100%", "0")}}
	case 14:
		what = "class"
		_, class := pick(g, d.classes)
		spec.NodeClassRef.Name = class
	case 15:
		what = "an order of taints and requirements"
		slices.Reverse(spec.Taints)
		slices.Reverse(spec.Requirements)
	case 16:
		if g.IntN(2) == 0 && len(d.pools) > 3 {
			delete(d.pools, name)
			return "NodePool " + name + " deleted"
		}
		name = fmt.Sprint("more", g.made)
		added := pool.DeepCopy()
		added.Name, added.Spec.Weight = name, new(int32(g.IntN(2)*60+1))
		d.pools[name] = added
		return "NodePool " + name + " like " + pool.Name
	}
	return "NodePool " + name + ": " + what
}

// setRequirement sets the values of a requirement, or removes it.
func setRequirement(pool *karpv1.NodePool, key string, values []string) {
	all := slices.DeleteFunc(slices.Clone(pool.Spec.Template.Spec.Requirements), func(r karpv1.NodeSelectorRequirementWithMinValues) bool { return r.Key == key })
	if len(values) > 0 {
		all = append(all, karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values})
	}
	pool.Spec.Template.Spec.Requirements = all
}

func (g *generator) changeClass(d declaration) string {
	class, name := pick(g, d.classes)
	value := fmt.Sprint("v", g.made)
	what := ""
	switch g.IntN(11) {
	case 0:
		what = "userData"
		class.Spec.UserData = new("#!/bin/sh\necho " + value)
	case 1:
		what = "volume"
		class.Spec.BlockDeviceMappings[0].EBS.VolumeSize = resource.NewQuantity(int64(50+g.IntN(50))<<30, resource.BinarySI)
	case 2:
		what = "tags"
		class.Spec.Tags = map[string]string{"team": value}
	case 3:
		what = "detailedMonitoring"
		class.Spec.DetailedMonitoring = new(g.IntN(2) == 0)
	case 4:
		what = "metadataOptions"
		class.Spec.MetadataOptions.HTTPPutResponseHopLimit = new(int64(1 + g.IntN(3)))
	case 5:
		what = "image"
		class.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: oneOf(g, "al2023@v20260611", "al2023@v20260115", "al2023@v20261102")}}
	case 6:
		what = "subnets by id"
		class.Spec.SubnetSelectorTerms = nil
		for _, s := range g.subnets[:1+g.IntN(len(g.subnets))] {
			class.Spec.SubnetSelectorTerms = append(class.Spec.SubnetSelectorTerms, awsv1.SubnetSelectorTerm{ID: s.ID})
		}
	case 7:
		what = "security groups by id"
		class.Spec.SecurityGroupSelectorTerms = nil
		for _, s := range g.groups[:1+g.IntN(len(g.groups))] {
			class.Spec.SecurityGroupSelectorTerms = append(class.Spec.SecurityGroupSelectorTerms, awsv1.SecurityGroupSelectorTerm{ID: s.ID})
		}
	case 8:
		what = "kubelet.maxPods"
		class.Spec.Kubelet = awsv1.KubeletConfiguration{"maxPods": apiextensionsv1.JSON{Raw: []byte(strconv.Itoa(20 + g.IntN(20)))}}
	case 9:
		what = "associatePublicIPAddress"
		class.Spec.AssociatePublicIPAddress = new(g.IntN(2) == 0)
	case 10:
		what = "selectors by tag"
		class.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{Tags: map[string]string{"karpenter.sh/discovery": "c"}}}
		class.Spec.SecurityGroupSelectorTerms = []awsv1.SecurityGroupSelectorTerm{{Tags: map[string]string{"karpenter.sh/discovery": "c"}}}
	}
	return "EC2NodeClass " + name + ": " + what
}

func (g *generator) changeOverlay(d declaration) string {
	name := oneOf(g, "one", "two")
	if _, there := d.overlays[name]; there && g.IntN(2) == 0 {
		delete(d.overlays, name)
		return "NodeOverlay " + name + " deleted"
	}
	o := &karpv1alpha1.NodeOverlay{TypeMeta: metav1.TypeMeta{APIVersion: "karpenter.sh/v1alpha1", Kind: "NodeOverlay"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
	family := map[string]string{"one": oneOf(g, "m5", "g5"), "two": oneOf(g, "c6i", "g4dn")}[name]
	o.Spec.Requirements = []karpv1alpha1.NodeSelectorRequirement{{Key: "karpenter.k8s.aws/instance-family", Operator: corev1.NodeSelectorOpIn, Values: []string{family}}}
	what := "price"
	if g.IntN(3) == 0 {
		what = "capacity"
		o.Spec.Capacity = corev1.ResourceList{"example.com/shares": resource.MustParse("4")}
	} else {
		o.Spec.PriceAdjustment = new(oneOf(g, "-50%", "+100%", "-10%"))
	}
	d.overlays[name] = o
	return "NodeOverlay " + name + " of " + family + ": " + what
}

func (g *generator) changeWorkload(d declaration) string {
	work, name := pick(g, d.deployments)
	container := &work.Spec.Template.Spec.Containers[0]
	what := ""
	switch g.IntN(6) {
	case 0, 1:
		what = "replicas"
		work.Spec.Replicas = new(int32(1 + g.IntN(5)))
	case 2:
		what = "cpu"
		container.Resources.Requests[corev1.ResourceCPU] = resource.MustParse(oneOf(g, "500m", "1", "1500m", "3"))
	case 3:
		what = "image"
		container.Image = fmt.Sprint("example.com/c:", g.made)
	case 4:
		what = "do-not-disrupt"
		if work.Spec.Template.Annotations == nil && g.IntN(3) == 0 {
			work.Spec.Template.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
		} else {
			work.Spec.Template.Annotations = nil
		}
	case 5:
		if len(d.deployments) > 4 {
			for _, extra := range slices.Sorted(maps.Keys(d.deployments)) {
				if strings.HasPrefix(extra, "job") {
					delete(d.deployments, extra)
					return "Deployment " + extra + " deleted"
				}
			}
		}
		name = fmt.Sprint("job", g.made)
		d.deployments[name] = randomDeployment(name, oneOf(g, "cpu", "burst"), int32(1+g.IntN(2)), oneOf(g, "1", "3"), 0)
		what = "new"
	}
	return "Deployment " + name + ": " + what
}
