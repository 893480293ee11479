package grammar

import (
	"fmt"
	"strings"
)

// cluster is what a simulation needs beside pools: the Cluster, and a class for them.
const cluster = `apiVersion: poolwright.dev/v1alpha1
kind: Cluster
metadata: {name: cluster, labels: {app: a}}
spec: {name: dev, region: eu-west-1, account: "111122223333", version: "1.33"}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: class, labels: {app: a}}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@v20261001}]
  subnetSelectorTerms: [{tags: {cluster: dev}}]
  securityGroupSelectorTerms: [{id: sg-1}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: pool, labels: {app: a}}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: class}
      requirements: [{key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r, g]}]
`

// manifest is an object in flow style.
func manifest(apiVersion, kind, name string, rest ...string) string {
	return braced(append([]string{
		field("apiVersion", quoted(apiVersion)), field("kind", quoted(kind)),
		field("metadata", braced(field("name", quoted(name)), field("labels", `{"app": "a"}`))),
	}, rest...)...)
}

// object writes an object with a name of its own.
func (w *fileWriter) object(d Derivation) string {
	out := w.kind(w.next("o"), d)
	w.made += len(out)
	return out
}

func (w *fileWriter) kind(name string, d Derivation) string {
	n := func(i int) int { return d.N[i] }
	switch d.Rule {
	case "configMap": // so many keys
		data := w.text(d.Of[0])
		return manifest("v1", "ConfigMap", name, field("data", "{"+w.repeat(n(0), func(i int) string { return field(fmt.Sprint("k", i), quoted(data)) })+"}"))
	case "widget":
		var fields []string
		for i, v := range d.Of {
			fields = append(fields, field(fmt.Sprint("v", i), w.value(v)))
		}
		return manifest("example.com/v1", "Widget", name, field("spec", braced(fields...)))
	case "definition":
		return w.definition(name, d)
	case "role": // rules, resources and verbs of each, and whether it is bound
		return manifest("rbac.authorization.k8s.io/v1", "ClusterRole", name, field("rules", "["+w.repeat(n(0), func(i int) string {
			return braced(field("apiGroups", bracketed(quoted(fmt.Sprint("g", i)))), field("resources", "["+w.numbered("r", n(1))+"]"), field("verbs", []string{`["get"]`, `["*"]`}[n(2)]))
		})+"]"))
	case "named":
		return w.named(name, d)
	case "sync":
		return manifest("poolwright.dev/v1alpha1", "Sync", name, field("spec", braced(
			field("source", braced(field("git", braced(field("url", quoted("https://example.com/"+name)))))),
			field("substitute", "{"+w.repeat(n(0), func(i int) string { return field(fmt.Sprint("V", i), quoted(w.text(d.Of[0]))) })+"}"),
		)))
	case "deployment", "daemonSet":
		return w.workload(name, d)
	}
	return w.pool(name, d)
}

// numbered are so many texts that begin alike.
func (w *fileWriter) numbered(begin string, n int) string {
	return w.repeat(n, func(i int) string { return quoted(fmt.Sprint(begin, i)) })
}

// definition has so many fields (N[0]), so many levels (N[1]) and rules (N[2]).
func (w *fileWriter) definition(name string, d Derivation) string {
	rules := field("x-kubernetes-validations", "["+w.repeat(d.N[2], func(int) string {
		return braced(field("rule", quoted("self.all(a, self.all(b, self.all(c, a != b && b != c)))")))
	})+"]")
	properties := "{" + w.repeat(d.N[0], func(i int) string { return field(fmt.Sprint("p", i), `{"type": "string"}`) }) + "}"
	schema := strings.Repeat(`{"type": "object", "properties": {"a": `, d.N[1]) + braced(field("type", quoted("object")), field("properties", properties), rules) + strings.Repeat("}}", d.N[1])
	return manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", name+".example.com", field("spec", braced(
		field("group", quoted("example.com")), field("scope", quoted("Cluster")), field("names", braced(field("kind", quoted("K"+name)), field("plural", quoted(name)))),
		field("versions", bracketed(braced(field("name", quoted("v1")), field("served", "true"), field("storage", "true"), field("schema", braced(field("openAPIV3Schema", schema)))))),
	)))
}

// named is a small object whose name is hostile to whoever shows it.
func (w *fileWriter) named(name string, d Derivation) string {
	special := []string{"`|*_", "</details>", "@everyone#1 ", "\u202e\u200b", "\n- a", "a.b/c:"}[d.N[0]]
	return manifest("v1", []string{"ConfigMap", "Kind`|@" + special}[d.N[0]%2], name+strings.Repeat(special, d.N[1]/len(special)+1), field("data", "{}"))
}

// requirements are so many, of so many values each.
func (w *fileWriter) requirements(n, values int) string {
	return "[" + w.repeat(n, func(i int) string {
		key := []string{"node.kubernetes.io/instance-type", "karpenter.k8s.aws/instance-cpu", "topology.kubernetes.io/zone", fmt.Sprint("example.com/k", i)}[min(i, 3)]
		return braced(field("key", quoted(key)), field("operator", quoted([]string{"NotIn", "In"}[i/3%2])), field("values", "["+w.numbered("v", values)+"]"))
	}) + "]"
}

