package conversion_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/poolwright/poolwright/reconciler/declared/conversion"
)

// FuzzFiles: whatever a file holds, a conversion ends, a second one changes nothing,
// and what is no old manifest keeps its bytes. Where the loop reads the file
// without a complaint, it makes the same of its objects.
func FuzzFiles(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*/*/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatal(err, files)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	f.Add([]byte(template + alphaRest + "---\n" + oldPool + oldRef + "  kubeletConfiguration: {maxPods: 3}\n"))
	f.Add([]byte(betaClass + betaRest + "  amiFamily: AL2 # x\n---\n" + strings.Replace(betaPool, "p}", "q}", 1) + "  template: &t {spec: {kubelet: {maxPods: 3}, nodeClassRef: {name: c}}}\n---\n" + betaPool + "  template: {spec: {kubelet: {maxPods: 4}, nodeClassRef: {name: c}}}\n"))
	f.Add([]byte("apiVersion: v1\nkind: List\nitems:\n-\n  apiVersion: karpenter.sh/v1beta1\n  kind: NodePool\n  metadata: {name: p}\n- {}\n"))
	f.Add([]byte("a: &a\n  karpenter.sh/do-not-evict: |+\n    x\n\n  <<: {b: c}\nb: *a\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		if len(content) > 16<<10 {
			t.Skip("larger than a hostile file needs to be")
		}
		before := fstest.MapFS{"a.yaml": {Data: content}}
		r, err := conversion.Files(before, ".", conversion.Options{KubernetesVersion: "1.33"})
		if err != nil {
			return
		}
		if !bytes.Contains(content, []byte("karpenter")) && len(r.Files) > 0 {
			t.Errorf("a file of nothing old was changed to %q", r.Files["a.yaml"])
		}
		if len(r.Files) > 0 && len(r.Changes) == 0 {
			t.Errorf("changed without a word: %q", r.Files["a.yaml"])
		}
		unchangedBySecond(t, before, r)
		was, err := written(before)
		if err != nil {
			return
		}
		items, _, problems, err := conversion.Objects(was.Items(), conversion.Options{KubernetesVersion: "1.33"})
		if err != nil {
			t.Fatal(err)
		}
		if len(problems) == 0 && len(items) < was.Len() {
			t.Errorf("%d objects became %d, without a problem", was.Len(), len(items))
		}
	})
}

// FuzzValid: objects that their old API would have taken become objects that
// Karpenter's own schema takes, and both ways come to the same.
func FuzzValid(f *testing.F) {
	for i := range 40 {
		f.Add(bytes.Repeat([]byte{byte(i * 37), byte(i * 101), byte(i)}, 16))
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		if len(choices) > 200 {
			t.Skip("it has more choices than there are to make")
		}
		before := fstest.MapFS{"a.yaml": {Data: []byte(manifests(choices))}}
		r, err := conversion.Files(before, ".", conversion.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Blocked() {
			t.Fatalf("it is blocked:\n%s\n%s", report(r), before["a.yaml"].Data)
		}
		if strings.Contains(report(r), "formatted anew") {
			t.Errorf("it was formatted anew:\n%s", before["a.yaml"].Data)
		}
		for _, p := range faults(t, after(before, r)) {
			t.Errorf("not valid for v1: %s\n%s\n%s", p, before["a.yaml"].Data, r.Files["a.yaml"])
		}
		comments(t, string(before["a.yaml"].Data), string(r.Files["a.yaml"]))
		unchangedBySecond(t, before, r)
		agree(t, before)
	})
}

// comments checks that each survived, but those of fields that did not.
func comments(t *testing.T, before, after string) {
	t.Helper()
	for line := range strings.Lines(before) {
		if i := strings.Index(line, "#"); i >= 0 && !strings.Contains(line[i:], "gone") && !strings.Contains(after, strings.TrimSpace(line[i:])) {
			t.Errorf("lost %q of\n%s\nin\n%s", line, before, after)
		}
	}
}

// chooser turns bytes into choices.
type chooser struct {
	bytes []byte
	n     int
}

func (c *chooser) pick(of ...string) string {
	if len(c.bytes) == 0 {
		return of[0]
	}
	b := c.bytes[0]
	c.bytes = c.bytes[1:]
	c.n++
	s := of[int(b)%len(of)]
	return strings.ReplaceAll(s, "#N", fmt.Sprintf("# %d", c.n))
}

// manifests writes pools and classes that the old APIs took, of either age, in
// either style.
func manifests(choices []byte) string {
	c := &chooser{bytes: choices}
	docs := []string{}
	for i := range 1 + len(c.pick("", "a", "aa")) {
		docs = append(docs, c.pool(fmt.Sprintf("p%d", i)))
	}
	if c.pick("before", "behind") == "before" {
		docs = append([]string{c.class()}, docs...)
	} else {
		docs = append(docs, c.class())
	}
	return c.pick("", "# top\n", "---\n") + strings.Join(docs, c.pick("---\n", "---\n# between #N\n", "\n---\n"))
}

func (c *chooser) class() string {
	if c.pick("old", "new") == "old" {
		return "apiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata:\n  name: c  #N\nspec:\n" +
			c.pick("  subnetSelector: {a: b}\n", "  #N above\n  subnetSelector:\n    a: b #N\n", "  subnetSelector:\n    #N ids\n    aws-ids: subnet-1,subnet-2 #N\n", "  subnetSelector:\n    x: \"1,2\"\n    y: z\n") +
			"  securityGroupSelector: {aws-ids: sg-1}\n" + "  instanceProfile: x" + c.pick("\n", " #N\n", "\n\n") +
			c.pick("", "  amiFamily: AL2 #N\n", "  #N family\n  amiFamily: Bottlerocket\n", "  amiSelector: {aws-ids: \"ami-1,ami-2\"}\n", "  amiFamily: Custom\n  amiSelector:\n    aws::name: a,b\n    aws::owners: self\n") +
			c.pick("", "  metadataOptions: {httpTokens: required}\n", "  metadataOptions:\n    httpEndpoint: enabled #N\n") +
			c.pick("", "  tags: {a: b, karpenter.sh/nodepool: x}\n", "  tags:\n    a: b #N\n") +
			c.pick("", "  userData: |\n    #!/bin/sh\n    # inner #N\n\n    echo\n", "  userData: |+\n    x\n\n") + c.pick("", "  # last #N\n", "# outer #N\n")
	}
	return "apiVersion: karpenter.k8s.aws/v1beta1\nkind: EC2NodeClass\nmetadata:\n    name: c\nspec:\n" +
		c.pick("    amiFamily: AL2023 #N\n", "    #N f\n    amiFamily: \"Bottlerocket\"\n", "    amiFamily: AL2\n    amiSelectorTerms:\n    - id: ami-1 #N\n", "    amiFamily: Ubuntu\n    amiSelectorTerms: [{id: ami-1}]\n") +
		"    role: r\n" + c.pick("    subnetSelectorTerms: [{id: subnet-1}]\n", "    subnetSelectorTerms:\n    - tags:\n        a: b,c #N\n", "    subnetSelectorTerms:\n    #N x\n    - tags: {a: \"*\"}\n") +
		"    securityGroupSelectorTerms: [{name: x}]\n" + c.pick("", "    metadataOptions:\n        httpTokens: optional #N\n", "    metadataOptions: {httpPutResponseHopLimit: 3}\n") +
		c.pick("", "    blockDeviceMappings:\n      - deviceName: /dev/xvda #N\n        ebs: {volumeSize: 20Gi}\n") + c.pick("", "    userData: \"a\\nb\"\n") + c.pick("", "status: {}\n", "\n")
}

func (c *chooser) pool(name string) string {
	requirement := c.pick("- {key: node.kubernetes.io/instance-type, operator: In, values: [g5.xlarge]}", "- key: karpenter.sh/capacity-type #N\n  operator: In\n  values: [spot]", "- key: kubernetes.io/arch\n  operator: In\n  values:\n  - arm64 #N\n#N more\n- {key: kubernetes.io/os, operator: Exists}")
	if c.pick("old", "new") == "old" {
		return "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata:\n  name: " + name + "\nspec:\n" +
			c.pick("", "  requirements:\n"+indented(requirement, 2), "  #N req\n  requirements: #N\n"+indented(requirement, 4)) +
			c.pick("", "  labels:\n    a: b #N\n", "  labels: {a: b}\n") + c.pick("", "  taints: [{key: t, effect: NoSchedule}]\n", "  taints:\n  #N t\n  - key: t\n    effect: NoSchedule\n") +
			c.pick("", "  limits:\n    resources: #N\n      cpu: 4 #N\n", "  limits: {resources: {cpu: 4}}\n") + c.pick("  providerRef: {name: c}\n", "  providerRef:\n    #N p\n    name: c\n", "  providerRef:\n    apiVersion: karpenter.k8s.aws/v1alpha1\n    kind: AWSNodeTemplate\n    name: c #N\n") +
			c.pick("", "  ttlSecondsAfterEmpty: 30 #N\n", "  consolidation: #N\n    enabled: true # gone\n", "  consolidation: {enabled: true}\n") + c.pick("", "  #N e\n  ttlSecondsUntilExpired: 600\n", "  weight: 5\n") +
			c.pick("", "  kubeletConfiguration: {maxPods: 5}\n", "  kubeletConfiguration: #N\n    maxPods: 6 #N\n    containerRuntime: containerd # gone\n", "  kubeletConfiguration:\n    #N k\n    systemReserved: {cpu: 1}\n")
	}
	return "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata:\n  name: " + name + "\nspec:\n" +
		c.pick("", "  disruption:\n    consolidationPolicy: WhenEmpty\n    consolidateAfter: 30s #N\n    #N e\n    expireAfter: 1h\n", "  disruption: {expireAfter: Never}\n", "  disruption:\n    expireAfter: 1h #N\n") +
		"  template:\n" + c.pick("", "    metadata:\n      labels: {a: b}\n") + "    spec:\n" + c.pick("      requirements: []\n", "      requirements:\n"+indented(requirement, 6), "      requirements:\n"+indented(requirement, 8)) +
		c.pick("      nodeClassRef: {name: c}\n", "      nodeClassRef:\n        name: c #N\n", "      nodeClassRef:\n        apiVersion: karpenter.k8s.aws/v1beta1 #N\n        kind: EC2NodeClass\n        name: c\n") +
		c.pick("", "      #N k\n      kubelet:\n        maxPods: 5\n", "      kubelet: {maxPods: 6} #N\n", "      kubelet: {}\n") + c.pick("", "  limits: {cpu: 1}\n", "  weight: 3 #N\n") + c.pick("", "\n", "status: {}\n")
}

func indented(s string, by int) string {
	pad := strings.Repeat(" ", by)
	return pad + strings.ReplaceAll(s, "\n", "\n"+pad) + "\n"
}
