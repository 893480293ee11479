package conversion_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/declared/conversion"
)

func TestNamesInWorkloadsFollow(t *testing.T) {
	const head = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\n"
	for name, c := range map[string]struct {
		before, after string
		reported      string
	}{
		"a node selector": {
			head + "spec:\n  nodeSelector: {karpenter.sh/provisioner-name: gpu}\n",
			head + "spec:\n  nodeSelector: {karpenter.sh/nodepool: gpu}\n",
			"a.yaml:6: lossless: Pod/x: karpenter.sh/provisioner-name is karpenter.sh/nodepool now",
		},
		"an expression that it does not exist": {
			head + "spec:\n  affinity:\n    nodeAffinity:\n      requiredDuringSchedulingIgnoredDuringExecution:\n        nodeSelectorTerms:\n        - matchExpressions:\n          - key: \"karpenter.sh/provisioner-name\"  # not on Karpenter's\n            operator: DoesNotExist\n",
			head + "spec:\n  affinity:\n    nodeAffinity:\n      requiredDuringSchedulingIgnoredDuringExecution:\n        nodeSelectorTerms:\n        - matchExpressions:\n          - key: \"karpenter.sh/nodepool\"  # not on Karpenter's\n            operator: DoesNotExist\n",
			"lossless",
		},
		"a spread": {
			head + "spec:\n  topologySpreadConstraints:\n  - topologyKey: karpenter.sh/provisioner-name\n    maxSkew: 1\n",
			head + "spec:\n  topologySpreadConstraints:\n  - topologyKey: karpenter.sh/nodepool\n    maxSkew: 1\n",
			"lossless",
		},
		"annotations of pods and nodes": {
			head + "  annotations:\n    karpenter.sh/do-not-evict: \"true\"\n",
			head + "  annotations:\n    karpenter.sh/do-not-disrupt: \"true\"\n",
			"lossless",
		},
		"the old name beside the new one": {
			head + "  annotations:\n    karpenter.sh/do-not-evict: \"true\" # for 0.31\n    karpenter.sh/do-not-disrupt: \"true\"\n",
			head + "  annotations:\n    karpenter.sh/do-not-disrupt: \"true\"\n",
			"a.yaml:6: lossless: Pod/x: karpenter.sh/do-not-evict is dropped beside karpenter.sh/do-not-disrupt",
		},
		"the old name beside the new one, of two minds": {
			head + "  annotations:\n    karpenter.sh/do-not-disrupt: \"false\"\n    karpenter.sh/do-not-consolidate: \"true\"\n",
			"# poolwright.dev/review-required: Pod/x: karpenter.sh/do-not-consolidate is dropped beside karpenter.sh/do-not-disrupt, its new name\n" + head + "  annotations:\n    karpenter.sh/do-not-disrupt: \"false\"\n",
			"manual: Pod/x: karpenter.sh/do-not-consolidate is dropped",
		},
		"a toleration of nodes that go": {
			head + "spec:\n  tolerations:\n  - key: karpenter.sh/disruption\n    operator: Equal\n    value: disrupting\n    effect: NoSchedule\n",
			head + "spec:\n  tolerations:\n  - key: karpenter.sh/disrupted\n    operator: Exists\n    effect: NoSchedule\n",
			"toleration of karpenter.sh/disruption is one of karpenter.sh/disrupted now",
		},
		"a mention in a text is for a person": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  query: sum by (karpenter.sh/provisioner-name) (x)\n", "",
			"a.yaml:5: manual: ConfigMap/x: a text mentions karpenter.sh/provisioner-name",
		},
		"what kubectl keeps is no mention": {
			head + "  annotations:\n    kubectl.kubernetes.io/last-applied-configuration: '{\"x\":\"karpenter.sh/do-not-evict\"}'\n", "", "",
		},
		"a secret is not read": {
			"apiVersion: v1\nkind: Secret\nmetadata: {name: x}\nstringData:\n  a: karpenter.sh/do-not-evict is\n", "", "",
		},
		"a label that is gone": {
			head + "spec:\n  nodeSelector:\n    karpenter.k8s.aws/instance-pods: \"29\"\n", "",
			"manual: Pod/x: no node carries karpenter.k8s.aws/instance-pods any more",
		},
		"settings that nobody reads": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: karpenter-global-settings, namespace: karpenter}\ndata: {aws.clusterName: c}\n", "",
			"manual: ConfigMap/karpenter/karpenter-global-settings: Karpenter no longer reads this ConfigMap",
		},
		"a definition of an API that is gone": {
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: provisioners.karpenter.sh}\nspec: {group: karpenter.sh}\n", "",
			"manual: CustomResourceDefinition/provisioners.karpenter.sh: this API is gone",
		},
		"a machine": {
			"apiVersion: karpenter.sh/v1alpha5\nkind: Machine\nmetadata: {name: m}\n", "",
			"manual: Machine/m: only the engine makes objects of this kind",
		},
		"a document with anchors, renamed once": {
			head + "  labels: &l\n    karpenter.sh/provisioner-name: x\nspec:\n  nodeSelector: *l\n",
			head + "  labels: &l\n    karpenter.sh/nodepool: x\nspec:\n  nodeSelector: *l\n",
			"lossless",
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := repo("a.yaml", c.before)
			r := converter(t, before, conversion.Options{})
			want := c.after
			if want == "" {
				want = c.before
			}
			if diff := cmp.Diff(want, string(after(before, r)["a.yaml"].Data)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := report(r); !strings.Contains(got, c.reported) || c.reported == "" && got != "" {
				t.Errorf("the report lacks %q:\n%s", c.reported, got)
			}
			unchangedBySecond(t, before, r)
		})
	}
}