// pool writes what nodes are made of.
func (w *fileWriter) pool(name string, d Derivation) string {
	n := func(i int) int { return d.N[i] }
	ref := field("nodeClassRef", `{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "class"}`)
	keyed := func(n int, of string) string {
		return "[" + w.repeat(n, func(i int) string { return fmt.Sprintf(of, i) }) + "]"
	}
	switch d.Rule {
	case "nodeClass": // terms, and tags of each
		tags := "{" + w.repeat(n(1), func(i int) string { return field(fmt.Sprint("t", i), quoted("v")) }) + "}"
		terms := "[" + w.repeat(n(0), func(int) string { return braced(field("tags", tags)) }) + "]"
		return manifest("karpenter.k8s.aws/v1", "EC2NodeClass", name, field("spec", braced(
			field("role", quoted("nodes")), field("amiSelectorTerms", `[{"alias": "al2023@latest"}]`), field("subnetSelectorTerms", terms),
			field("securityGroupSelectorTerms", terms), field("tags", tags), field("userData", quoted(w.text(d.Of[0]))),
		)))
	case "nodeOverlay":
		return manifest("karpenter.sh/v1alpha1", "NodeOverlay", name, field("spec", braced(
			field("requirements", w.requirements(n(0), n(1))), field("priceAdjustment", quoted("+1%")), field("capacity", braced(field("example.com/"+name, quoted("4")))))))
	case "devicePlugin": // configurations, and pools of each
		return manifest("poolwright.dev/v1alpha1", "DevicePlugin", name, field("spec", braced(field("configs", "["+w.repeat(n(0), func(i int) string {
			return braced(field("name", quoted(fmt.Sprint("p", i))), field("nodePools", "["+w.numbered(fmt.Sprint("pool", i, "-"), n(1))+"]"), field("timeSlicing", `{"replicas": 4}`))
		})+"]"))))
	case "provisioner": // of the old API: requirements, values, taints
		return manifest("karpenter.sh/v1alpha5", "Provisioner", name, field("spec", braced(field("providerRef", `{"name": "class"}`),
			field("requirements", w.requirements(n(0), n(1))), field("taints", keyed(n(2), `{"key": "t%d", "effect": "NoSchedule"}`)),
			field("ttlSecondsAfterEmpty", "30"))))
	}
	// A NodePool: requirements, values, taints, and whether many types must be left.
	requirements := w.requirements(n(0), n(1))
	if n(3) == 1 {
		requirements = `[{"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 40}, {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand", "spot"]}]`
	}
	return manifest("karpenter.sh/v1", "NodePool", name, field("spec", braced(field("weight", fmt.Sprint(1+w.names%100)), field("template", braced(field("spec", braced(
		ref, field("requirements", requirements), field("taints", keyed(n(2)-1, `{"key": "t%d", "effect": "NoSchedule"}`)))))))))
}

// workload writes pods: replicas, affinity terms, constraints of topology, and containers.
func (w *fileWriter) workload(name string, d Derivation) string {
	containers := field("containers", "["+w.repeat(d.N[len(d.N)-1], func(i int) string {
		return braced(field("name", quoted(fmt.Sprint("c", i))), field("image", quoted("i")), field("resources", `{"requests": {"cpu": "100m", "memory": "64Mi"}}`))
	})+"]")
	selector := field("selector", `{"matchLabels": {"app": "`+name+`"}}`)
	metadata := field("metadata", `{"labels": {"app": "`+name+`"}}`)
	if d.Rule == "daemonSet" { // tolerations, and containers
		tolerations := field("tolerations", "["+w.repeat(d.N[0], func(i int) string { return braced(field("key", quoted(fmt.Sprint("t", i)))) })+"]")
		return manifest("apps/v1", "DaemonSet", name, field("spec", braced(selector, field("template", braced(metadata, field("spec", braced(containers, tolerations)))))))
	}
	match := field("labelSelector", `{"matchLabels": {"app": "`+name+`"}}`)
	terms := w.repeat(d.N[1]-1, func(i int) string {
		return braced(match, field("topologyKey", quoted([]string{"kubernetes.io/hostname", "topology.kubernetes.io/zone"}[i%2])))
	})
	spread := w.repeat(d.N[2]-1, func(i int) string {
		return braced(match, field("maxSkew", "1"), field("whenUnsatisfiable", quoted("DoNotSchedule")), field("topologyKey", quoted([]string{"topology.kubernetes.io/zone", "kubernetes.io/hostname"}[i%2])))
	})
	affinity := field("affinity", braced(field("podAntiAffinity", braced(field("requiredDuringSchedulingIgnoredDuringExecution", "["+terms+"]")))))
	return manifest("apps/v1", "Deployment", name, field("spec", braced(field("replicas", fmt.Sprint(d.N[0])), selector,
		field("template", braced(metadata, field("spec", braced(containers, affinity, field("topologySpreadConstraints", "["+spread+"]"))))))))
}
