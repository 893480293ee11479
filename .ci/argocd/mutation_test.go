package argocd

import (
	"maps"
	"strings"
	"testing"
)

// Each of these changes of a script breaks what it is for, which the lists of healths and actions must find.
func TestEachErrorInAScriptIsFound(t *testing.T) {
	const sync, cluster, plugin, actions = "health.poolwright.dev_Sync", "health.poolwright.dev_Cluster", "health.poolwright.dev_DevicePlugin", "actions.poolwright.dev_Sync"
	right := messages(t, customizations(t))
	for _, test := range []struct{ name, key, from, to string }{
		{"a stalled Sync is not Degraded", sync, `stalled ~= nil and stalled.status == "True"`, `false`},
		{"a suspended Sync is not Suspended", sync, `obj.spec ~= nil and obj.spec.suspend == true`, `false`},
		{"the generation is not compared", sync, `obj.status.observedGeneration ~= obj.metadata.generation`, `false`},
		{"a Sync that is not ready is Healthy", sync, `if ready.status == "True" then`, `if ready.status ~= "Unknown" then`},
		{"a Sync that is tried again is Degraded", sync, `reconciling ~= nil and reconciling.status == "True" then`, `false then`},
		{"a Sync without a status is an error", sync, `if ready == nil then`, `if false then`},
		{"a suspension has an end that is no time", sync, `till and isTime(till)`, `till`},
		{"the separators of a time are not read", sync, `{1, 31, "T"}`, `{1, 31, " "}`},
		{"Lua's library for strings is used", sync, `if ready == nil then`, `if string.len("x") == 0 then`},
		{"a Cluster's generation is not compared", cluster, `ready == nil or obj.status.observedGeneration ~= obj.metadata.generation`, `ready == nil and false`},
		{"a blocked engine is Healthy", cluster, `ready.status == "True"`, `ready.status ~= nil`},
		{"a restart is Degraded", cluster, `"Restarting"`, `"Restart"`},
		{"a DevicePlugin's generation is not compared", plugin, ` or obj.status.observedGeneration ~= obj.metadata.generation`, ``},
		{"unhealthy nodes are Healthy", plugin, `ready.status == "True"`, `ready.status ~= nil`},
		{"an update of plugins is Degraded", plugin, `"UpdatingPlugins"`, `"Updating"`},
		{"any token confirms", actions, `if token ~= waits then`, `if false then`},
		{"a confirmation needs no token", actions, `if token == nil or token == "" then`, `token = token or waits if false then`},
		{"confirm is enabled where nothing waits", actions, `suspended or not waits or parameters == nil`, `parameters == nil`},
		{"confirm is enabled before Argo CD 3.1", actions, `not waits or parameters == nil`, `not waits`},
		{"a suspended Sync can be reconciled", actions, "if obj.spec.suspend == true then\n      error", "if false then\n      error"},
		{"resume is always enabled", actions, `["disabled"] = not suspended, ["displayName"] = "Resume"`, `["displayName"] = "Resume"`},
		{"parameters are updated where there are none", actions, `suspended or not fromSSM`, `suspended`},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, key := maps.Clone(customizations(t)), "resource.customizations."+test.key
			if !strings.Contains(c[key], test.from) {
				t.Fatalf("the script does not have %q", test.from)
			}
			c[key] = strings.Replace(c[key], test.from, test.to, 1)
			if len(wrongHealth(t, c))+len(wrongActions(t, c)) == 0 && messages(t, c) == right {
				t.Error("nothing has found it")
			}
		})
	}
}