func TestPatchesOfOldKindsAreForAPerson(t *testing.T) {
	const pool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\n"
	for name, c := range map[string]struct{ kustomization, patch, want string }{
		"a patch at a Provisioner": {
			"patches:\n- target: {kind: Provisioner, name: p}\n  patch: '[]'\n", "",
			"kustomization.yaml:2: manual: a patch is aimed at Provisioner; write it for NodePool or EC2NodeClass of v1",
		},
		"a patch at a version": {
			"patches:\n- target: {group: karpenter.sh, version: v1beta1, kind: NodePool}\n  patch: '[]'\n", "", "a patch is aimed at NodePool v1beta1",
		},
		"a patch within the kustomization": {
			"patches:\n- patch: |\n    apiVersion: karpenter.sh/v1beta1\n    kind: NodePool\n    metadata: {name: p}\n", "", "kustomization.yaml:2: manual: a patch within the kustomization is one of an old API",
		},
		"a JSON patch of a field that moved": {
			"patches:\n- target: {kind: NodePool}\n  patch: '[{\"op\": \"add\", \"path\": \"/spec/disruption/expireAfter\", \"value\": 1h}]'\n", "", "names a field that v1 has elsewhere",
		},
		"kubelet settings in a patch": {
			"patchesStrategicMerge: [p.yaml]\n", "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: p}\nspec: {template: {spec: {kubelet: {maxPods: 1}}}}\n",
			"p.yaml:4: manual: NodePool/p: a patch of spec.template.spec.kubelet depends on the object",
		},
		"a patch of a Provisioner": {
			"patches: [{path: p.yaml}]\n", "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: p}\nspec: {weight: 5}\n",
			"p.yaml:1: manual: Provisioner/p: a patch of karpenter.sh/v1alpha5 Provisioner depends on the object",
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := []string{"kustomization.yaml", "resources: [base.yaml]\n" + c.kustomization, "base.yaml", pool}
			if c.patch != "" {
				files = append(files, "p.yaml", c.patch)
			}
			c.want = strings.ReplaceAll(c.want, "kustomization.yaml:2", "kustomization.yaml:3")
			r := converter(t, repo(files...), conversion.Options{})
			if !r.Blocked() || !strings.Contains(report(r), c.want) {
				t.Errorf("the report lacks %q:\n%s", c.want, report(r))
			}
		})
	}
}

