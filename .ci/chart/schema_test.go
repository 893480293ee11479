package chart

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestValuesThatTheSchemaDoesNotHaveAreRefused(t *testing.T) {
	chart := load(t, "poolwright")
	tried := 0
	// each puts an unknown name beside the names of every object of values.yaml, one at a time.
	var each func(values map[string]any, path string)
	each = func(values map[string]any, path string) {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			// In labels, annotations and requirements of nodes any name may be.
			inner, isObject := values[name].(map[string]any)
			if !isObject || len(inner) == 0 && name != "requests" {
				continue
			}
			each(inner, path+"."+name)
			inner["frobnicate"] = true
			if _, err := render(t, chart, chart.Values, namespace); err == nil || !strings.Contains(err.Error(), "frobnicate") {
				t.Errorf("%s.%s.frobnicate: %v", path, name, err)
			}
			delete(inner, "frobnicate")
			tried++
		}
	}
	each(map[string]any{"": chart.Values}, "")
	if tried < 15 {
		t.Errorf("%d objects were tried", tried)
	}
}

func TestValuesThatContradictEachOtherOrAreInvalidAreRefused(t *testing.T) {
	chart := load(t, "poolwright")
	for values, want := range map[string]string{
		"identity: {type: IRSA}":                                                   "roleARN",
		"identity: {type: IRSA, roleARN: poolwright}":                              "roleARN",
		"identity: {type: Static}":                                                 "identity/type",
		"rbac: {syncs: {rules: [{apiGroups: [a], resources: [b], verbs: [c]}]}}":   "anyObject",
		"{publishPrices: false, publishReservations: true}":                        "publishPrices",
		"webhook: {ingress: {enabled: true}}":                                      "host",
		"webhook: {enabled: false, ingress: {enabled: true, host: a.example.com}}": "webhook/enabled",
		"webhook: {ingress: {enabled: true, host: 'https://a.example.com'}}":       "host",
		"env: [{name: GOMEMLIMIT, value: 9GiB}]":                                   "env/0/name",
		"env: [{value: x}]":                                                        "env/0",
		"resources: {goMemLimitMiB: 100}":                                          "goMemLimitMiB",
		"resources: {clusterSize: Huge}":                                           "clusterSize",
		"resources: {limits: {memory: 1Gi}}":                                       "limits",
		"replicas: 0":                                                              "replicas",
		"replicas: '2'":                                                            "replicas",
		"cache: {sizeGiB: 0}":                                                      "sizeGiB",
		"image: {digest: 'md5:0'}":                                                 "digest",
		"image: {repository: ''}":                                                  "repository",
		"image: {pullPolicy: Sometimes}":                                           "pullPolicy",
		"image: {pullSecrets: [registry]}":                                         "pullSecrets",
		"logLevel: warn":                                                           "logLevel",
		"eventsAddress: \"http://user:password@host/\"":                            "eventsAddress",
		"networkPolicy: {httpsPorts: []}":                                          "httpsPorts",
		"networkPolicy: {httpsPorts: [https]}":                                     "httpsPorts",
		"pod: {labels: {app.kubernetes.io/name: other}}":                           "labels",
		"pod: {annotations: {kubectl.kubernetes.io/default-container: other}}":     "annotations",
		"pod: {onOneNode: Always}":                                                 "onOneNode",
		"monitoring: {serviceMonitor: {interval: often}}":                          "interval",
		"monitoring: {rules: {labels: {app.kubernetes.io/part-of: other}}}":        "labels",
	} {
		if _, err := render(t, chart, parseValues(t, values), namespace); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", values, err, want)
		}
	}
}

// unset are the values of a schema that are not set, by their paths.
func unset(schema, values map[string]any, path string) (out []string) {
	properties, _ := schema["properties"].(map[string]any)
	for name, of := range properties {
		value, set := values[name]
		if !set {
			out = append(out, path+name)
			continue
		}
		// The schema names labels and annotations that have a value of their own.
		if nested, is := value.(map[string]any); is && name != "labels" && name != "annotations" {
			out = append(out, unset(of.(map[string]any), nested, path+name+".")...)
		}
	}
	slices.Sort(out)
	return out
}

func TestTheSetOfEverythingSetsEachValueOfTheSchema(t *testing.T) {
	raw, err := os.ReadFile("../../config/chart/poolwright/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	// Helm itself sets global.
	if got := unset(schema, parseValues(t, everything), ""); !slices.Equal(got, []string{"global"}) {
		t.Errorf("it does not set %v", got)
	}
}
