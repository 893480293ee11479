package losses

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// TestEachFieldOfAClusterIsClassified has whoever adds a field decide whether a change of it
// loses nodes or data.
func TestEachFieldOfAClusterIsClassified(t *testing.T) {
	reversible := map[string]string{
		"spec.tags":                                    "they go to new things, and to the tags of others",
		"spec.engine.batchIdleDuration":                "it delays",
		"spec.engine.batchMaxDuration":                 "it delays",
		"spec.engine.featureGates":                     "what they make of nodes drifts, for guard.maxNodesReplaced",
		"spec.engine.pace":                             "it decides when, not which nodes go",
		"spec.engine.minValuesPolicy":                  "it is for new nodes",
		"spec.engine.reservedENIs":                     "it is for new nodes",
		"spec.engine.disableDryRun":                    "it is for new nodes",
		"spec.engine.preferencePolicy":                 "it is for new nodes",
		"spec.engine.vmMemoryOverheadPercent":          "it is for new nodes",
		"spec.engine.clusterEndpoint":                  "it is for new nodes, and part of no drift hash",
		"spec.engine.isolatedVPC":                      "it decides what is read of AWS",
		"spec.engine.enableZonalShift":                 "it is for new nodes",
		"spec.engine.amiRefreshInterval":               "it decides when images are read, not which",
		"spec.engine.subnetRefreshInterval":            "it decides when they are read",
		"spec.engine.securityGroupRefreshInterval":     "it decides when they are read",
		"spec.engine.kubeClientQPS":                    "it is a rate of requests",
		"spec.engine.kubeClientBurst":                  "it is a rate of requests",
		"spec.engine.cpuRequests":                      "it decides how much is done at a time",
		"spec.engine.disableClusterStateObservability": "it is about metrics",
		"spec.version":                                 "it is read-only",
		"spec.addons":                                  "they are read-only",
		"spec.controllerRole":                          "the running controller never writes it",
		"spec.logging":                                 "judged on the LogGroup in AWS",
		"spec.managedNodeGroups":                       "judged on the NodeGroup in AWS",
		"spec.discovery":                               "judged on the SubnetTag and SecurityGroupTag in AWS",
		"spec.nodeRole":                                "judged on the Role and InstanceProfile in AWS",
	}
	var checked []string
	for _, f := range losingFields() {
		if f.kind == "Cluster" {
			checked = append(checked, f.path)
		}
	}
	observed := map[string]bool{}
	var walk func(path string, of reflect.Type)
	walk = func(path string, of reflect.Type) {
		for field := range of.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			at := path + "." + name
			observed[at] = true
			switch {
			case at == "spec.engine":
				walk(at, field.Type)
			case (reversible[at] != "") == slices.Contains(checked, at):
				t.Errorf("%s: decide in losingFields or here, once, whether its change loses nodes or data", at)
			}
		}
	}
	walk("spec", reflect.TypeFor[v1alpha1.ClusterSpec]())
	for _, at := range checked {
		if !observed[at] {
			t.Errorf("a Cluster has no %s", at)
		}
	}
	for at := range reversible {
		if !observed[at] {
			t.Errorf("a Cluster has no %s", at)
		}
	}
}
