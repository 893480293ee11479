package conversion_test

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/aws/karpenter-provider-aws/pkg/apis"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/conversion"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
)

// repo makes a file system of names and contents.
func repo(files ...string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for i := 0; i+1 < len(files); i += 2 {
		fsys[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return fsys
}

// after is a repository with what a conversion made of it.
func after(before fstest.MapFS, r conversion.Result) fstest.MapFS {
	out := maps.Clone(before)
	for name, content := range r.Files {
		out[name] = &fstest.MapFile{Data: content}
	}
	return out
}

func converter(t *testing.T, fsys fs.FS, opts conversion.Options) conversion.Result {
	t.Helper()
	r, err := conversion.Files(fsys, ".", opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// valid checks what was made against the schemas and rules of the embedded
// Karpenter, as lint does.
func valid(t *testing.T, fsys fs.FS) {
	t.Helper()
	for _, p := range faults(t, fsys) {
		t.Errorf("not valid for v1: %s", p)
	}
}

func faults(t *testing.T, fsys fs.FS) []string {
	t.Helper()
	d, err := declared.Load(fsys, ".", declared.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range lint.Check(d, apis.CRDs) {
		out = append(out, p.String())
	}
	return out
}

const (
	betaClass = "apiVersion: karpenter.k8s.aws/v1beta1\nkind: EC2NodeClass\nmetadata: {name: c}\nspec:\n"
	template  = "apiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata: {name: c}\nspec:\n"
	betaPool  = "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: p}\nspec:\n"
	oldPool   = "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: p}\nspec:\n"

	betaRest  = "  role: r\n  subnetSelectorTerms: [{id: subnet-1}]\n  securityGroupSelectorTerms: [{id: sg-1}]\n"
	alphaRest = "  instanceProfile: r\n  subnetSelector: {a: b}\n  securityGroupSelector: {a: b}\n"
	betaRef   = "  template: {spec: {nodeClassRef: {name: c}, requirements: []}}\n"
	oldRef    = "  providerRef: {name: c}\n"
)

func TestEveryFieldMeansWhatItMeant(t *testing.T) {
	for name, c := range map[string]struct {
		object string
		// want are fields of the result, by path, in JSON-like YAML; "" is absent.
		want     map[string]string
		reported []string // parts of the report
	}{
		"the policy under its new name, and what was not waited for": {
			betaPool + betaRef + "  disruption: {consolidationPolicy: WhenUnderutilized}\n",
			map[string]string{"spec.disruption": "{consolidateAfter: 0s, consolidationPolicy: WhenEmptyOrUnderutilized}"},
			[]string{"lossless: NodePool/p: spec.disruption.consolidationPolicy: WhenUnderutilized is called WhenEmptyOrUnderutilized now", "default: NodePool/p: spec.disruption.consolidateAfter: 0s"},
		},
		"the accelerators under names that changed": {
			betaPool + "  template: {spec: {nodeClassRef: {name: c}, requirements: [{key: karpenter.k8s.aws/instance-accelerator-name, operator: In, values: [inferentia]}]}}\n",
			map[string]string{"spec.template.spec.requirements": "[{key: karpenter.k8s.aws/instance-accelerator-name, operator: In, values: [inferentia]}]"},
			[]string{"manual: NodePool/p: Karpenter 1.1 gave values of karpenter.k8s.aws/instance-accelerator-name other names"},
		},
		"the accelerators of a Provisioner, too": {
			oldPool + oldRef + "  requirements: [{key: karpenter.k8s.aws/instance-accelerator-name, operator: NotIn, values: [inferentia]}]\n",
			nil,
			[]string{"manual: Provisioner/p: Karpenter 1.1 gave values of karpenter.k8s.aws/instance-accelerator-name other names"},
		},
		"no policy at all is v1beta1's default": {
			betaPool + betaRef,
			map[string]string{"spec.disruption": "{consolidateAfter: 0s, consolidationPolicy: WhenEmptyOrUnderutilized}", "spec.template.spec.expireAfter": "720h"},
			[]string{"default: NodePool/p: spec.template.spec.expireAfter: 720h"},
		},
		"consolidation that never comes": {
			betaPool + betaRef + "  disruption: {consolidationPolicy: WhenUnderutilized, consolidateAfter: Never, expireAfter: Never}\n",
			map[string]string{"spec.disruption": "{consolidateAfter: Never, consolidationPolicy: WhenEmptyOrUnderutilized}", "spec.template.spec.expireAfter": "Never"},
			nil,
		},
		"budgets, and that they hold back expiry no longer": {
			betaPool + betaRef + "  disruption:\n    expireAfter: 24h\n    budgets: [{nodes: \"0\", schedule: 0 9 * * *, duration: 8h}]\n",
			map[string]string{"spec.disruption.budgets": `[{duration: 8h, nodes: "0", schedule: 0 9 * * *}]`, "spec.template.spec.expireAfter": "24h"},
			[]string{"manual: NodePool/p: budgets no longer hold back expiry"},
		},
		"a class of another group": {
			betaPool + "  template: {spec: {nodeClassRef: {apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClass, name: c}, requirements: []}}\n",
			map[string]string{"spec.template.spec.nodeClassRef": "{group: karpenter.k8s.aws, kind: EC2NodeClass, name: c}"},
			[]string{"lossless: NodePool/p: nodeClassRef.apiVersion is group now"},
		},
		"minimum values, limits, weight and status": {
			betaPool + "  template: {spec: {resources: {requests: {cpu: 1}}, nodeClassRef: {name: c}, requirements: [{key: karpenter.k8s.aws/instance-family, operator: Exists, minValues: 3}]}}\n  limits: {cpu: 10}\n  weight: 5\nstatus: {resources: {}}\n",
			map[string]string{"spec.limits": "{cpu: 10}", "spec.weight": "5", "status": "", "spec.template.spec.resources": "", "spec.template.spec.requirements": "[{key: karpenter.k8s.aws/instance-family, minValues: 3, operator: Exists}]"},
			[]string{"status is dropped", "spec.template.spec.resources is dropped"},
		},
		"what exports leave": {
			"apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata:\n  name: p\n  annotations:\n    karpenter.sh/nodepool-hash: \"1\"\n    karpenter.sh/stored-version-migrated: \"true\"\n    ours: x\nspec:\n" + betaRef,
			map[string]string{"metadata.annotations": "{ours: x}"},
			[]string{"annotation karpenter.sh/nodepool-hash is dropped"},
		},
		"a Provisioner that declares nothing: every default of v1alpha5": {
			oldPool + oldRef,
			map[string]string{
				"kind":                            "NodePool",
				"spec.disruption":                 "{budgets: [{nodes: 10%}], consolidateAfter: Never, consolidationPolicy: WhenEmpty}",
				"spec.template.spec.expireAfter":  "Never",
				"spec.template.spec.nodeClassRef": "{group: karpenter.k8s.aws, kind: EC2NodeClass, name: c}",
				"spec.template.spec.requirements": "[{key: kubernetes.io/os, operator: In, values: [linux]}, {key: kubernetes.io/arch, operator: In, values: [amd64]}, {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}, {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: [\"2\"]}]",
				"spec.providerRef":                "",
			},
			[]string{"default: Provisioner/p: requirement karpenter.sh/capacity-type In [on-demand]"},
		},
		"a Provisioner that chooses instance types gets no categories": {
			oldPool + oldRef + "  requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [g5.xlarge]}, {key: karpenter.sh/capacity-type, operator: In, values: [spot]}, {key: kubernetes.io/arch, operator: In, values: [arm64]}]\n",
			map[string]string{"spec.template.spec.requirements": "[{key: node.kubernetes.io/instance-type, operator: In, values: [g5.xlarge]}, {key: karpenter.sh/capacity-type, operator: In, values: [spot]}, {key: kubernetes.io/arch, operator: In, values: [arm64]}, {key: kubernetes.io/os, operator: In, values: [linux]}]"},
			nil,
		},
		"labels, annotations, taints and limits move": {
			oldPool + oldRef + "  labels: {a: b}\n  annotations: {c: d}\n  taints: [{key: t, effect: NoSchedule}]\n  startupTaints: [{key: s, effect: NoSchedule}]\n  limits: {resources: {cpu: 4}}\n  weight: 3\n",
			map[string]string{"spec.template.metadata": "{annotations: {c: d}, labels: {a: b}}", "spec.template.spec.taints": "[{effect: NoSchedule, key: t}]", "spec.template.spec.startupTaints": "[{effect: NoSchedule, key: s}]", "spec.limits": "{cpu: 4}", "spec.weight": "3"},
			nil,
		},
		"an empty node's seconds": {
			oldPool + oldRef + "  ttlSecondsAfterEmpty: 30\n  ttlSecondsUntilExpired: 2592000\n",
			map[string]string{"spec.disruption": "{budgets: [{nodes: 10%}], consolidateAfter: 30s, consolidationPolicy: WhenEmpty}", "spec.template.spec.expireAfter": "2592000s", "spec.ttlSecondsAfterEmpty": "", "spec.ttlSecondsUntilExpired": ""},
			nil,
		},
		"consolidation": {
			oldPool + oldRef + "  consolidation: {enabled: yes}\n",
			map[string]string{"spec.disruption": "{budgets: [{nodes: 10%}], consolidateAfter: 0s, consolidationPolicy: WhenEmptyOrUnderutilized}", "spec.consolidation": ""},
			nil,
		},
		"consolidation that is off, and its seconds": {
			oldPool + oldRef + "  consolidation: {enabled: false}\n  ttlSecondsAfterEmpty: 0\n",
			map[string]string{"spec.disruption": "{budgets: [{nodes: 10%}], consolidateAfter: 0s, consolidationPolicy: WhenEmpty}", "spec.consolidation": ""},
			nil,
		},
		"both, which v1alpha5 refused": {
			oldPool + oldRef + "  consolidation: {enabled: true}\n  ttlSecondsAfterEmpty: 60\n",
			map[string]string{"spec.disruption": "{budgets: [{nodes: 10%}], consolidateAfter: 0s, consolidationPolicy: WhenEmptyOrUnderutilized}"},
			[]string{"manual: Provisioner/p: spec.ttlSecondsAfterEmpty is dropped"},
		},
		"each family's alias": {
			betaClass + betaRest + "  amiFamily: Bottlerocket\n",
			map[string]string{"spec.amiSelectorTerms": "[{alias: bottlerocket@latest}]", "spec.amiFamily": ""},
			nil,
		},
		"a family beside terms": {
			betaClass + betaRest + "  amiFamily: AL2\n  amiSelectorTerms: [{id: ami-1}]\n",
			map[string]string{"spec.amiSelectorTerms": "[{id: ami-1}]", "spec.amiFamily": "AL2"},
			nil,
		},
		"Ubuntu with terms, and its volume": {
			betaClass + betaRest + "  amiFamily: Ubuntu\n  amiSelectorTerms: [{name: ubuntu-*, owner: \"099720109477\"}]\n",
			map[string]string{"spec.amiFamily": "AL2", "spec.blockDeviceMappings": "[{deviceName: /dev/sda1, ebs: {encrypted: true, volumeSize: 20Gi, volumeType: gp3}, rootVolume: true}]"},
			nil,
		},
		"Custom, whose user data somebody must read": {
			betaClass + betaRest + "  amiFamily: Custom\n  amiSelectorTerms: [{id: ami-1}]\n",
			map[string]string{"spec.amiFamily": "Custom"},
			[]string{"manual: EC2NodeClass/c: amiFamily Custom: the user data must register nodes with the taint karpenter.sh/unregistered:NoExecute"},
		},
		"the hop limit that was 2": {
			betaClass + betaRest + "  amiFamily: AL2023\n",
			map[string]string{"spec.metadataOptions": "{httpEndpoint: enabled, httpProtocolIPv6: disabled, httpPutResponseHopLimit: 2, httpTokens: required}"},
			[]string{"default: EC2NodeClass/c: spec.metadataOptions.httpPutResponseHopLimit: 2"},
		},
		"the hop limit beside other options": {
			betaClass + betaRest + "  amiFamily: AL2023\n  metadataOptions: {httpTokens: optional}\n",
			map[string]string{"spec.metadataOptions": "{httpPutResponseHopLimit: 2, httpTokens: optional}"},
			nil,
		},
		"what EC2 chose for a template's other options": {
			template + alphaRest + "  metadataOptions: {httpEndpoint: enabled}\n",
			map[string]string{"spec.metadataOptions": "{httpEndpoint: enabled, httpPutResponseHopLimit: 1, httpTokens: optional}"},
			nil,
		},
		"tags that Karpenter sets itself": {
			betaClass + betaRest + "  amiFamily: AL2023\n  tags: {team: ml, karpenter.sh/nodepool: p, kubernetes.io/cluster/x: owned}\n",
			map[string]string{"spec.tags": "{team: ml}"},
			[]string{"tag kubernetes.io/cluster/x is dropped"},
		},
		"commas in tags of terms": {
			betaClass + "  role: r\n  amiFamily: AL2023\n  subnetSelectorTerms: [{tags: {Name: \"a, b\", zone: x}}]\n  securityGroupSelectorTerms: [{id: sg-1}]\n",
			map[string]string{"spec.subnetSelectorTerms": "[{tags: {Name: a, zone: x}}, {tags: {Name: b, zone: x}}]"},
			nil,
		},
		"a template that declares little": {
			template + alphaRest,
			map[string]string{
				"kind": "EC2NodeClass", "spec.amiSelectorTerms": "[{alias: al2@latest}]", "spec.instanceProfile": "r",
				"spec.subnetSelectorTerms": "[{tags: {a: b}}]", "spec.securityGroupSelectorTerms": "[{tags: {a: b}}]", "spec.subnetSelector": "",
				"spec.metadataOptions": "{httpEndpoint: enabled, httpProtocolIPv6: disabled, httpPutResponseHopLimit: 2, httpTokens: required}",
			},
			[]string{"default: AWSNodeTemplate/c: amiSelectorTerms: alias al2@latest"},
		},
		"selectors of ids, and lists in tags": {
			template + "  instanceProfile: r\n  subnetSelector: {aws-ids: \"subnet-1,subnet-2\"}\n  securityGroupSelector: {Name: \"a,b\", env: x}\n",
			map[string]string{"spec.subnetSelectorTerms": "[{id: subnet-1}, {id: subnet-2}]", "spec.securityGroupSelectorTerms": "[{tags: {Name: a, env: x}}, {tags: {Name: b, env: x}}]"},
			nil,
		},
		"ids beside tags, which were ignored": {
			template + "  instanceProfile: r\n  subnetSelector: {\"aws::ids\": subnet-1, env: x}\n  securityGroupSelector: {a: b}\n",
			map[string]string{"spec.subnetSelectorTerms": "[{id: subnet-1}]"},
			[]string{"manual: AWSNodeTemplate/c: subnetSelector had ids and more"},
		},
		"AMIs by names and owners": {
			template + alphaRest + "  amiFamily: AL2\n  amiSelector: {\"aws::name\": \"n1,n2\", \"aws::owners\": \"self,123456789012\"}\n",
			map[string]string{"spec.amiFamily": "AL2", "spec.amiSelectorTerms": `[{name: n1, owner: self}, {name: n1, owner: "123456789012"}, {name: n2, owner: self}, {name: n2, owner: "123456789012"}]`},
			nil,
		},
		"AMIs of a template without a family": {
			template + alphaRest + "  amiSelector: {aws-ids: ami-1}\n",
			map[string]string{"spec.amiFamily": "AL2", "spec.amiSelectorTerms": "[{id: ami-1}]"},
			nil,
		},
		"an empty tag value, which is any": {
			template + "  instanceProfile: r\n  subnetSelector: {a: \"\"}\n  securityGroupSelector: {a: \"*\"}\n",
			map[string]string{"spec.subnetSelectorTerms": "[{tags: {a: '*'}}]", "spec.securityGroupSelectorTerms": "[{tags: {a: '*'}}]"},
			[]string{"manual: AWSNodeTemplate/c: subnetSelector: tag a has an empty value"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := repo("a.yaml", c.object)
			r := converter(t, before, conversion.Options{})
			if r.Blocked() {
				t.Fatalf("it is blocked:\n%s", report(r))
			}
			var got map[string]any
			if err := yaml.Unmarshal(r.Files["a.yaml"], &got); err != nil {
				t.Fatal(err)
			}
			for path, want := range c.want {
				if diff := cmp.Diff(want, flat(t, got, path)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", path, diff)
				}
			}
			for _, reported := range c.reported {
				if !strings.Contains(report(r), reported) {
					t.Errorf("the report lacks %q:\n%s", reported, report(r))
				}
			}
			valid(t, after(before, r))
			unchangedBySecond(t, before, r)
		})
	}
}

// flat is a field in one line, empty where it is not there.
func flat(t *testing.T, v any, path string) string {
	t.Helper()
	for key := range strings.SplitSeq(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return ""
		}
		if v, ok = m[key]; !ok {
			return ""
		}
	}
	return inOneLine(v)
}

func inOneLine(v any) string {
	switch v := v.(type) {
	case map[string]any:
		var out []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out = append(out, k+": "+inOneLine(v[k]))
		}
		return "{" + strings.Join(out, ", ") + "}"
	case []any:
		var out []string
		for _, e := range v {
			out = append(out, inOneLine(e))
		}
		return "[" + strings.Join(out, ", ") + "]"
	}
	b, err := yaml.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b))
}

func TestWhatCannotBeConvertedIsLeftWithWhatToWrite(t *testing.T) {
	for name, c := range map[string]struct{ object, want string }{
		"a launch template":               {template + alphaRest + "  launchTemplate: x\n", "a.yaml:8: manual: AWSNodeTemplate/c: Karpenter v1 takes no launch templates; write what it holds into the class instead"},
		"Ubuntu without terms":            {betaClass + betaRest + "  amiFamily: Ubuntu\n", "a.yaml:8: manual: EC2NodeClass/c: Karpenter v1 finds no Ubuntu AMIs by itself; write spec.amiSelectorTerms"},
		"Ubuntu of a template":            {template + alphaRest + "  amiFamily: Ubuntu\n", "write spec.amiSelector with their ids"},
		"Custom without terms":            {betaClass + betaRest + "  amiFamily: Custom\n", "amiFamily Custom needs spec.amiSelectorTerms"},
		"an unknown family":               {betaClass + betaRest + "  amiFamily: Gentoo\n", "amiFamily Gentoo is not known; it is one of AL2"},
		"a class without a family":        {betaClass + betaRest, "spec.amiFamily is missing"},
		"neither role nor profile":        {betaClass + "  amiFamily: AL2023\n", "spec has neither role nor instanceProfile"},
		"role and profile":                {betaClass + betaRest + "  amiFamily: AL2023\n  instanceProfile: x\n", "spec has role and instanceProfile; remove one"},
		"a volume without a size":         {betaClass + betaRest + "  amiFamily: AL2023\n  blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeType: gp3}}]\n", "neither volumeSize nor snapshotID"},
		"WhenEmpty without a time":        {betaPool + betaRef + "  disruption: {consolidationPolicy: WhenEmpty}\n", "WhenEmpty needs spec.disruption.consolidateAfter"},
		"a pool without a class":          {betaPool + "  template: {spec: {}}\n", "nodeClassRef.name is missing"},
		"a Provisioner without a class":   {oldPool + "  weight: 1\n", "spec.providerRef.name is missing"},
		"another provider's":              {oldPool + "  providerRef: {kind: AKSNodeTemplate, name: c}\n", "only AWSNodeTemplate can be converted"},
		"seconds that are none":           {oldPool + oldRef + "  ttlSecondsAfterEmpty: soon\n", "must be a number of seconds"},
		"a list where a mapping belongs":  {betaPool + "  template: []\n  disruption: [a]\n", "spec.disruption must be a mapping"},
		"a text where a mapping belongs":  {betaPool + "  template: x\n", "spec.template must be a mapping"},
		"requirements that are no list":   {oldPool + oldRef + "  requirements: {a: b}\n", "spec.requirements must be a list"},
		"a version from before":           {"apiVersion: karpenter.sh/v1alpha4\nkind: Provisioner\nmetadata: {name: p}\n", "karpenter.sh/v1alpha4 Provisioner is not known; a conversion starts from"},
		"no name":                         {"apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {}\nspec: {}\n", "metadata.name is missing"},
		"kubelet settings without class":  {betaPool + "  template: {spec: {nodeClassRef: {name: c}, kubelet: {maxPods: 5}}}\n", "the pool's kubelet settings belong to EC2NodeClass c, which is not here"},
		"a second pool of the name":       {oldPool + oldRef + "---\n" + betaPool + betaRef, "there is a NodePool of this name, too (a.yaml:7)"},
		"a second class of the name":      {template + alphaRest + "---\n" + betaClass + betaRest + "  amiFamily: AL2023\n", "there is an EC2NodeClass of this name, too"},
		"selectors with very many values": {template + "  instanceProfile: r\n  securityGroupSelector: {a: b}\n  subnetSelector: {a: \"1,2,3,4,5,6\", b: \"1,2,3,4,5,6\"}\n", "becomes more than 30 terms"},
		"a template that is not rendered": {"apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: {{ .Values.name }}}\n", "names an old API of Karpenter and cannot be parsed"},
	} {
		t.Run(name, func(t *testing.T) {
			before := repo("a.yaml", c.object)
			r := converter(t, before, conversion.Options{})
			if !r.Blocked() {
				t.Error("nothing is blocked")
			}
			if !strings.Contains(report(r), c.want) {
				t.Errorf("the report lacks %q:\n%s", c.want, report(r))
			}
			if !strings.Contains(c.object, "---") && len(r.Files) > 0 {
				t.Errorf("it was changed: %s", r.Files["a.yaml"])
			}
		})
	}
}
