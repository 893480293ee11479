package simulate_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/simulate"
)

// nested asks for a processor option that few types have.
func nested(state string) string {
	return strings.TrimSuffix(class, "\n") + "\n  cpuOptions: {nestedVirtualization: " + state + "}\n"
}

func TestOnlyTypesThatTheClassCanHaveAreForecast(t *testing.T) {
	of := func(kind string) string { return strings.Replace(pool, "[g4dn.xlarge, g5.xlarge]", "["+kind+"]", 1) }
	plain := func(p *corev1.Pod) { p.Spec.Containers[0].Resources = corev1.ResourceRequirements{} }
	tests := map[string]struct {
		before, after []string
		want          map[string][]string
		unknown       string
	}{
		"a class that requires nested virtualization leaves no type of a family without it": {
			[]string{of("m5.large"), class}, []string{of("m5.large"), nested("enabled")}, map[string][]string{"unscheduled": {"one"}}, "",
		},
		"one that disables it leaves all": {
			[]string{of("m5.large"), class}, []string{of("m5.large"), nested("disabled")}, map[string][]string{}, "",
		},
		"types that have it serve a class that requires it": {
			[]string{of("m5.large"), nested("enabled")}, []string{of("m7i.large"), nested("enabled")}, map[string][]string{"scheduled": {"one gpu"}}, "",
		},
		"Karpenter starts no node without a price": {
			[]string{of("m5.large"), class}, []string{of("x8aedz.large"), class}, map[string][]string{"unscheduled": {"one"}},
			"NodePool gpu: the catalog has no price of x8aedz.large, and without a price Karpenter starts no node: whether it has one in region us-east-1 is not known.",
		},
		"a type that the class cannot have is not left out for its price": {
			[]string{of("m5.large"), class}, []string{of("x8aedz.large"), nested("enabled")}, map[string][]string{"unscheduled": {"one"}}, "",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before, after := read(t, test.before...), read(t, test.after...)
			pod(&before, "one", "", plain)
			after.Pods = before.Pods
			ctx, cancel := context.WithTimeout(engine.Offline(t.Context(), settings()), time.Minute)
			defer cancel()
			forecast, err := simulate.Compare(ctx, before, after, prices(t, "m5", "m7i", "x8aedz"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, fits(forecast.PodScheduling)); diff != "" {
				t.Errorf("pods that find a node (-want +got):\n%s", diff)
			}
			priced := slices.DeleteFunc(texts(forecast.Unknown), func(text string) bool { return !strings.Contains(text, "price") })
			if got := strings.Join(priced, "\n"); got != test.unknown {
				t.Errorf("unknown is %q, want %q", got, test.unknown)
			}
		})
	}
}