func TestAmazonLinux2IsRefusedFrom133On(t *testing.T) {
	const class = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: c}\nspec:\n  amiSelectorTerms:\n  - alias: al2@v20240807\n"
	cluster := func(version string) string {
		return "apiVersion: poolwright.dev/v1alpha1\nkind: Cluster\nmetadata: {name: dev}\nspec: {version: \"" + version + "\"}\n"
	}
	for name, c := range map[string]struct {
		files   []string
		version string
		want    string
	}{
		"the version is unknown":          {[]string{"a.yaml", class}, "", ""},
		"an older cluster":                {[]string{"a.yaml", class}, "1.32", ""},
		"a newer one, by the option":      {[]string{"a.yaml", class}, "1.33", "a.yaml:6: manual: EC2NodeClass/c: alias al2@v20240807 is refused at Kubernetes 1.33"},
		"a newer one, by its declaration": {[]string{"dev/a.yaml", class, "dev/cluster.yaml", cluster("1.34")}, "", "refused at Kubernetes 1.34"},
		"the option goes before":          {[]string{"dev/a.yaml", class, "dev/cluster.yaml", cluster("1.34")}, "1.31", ""},
		"each folder has its own cluster": {[]string{"dev/a.yaml", class, "dev/cluster.yaml", cluster("1.32"), "prod/cluster.yaml", cluster("1.35")}, "", ""},
		"a family that was made an alias": {[]string{"a.yaml", betaClass + betaRest + "  amiFamily: AL2\n"}, "1.33", "alias al2@latest is refused at Kubernetes 1.33: there are no images of Amazon Linux 2 from 1.33 on; choose al2023@latest or bottlerocket@latest"},
		"a template's default":            {[]string{"a.yaml", template + alphaRest}, "1.36", "alias al2@latest is refused at Kubernetes 1.36"},
	} {
		t.Run(name, func(t *testing.T) {
			r := converter(t, repo(c.files...), conversion.Options{KubernetesVersion: c.version})
			if got := report(r); !strings.Contains(got, c.want) || c.want == "" && got != "" {
				t.Errorf("the report lacks %q:\n%s", c.want, got)
			}
			if r.Blocked() {
				t.Error("it is blocked")
			}
		})
	}
}

func TestClustersInOneRepositoryKeepTheirClassesApart(t *testing.T) {
	pool := "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: p}\nspec: {disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1m}, template: {spec: {requirements: [], nodeClassRef: {name: c}, kubelet: {maxPods: MAX}}}}\n"
	class := "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: c}\nspec: {role: r}\n"
	r := converter(t, repo("dev/pool.yaml", strings.Replace(pool, "MAX", "1", 1), "dev/class.yaml", class, "prod/pool.yaml", strings.Replace(pool, "MAX", "2", 1), "prod/class.yaml", class), conversion.Options{})
	for file, want := range map[string]string{"dev/class.yaml": "kubelet: {maxPods: 1}", "prod/class.yaml": "kubelet: {maxPods: 2}"} {
		if got := string(r.Files[file]); !strings.Contains(got, want) || strings.Contains(got, "---") {
			t.Errorf("%s lacks %q:\n%s", file, want, got)
		}
	}
	r = converter(t, repo("pool.yaml", strings.Replace(pool, "MAX", "1", 1), "dev/class.yaml", class, "prod/class.yaml", class), conversion.Options{})
	if !strings.Contains(report(r), "of which there are several, none nearer than the others") {
		t.Error(report(r))
	}
}

func TestTheDefaultInstanceProfileOfOldSettingsIsWrittenDown(t *testing.T) {
	settings := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: karpenter-global-settings}\ndata: {aws.defaultInstanceProfile: prof}\n"
	object := template + "  subnetSelector: {a: b}\n  securityGroupSelector: {a: b}\n"
	r := converter(t, repo("a.yaml", object, "settings.yaml", settings), conversion.Options{})
	if got := string(r.Files["a.yaml"]); !strings.Contains(got, "instanceProfile: prof") || r.Blocked() {
		t.Errorf("%s\n%s", got, report(r))
	}
}

func TestFilesThatAreNobodysAreLeftAlone(t *testing.T) {
	r := converter(t, repo(".hidden/a.yaml", betaPool+betaRef, "a.txt", betaPool, "b.yaml", "broken: [", "c.yaml", "karpenter: is only mentioned\n", "list.yaml", "- karpenter\n"), conversion.Options{})
	if len(r.Files) > 0 || len(r.Changes) > 0 {
		t.Errorf("%v\n%s", r.Files, report(r))
	}
}
