package offline

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/reconciler/reconcilertest"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// The rules are the CRD's, which the API server evaluates as lint does.
func TestLintFindsValuesOfTheEngineThatTheAPIServerRefuses(t *testing.T) {
	for _, test := range []struct {
		field          string
		valid, problem []string
	}{
		{"preferencePolicy", []string{"Respect", "Ignore"}, []string{"ignore", `""`}},
		{"vmMemoryOverheadPercent", []string{`"0"`, `"0.075"`, `"0.99"`}, []string{"0.075", `"1"`, `"1.5"`, `"-0.1"`, `"7.5%"`, `".5"`}},
		{
			"clusterEndpoint", []string{"https://api.example.com", "https://10.0.0.1:6443/path"},
			[]string{"http://api.example.com", "api.example.com", "https://user:wordfish@api.example.com", "https://api.example.com?token=wordfish", "https://"},
		},
		{"isolatedVPC", []string{"true", "false"}, []string{`"true"`}},
		{"enableZonalShift", []string{"true"}, []string{"1"}},
		{"amiRefreshInterval", []string{"1m", "60s", "1h30m"}, []string{"59s", "1", "-5m"}},
		{"subnetRefreshInterval", []string{"1m"}, []string{"59s"}},
		{"securityGroupRefreshInterval", []string{"1m"}, []string{"59s"}},
		{"kubeClientQPS", []string{"1", "500"}, []string{"0", "-1", `"5"`}},
		{"kubeClientBurst", []string{"1"}, []string{"0"}},
		{"cpuRequests", []string{"1"}, []string{"0", "500m"}},
		{"disableClusterStateObservability", []string{"true"}, []string{"yes please"}},
	} {
		for _, value := range slices.Concat(test.valid, test.problem) {
			t.Run(test.field+": "+value, func(t *testing.T) {
				file := reconcilertest.ClusterFile("a", "  engine:\n    "+test.field+": "+value+"\n")
				linted, err := Lint(t.Context(), folder(t, "a.yaml", file), variables.Input{})
				if err != nil {
					t.Fatal(err)
				}
				of := func(p state.Problem) bool { return p.Field == "spec.engine."+test.field }
				if got, want := slices.ContainsFunc(linted.Problems, of), slices.Contains(test.problem, value); got != want {
					t.Errorf("a problem: %t, want %t; all are %v", got, want, linted.Problems)
				}
				if strings.Contains(fmt.Sprint(linted.Problems), "wordfish") {
					t.Error("the password is printed")
				}
			})
		}
	}
}
