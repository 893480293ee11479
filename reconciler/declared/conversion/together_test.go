package conversion_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/declared/conversion"
)

// Pools and classes are converted together, as texts: what matters here is what the
// files look like afterwards.
func TestFilesKeepTheFormOfTheirAuthors(t *testing.T) {
	for name, c := range map[string]struct {
		before, after []string
		reported      []string
		invalid       bool // the objects are too short to be valid
	}{
		"kubelet settings move to the class, with their comments": {
			before: []string{"a.yaml", `apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata:
  name: p
spec:
  template:
    spec:
      # as many pods as addresses
      kubelet:  # of every node
        maxPods: 29  # c5.large
        # for the system
        systemReserved: {cpu: 1, memory: 1Gi}
      requirements: []
      nodeClassRef:
        apiVersion: karpenter.k8s.aws/v1beta1
        kind: EC2NodeClass
        name: c # the one below
      expireAfter: Never
  disruption:
    consolidationPolicy: WhenEmpty
    consolidateAfter: 1m
`, "b.yaml", "---\n" + `apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: c}
spec:
    role: r
    amiSelectorTerms: [{alias: al2023@latest}]
    subnetSelectorTerms: [{id: subnet-1}]
    securityGroupSelectorTerms: [{id: sg-1}]
    # the end
`},
			after: []string{"a.yaml", `apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: p
spec:
  template:
    spec:
      requirements: []
      nodeClassRef:
        group: karpenter.k8s.aws
        kind: EC2NodeClass
        name: c # the one below
      expireAfter: Never
  disruption:
    consolidationPolicy: WhenEmpty
    consolidateAfter: 1m
`, "b.yaml", "---\n" + `apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: c}
spec:
    role: r
    amiSelectorTerms: [{alias: al2023@latest}]
    subnetSelectorTerms: [{id: subnet-1}]
    securityGroupSelectorTerms: [{id: sg-1}]
    # the end
    # as many pods as addresses
    kubelet:  # of every node
      maxPods: 29  # c5.large
      # for the system
      systemReserved: {cpu: "1", memory: 1Gi}
`},
		},
		"a class splits when its pools disagree, and stays with those that declare nothing": {
			before: []string{"a.yaml", `apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: plain}
spec:
  template: {spec: {requirements: [], nodeClassRef: {name: c}, expireAfter: Never}}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1m}
---
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: many}
spec:
  template: {spec: {requirements: [], nodeClassRef: {name: c}, kubelet: {maxPods: 110}, expireAfter: Never}}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1m}
---
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: as-many}
spec:
  template: {spec: {requirements: [], nodeClassRef: {name: c}, kubelet: {maxPods: 110, containerRuntime: dockerd}, expireAfter: Never}}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1m}
---
# The class of all.
apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata:
  name: c
spec:
  amiFamily: AL2023
  role: r  # made by Terraform
  subnetSelectorTerms: [{id: subnet-1}]
  securityGroupSelectorTerms: [{id: sg-1}]
  metadataOptions: {httpPutResponseHopLimit: 1}
`},
			after: []string{"a.yaml", `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: plain}
spec:
  template: {spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: c}, expireAfter: Never}}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1m}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: many}
spec:
  template: {spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: c-HASH}, expireAfter: Never}}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1m}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: as-many}
spec:
  template: {spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: c-HASH}, expireAfter: Never}}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1m}
---
# The class of all.
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata:
  name: c
spec:
  amiSelectorTerms:
    - alias: al2023@latest
  role: r  # made by Terraform
  subnetSelectorTerms: [{id: subnet-1}]
  securityGroupSelectorTerms: [{id: sg-1}]
  metadataOptions: {httpPutResponseHopLimit: 1}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata:
  name: c-HASH
spec:
  amiSelectorTerms:
    - alias: al2023@latest
  role: r  # made by Terraform
  subnetSelectorTerms: [{id: subnet-1}]
  securityGroupSelectorTerms: [{id: sg-1}]
  metadataOptions: {httpPutResponseHopLimit: 1}
  kubelet: {maxPods: 110}
`},
			reported: []string{"a.yaml:12: lossless: NodePool/many: kubelet settings are spec.kubelet of EC2NodeClass c-HASH now, a copy of c", "kubelet containerRuntime is dropped"},
		},
		"a provider within a Provisioner becomes a class, Windows line ends kept": {
			before: []string{"a.yaml", crlf(`# pool
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata:
  name: p
spec:
  requirements:
  - {key: node.kubernetes.io/instance-type, operator: In, values: [g5.xlarge]}
  - {key: kubernetes.io/os, operator: In, values: [linux]}
  - {key: kubernetes.io/arch, operator: In, values: [amd64]}
  # what AWS needs
  provider:
    instanceProfile: prof # of Terraform
    subnetSelector:
      env: dev # tag

    securityGroupSelector: {env: dev}
    tags: {team: ml}
    metadataOptions:
      httpTokens: required
      httpPutResponseHopLimit: 3
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other}
`)},
			after: []string{"a.yaml", crlf(`# pool
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: p
spec:
  template:
    spec:
      requirements:
      - {key: node.kubernetes.io/instance-type, operator: In, values: [g5.xlarge]}
      - {key: kubernetes.io/os, operator: In, values: [linux]}
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      - {key: karpenter.sh/capacity-type, operator: In, values: ["on-demand"]}
      # what AWS needs
      nodeClassRef:
        group: karpenter.k8s.aws
        kind: EC2NodeClass
        name: p
      expireAfter: Never
  disruption:
    consolidationPolicy: WhenEmpty
    consolidateAfter: Never
    budgets:
    - nodes: 10%
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata:
  name: p
spec:
  instanceProfile: prof # of Terraform
  subnetSelectorTerms:
  - tags:
      env: dev # tag

  securityGroupSelectorTerms:
  - tags:
      env: dev
  tags: {team: ml}
  metadataOptions:
    httpTokens: required
    httpPutResponseHopLimit: 3
  amiSelectorTerms:
  - alias: al2@latest
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other}
`)},
		},
		"JSON stays JSON": {
			before: []string{"a.json", `{
    "apiVersion": "karpenter.k8s.aws/v1beta1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "c"},
    "spec": {
        "role": "r",
        "amiFamily": "AL2023",
        "subnetSelectorTerms": [{"id": "subnet-1"}],
        "securityGroupSelectorTerms": [
            {"id": "sg-1"}
        ]
    }
}
`},
			after: []string{"a.json", `{
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "c"},
    "spec": {
        "role": "r",
        "amiSelectorTerms": [
            {
                "alias": "al2023@latest"
            }
        ],
        "subnetSelectorTerms": [{"id": "subnet-1"}],
        "securityGroupSelectorTerms": [
            {"id": "sg-1"}
        ],
        "metadataOptions": {
            "httpEndpoint": "enabled",
            "httpProtocolIPv6": "disabled",
            "httpPutResponseHopLimit": 2,
            "httpTokens": "required"
        }
    }
}
`},
		},
		"items of a List": {
			before: []string{"a.yaml", `apiVersion: v1
kind: List
items:
# first
- apiVersion: karpenter.k8s.aws/v1beta1
  kind: EC2NodeClass
  metadata: {name: c}
  spec:
    # which image
    amiFamily: AL2023
    role: r
    subnetSelectorTerms: [{id: subnet-1}]
    securityGroupSelectorTerms: [{id: sg-1}]
    metadataOptions: {httpPutResponseHopLimit: 1}
# second
- {apiVersion: v1, kind: ConfigMap, metadata: {name: x}}
`},
			after: []string{"a.yaml", `apiVersion: v1
kind: List
items:
# first
- apiVersion: karpenter.k8s.aws/v1
  kind: EC2NodeClass
  metadata: {name: c}
  spec:
    # which image
    amiSelectorTerms:
    - alias: al2023@latest
    role: r
    subnetSelectorTerms: [{id: subnet-1}]
    securityGroupSelectorTerms: [{id: sg-1}]
    metadataOptions: {httpPutResponseHopLimit: 1}
# second
- {apiVersion: v1, kind: ConfigMap, metadata: {name: x}}
`},
		},
		"aliases are written out where they are in what changes": {
			before: []string{"a.yaml", `apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata: {name: c}
spec:
  amiFamily: AL2023
  role: r
  subnetSelectorTerms: &terms
    - tags: {env: x}
  securityGroupSelectorTerms: *terms
  metadataOptions: {httpPutResponseHopLimit: 1}
`},
			after: []string{"a.yaml", `apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: c}
spec:
  amiSelectorTerms:
    - alias: al2023@latest
  role: r
  subnetSelectorTerms: &terms
    - tags: {env: x}
  securityGroupSelectorTerms:
    - tags: {env: x}
  metadataOptions: {httpPutResponseHopLimit: 1}
`},
			reported: []string{"YAML aliases are written out"},
		},
		"aliases are written out in a patch, and in a class that takes settings": {
			before: []string{"kustomization.yaml", "resources: [base.yaml]\npatches:\n- path: patch.yaml\n", "patch.yaml", `apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: p, labels: &l {a: b}}
spec:
  template: {metadata: {labels: *l}}
  disruption: {expireAfter: 24h}
`, "base.yaml", `apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: p}
spec:
  template: {spec: {requirements: [], nodeClassRef: {name: c}, kubelet: {maxPods: 3}}}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1m, expireAfter: 1h}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: c}
spec:
  role: r
  subnetSelectorTerms: &t [{tags: {a: b}}]
  securityGroupSelectorTerms: *t
  amiSelectorTerms: [{alias: al2023@latest}]
`},
			after: []string{"patch.yaml", `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: p, labels: &l {a: b}}
spec:
  template: {metadata: {labels: {a: b}}, spec: {expireAfter: 24h}}
`, "base.yaml", `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: p}
spec:
  template: {spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: c}, expireAfter: 1h}}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1m}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: c}
spec:
  role: r
  subnetSelectorTerms: &t [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
  amiSelectorTerms: [{alias: al2023@latest}]
  kubelet: {maxPods: 3}
`},
		},
		"what Karpenter 1.0 kept of kubelet settings": {
			before: []string{"a.yaml", `apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: p
  annotations:
    compatibility.karpenter.sh/v1beta1-kubelet-conversion: '{"maxPods":42,"kubeReserved":{"cpu":"1"}}'
    compatibility.karpenter.sh/v1beta1-nodeclass-reference: '{"name":"c"}'
spec:
  template:
    spec:
      requirements: []
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: c}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: c}
spec:
  role: r
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{id: subnet-1}]
  securityGroupSelectorTerms: [{id: sg-1}]
`},
			after: []string{"a.yaml", `apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: p
spec:
  template:
    spec:
      requirements: []
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: c}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: c}
spec:
  role: r
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{id: subnet-1}]
  securityGroupSelectorTerms: [{id: sg-1}]
  kubelet:
    maxPods: 42
    kubeReserved:
      cpu: "1"
`},
		},
		"a patch sets no more than it did": {
			before: []string{"kustomization.yaml", "resources: [base.yaml]\npatches:\n- path: patch.yaml\n", "patch.yaml", `apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata:
  name: p
spec:
  disruption:
    # every day here
    expireAfter: 24h
`, "base.yaml", `apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: p}
spec:
  template: {spec: {requirements: [], nodeClassRef: {name: c}}}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1m, expireAfter: 1h}
`},
			after: []string{"kustomization.yaml", "resources: [base.yaml]\npatches:\n- path: patch.yaml\n", "patch.yaml", `apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: p
spec:
  template:
    spec:
      # every day here
      expireAfter: 24h
`, "base.yaml", `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: p}
spec:
  template: {spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: c}, expireAfter: 1h}}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1m}
`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before, want := repo(c.before...), repo(c.after...)
			r := converter(t, before, conversion.Options{})
			got := after(before, r)
			for file := range want {
				if diff := cmp.Diff(string(want[file].Data), unhashed(string(got[file].Data))); diff != "" {
					t.Errorf("%s (-want +got):\n%s", file, diff)
				}
			}
			for _, reported := range c.reported {
				if !strings.Contains(unhashed(report(r)), reported) {
					t.Errorf("the report lacks %q:\n%s", reported, report(r))
				}
			}
			if r.Blocked() || strings.Contains(report(r), "formatted anew") {
				t.Error(report(r))
			}
			if !c.invalid {
				valid(t, got)
			}
			unchangedBySecond(t, before, r)
		})
	}
}

func crlf(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }

// unhashed hides the hash in the name of the copy of a class.
func unhashed(s string) string {
	for {
		i := strings.Index(s, "c-")
		for i >= 0 && !hex(s[i+2:]) {
			j := strings.Index(s[i+2:], "c-")
			if j < 0 {
				return s
			}
			i += 2 + j
		}
		if i < 0 {
			return s
		}
		s = s[:i] + "c-HASH" + s[i+10:]
	}
}

func hex(s string) bool {
	return len(s) >= 8 && strings.Trim(s[:8], "0123456789abcdef") == ""
}
