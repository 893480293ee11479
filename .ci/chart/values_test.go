package chart

import (
	"cmp"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// everything sets every value, so that every line of the templates is rendered.
const everything = `
image: {repository: registry.example.com/poolwright, tag: v1.2.3, digest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", pullPolicy: IfNotPresent, pullSecrets: [{name: registry}]}
namespace: {create: true}
identity: {type: IRSA, roleARN: "arn:aws:iam::111122223333:role/poolwright-dev-eu-west-1"}
serviceAccount: {annotations: {example.com/owner: nodes}}
rbac: {create: true, engine: true, syncs: {anyObject: false, rules: [{apiGroups: [karpenter.sh], resources: [nodepools], verbs: [get, list, watch]}]}}
replicas: 3
logLevel: debug
eventsAddress: http://notification-controller.flux-system.svc.cluster.local./
env: [{name: HTTPS_PROXY, value: "http://proxy.example.com:3128"}, {name: NO_PROXY, value: 10.0.0.0/8}]
resources: {clusterSize: Large, goMemLimitMiB: 3000, requests: {cpu: 1, memory: 1Gi}}
cache: {sizeGiB: 10}
history: {enabled: false}
publishPrices: true
publishReservations: true
noCrossNamespaceRefs: true
watchLabelSelector: stage in (canary, dev)
pod: {annotations: {example.com/scan: "no"}, labels: {example.com/team: nodes}, priorityClassName: system-node-critical, nodeSelector: {example.com/system: "true"}, tolerations: [{key: example.com/system, operator: Exists}], onOneNode: ScheduleAnyway}
webhook: {enabled: true, ingress: {enabled: true, className: alb, host: hooks.example.com, tlsSecretName: hooks-tls, annotations: {example.com/scheme: internet-facing}}}
networkPolicy: {enabled: true, httpsPorts: [443, 6443], sshPorts: [2222], metricsFrom: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}], webhookFrom: [{ipBlock: {cidr: 10.0.0.0/16}}], extraEgress: [{to: [{ipBlock: {cidr: 10.0.0.9/32}}], ports: [{port: 3128, protocol: TCP}]}]}
monitoring: {serviceMonitor: {enabled: true, labels: {release: prometheus}, interval: 1m, job: karpenter}, rules: {enabled: true, labels: {release: prometheus}}, dashboards: {enabled: true, labels: {example.com/dashboards: platform}}}
`

// sets are values that people set, by what they are for.
var sets = map[string]string{
	"everything":                                everything,
	"an image of one's own registry":            "image: {repository: registry.example.com/poolwright, tag: v1.2.3}",
	"an image by its digest":                    `image: {digest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}`,
	"an image that needs credentials":           "image: {pullPolicy: Always, pullSecrets: [{name: registry}]}",
	"the namespace too":                         "namespace: {create: true}",
	"a role by IRSA":                            `identity: {type: IRSA, roleARN: "arn:aws:iam::111122223333:role/poolwright"}`,
	"a role by IRSA in China":                   `identity: {type: IRSA, roleARN: "arn:aws-cn:iam::111122223333:role/a/path/poolwright"}`,
	"a role by Pod Identity":                    "identity: {type: PodIdentity}",
	"an annotated service account":              "serviceAccount: {annotations: {example.com/owner: nodes}}",
	"no roles":                                  "rbac: {create: false}",
	"another Karpenter or none":                 "rbac: {engine: false}",
	"Syncs that may apply nothing":              "rbac: {syncs: {anyObject: false}}",
	"Syncs that may apply node pools":           "rbac: {syncs: {anyObject: false, rules: [{apiGroups: [karpenter.sh], resources: [nodepools, nodeoverlays], verbs: [get, list, watch, create, update, patch, delete]}, {apiGroups: [autoscaling], resources: [horizontalpodautoscalers], verbs: [get, list, watch]}]}}",
	"one replica on the only system node":       "{replicas: 1, pod: {onOneNode: ScheduleAnyway}}",
	"three replicas":                            "replicas: 3",
	"more in the log":                           "logLevel: debug",
	"events for Flux":                           "{eventsAddress: http://notification-controller.flux-system.svc.cluster.local./, networkPolicy: {extraEgress: [{to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: flux-system}}, podSelector: {matchLabels: {app: notification-controller}}}], ports: [{port: 9090, protocol: TCP}]}]}}",
	"a proxy":                                   `{env: [{name: HTTPS_PROXY, value: "http://proxy.example.com:3128"}, {name: NO_PROXY, value: "10.0.0.0/8,.cluster.local"}], networkPolicy: {extraEgress: [{to: [{ipBlock: {cidr: 10.0.0.9/32}}], ports: [{port: 3128, protocol: TCP}]}]}}`,
	"a variable from a Secret":                  "env: [{name: CLUSTER_CA_BUNDLE, valueFrom: {secretKeyRef: {name: bundle, key: ca.crt}}}]",
	"a small cluster":                           "resources: {clusterSize: Small}",
	"a large cluster":                           "resources: {clusterSize: Large}",
	"a memory limit of one's own":               "resources: {goMemLimitMiB: 2500}",
	"requests of one's own":                     "resources: {requests: {cpu: 1, memory: 1536Mi}}",
	"half of a processor":                       "resources: {requests: {cpu: 500m}}",
	"many repositories":                         "cache: {sizeGiB: 20}",
	"no history":                                "history: {enabled: false}",
	"sources of the own namespace alone":        "noCrossNamespaceRefs: true",
	"Syncs with a label alone":                  "watchLabelSelector: stage=canary",
	"no prices are published":                   "publishPrices: false",
	"capacity reservations are published":       "publishReservations: true",
	"a small disk":                              "cache: {sizeGiB: 1}",
	"system nodes with a taint":                 "pod: {nodeSelector: {example.com/system: \"true\"}, tolerations: [{key: example.com/system, operator: Equal, value: \"true\", effect: NoSchedule}]}",
	"labels of the company":                     "pod: {labels: {example.com/team: nodes}, annotations: {example.com/scan: \"no\"}}",
	"no priority":                               "pod: {priorityClassName: \"\"}",
	"no webhooks":                               "webhook: {enabled: false}",
	"no webhooks and no scraping":               "{webhook: {enabled: false}, networkPolicy: {metricsFrom: []}}",
	"webhooks by the cluster's Ingress":         "webhook: {ingress: {enabled: true, host: hooks.example.com}}",
	"webhooks by nginx with TLS":                "webhook: {ingress: {enabled: true, className: nginx, host: hooks.example.com, tlsSecretName: hooks-tls}}",
	"webhooks by an AWS load balancer":          "{webhook: {ingress: {enabled: true, className: alb, host: hooks.example.com, annotations: {alb.ingress.kubernetes.io/scheme: internet-facing, alb.ingress.kubernetes.io/target-type: ip}}}, networkPolicy: {webhookFrom: [{ipBlock: {cidr: 10.0.0.0/16}}]}}",
	"no network policy":                         "networkPolicy: {enabled: false}",
	"an API server at another port":             "networkPolicy: {httpsPorts: [443, 6443]}",
	"metrics for one namespace":                 "networkPolicy: {metricsFrom: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]}",
	"the Prometheus Operator":                   "monitoring: {serviceMonitor: {enabled: true, labels: {release: prometheus}}, rules: {enabled: true, labels: {release: prometheus}}}",
	"metrics under the name of Karpenter's job": "monitoring: {serviceMonitor: {enabled: true, job: karpenter, interval: 15s}}",
	"dashboards for Grafana":                    "monitoring: {dashboards: {enabled: true}}",
	"alerts only":                               "monitoring: {rules: {enabled: true}}",
}

// golden is what a set of values changes: the objects of it that the default rendering does not have
// alike, and the names of those that it lacks.
func golden(t *testing.T, standard, got objects) string {
	t.Helper()
	var out strings.Builder
	for _, key := range slices.Sorted(maps.Keys(standard)) {
		if got[key] == nil {
			out.WriteString("# without " + key + "\n")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if reflect.DeepEqual(standard[key], got[key]) {
			continue
		}
		raw, err := yaml.Marshal(withoutDashboard(got[key]))
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n" + string(raw))
	}
	return out.String()
}

func TestEachSetOfValuesRendersAsItsGolden(t *testing.T) {
	if len(sets) < 30 {
		t.Errorf("there are %d sets", len(sets))
	}
	chart := load(t, "poolwright")
	standard := rendered(t, chart, nil, namespace)
	var files []string
	for name, values := range sets {
		t.Run(name, func(t *testing.T) {
			got := golden(t, standard, rendered(t, chart, parseValues(t, values), namespace))
			path := filepath.Join("testdata", regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(name, "-")+".yaml")
			files = append(files, path)
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatalf("%v; if the set is new, -update makes its file", err)
			}
			if d := diff.Diff(string(want), got); d != "" {
				t.Errorf("it differs from %s; if that is meant, -update rewrites it (-golden +got):\n%s", path, d)
			}
		})
	}
	there, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	if d := diff.Diff(files, there); d != "" {
		t.Errorf("the sets and their files (-sets +files):\n%s", d)
	}
}

// quantity is a quantity in MiB.
func quantity(t *testing.T, text string) int64 {
	t.Helper()
	q, err := resource.ParseQuantity(text)
	if err != nil {
		t.Fatal(err)
	}
	return q.Value() >> 20
}

// What docs/limits.md has of memory and disk, for every set.
func TestEachSetOfValuesLeavesMemoryAndDiskForItsChildrenAndFiles(t *testing.T) {
	chart := load(t, "poolwright")
	for name, values := range sets {
		deployment := rendered(t, chart, parseValues(t, values), namespace)["Deployment/"+namespace+"/poolwright"]
		pod, _ := at(deployment, "spec", "template", "spec").(map[string]any)
		container, _ := at(pod, "containers").([]any)[0].(map[string]any)
		limit := quantity(t, field(container, "resources", "limits", "memory"))
		if least := quantity(t, strings.TrimSuffix(variable(container, "GOMEMLIMIT"), "B")) + 1728; limit < least || limit >= least+64 {
			t.Errorf("%s: the limit is %d MiB, and must be at least %d", name, limit, least)
		}
		if requested := quantity(t, field(container, "resources", "requests", "memory")); requested > limit {
			t.Errorf("%s: %d MiB are requested, more than the limit of %d", name, requested, limit)
		}
		volume, _ := at(pod, "volumes").([]any)[0].(map[string]any)
		caches := quantity(t, cmp.Or(argument(container, "--cache-size-limit"), "1638Mi"))
		if size := quantity(t, field(volume, "emptyDir", "sizeLimit")); caches != size*4/5 {
			t.Errorf("%s: caches take %d MiB of %d", name, caches, size)
		}
	}
}

// variable is the value of a container's environment variable.
func variable(container map[string]any, name string) string {
	list, _ := container["env"].([]any)
	for _, v := range list {
		if entry, _ := v.(map[string]any); entry["name"] == name {
			return field(entry, "value")
		}
	}
	return ""
}

// argument is the value of a container's flag.
func argument(container map[string]any, flag string) string {
	list, _ := container["args"].([]any)
	for _, a := range list {
		if text, _ := a.(string); strings.HasPrefix(text, flag+"=") {
			return strings.TrimPrefix(text, flag+"=")
		}
	}
	return ""
}
