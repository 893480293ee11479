package bootstrap

import (
	"flag"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	awsoptions "github.com/aws/karpenter-provider-aws/pkg/operator/options"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/engine/takeover"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/cluster"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
)

// optionsOf are the exported fields of Karpenter's two structs of options, by their names.
func optionsOf(core coreoptions.Options, provider awsoptions.Options) map[string]any {
	all := map[string]any{}
	for prefix, options := range map[string]any{"core.": core, "aws.": provider} {
		for field, value := range reflect.ValueOf(options).Fields() {
			if field.IsExported() {
				all[prefix+field.Name] = value.Interface()
			}
		}
	}
	for prefix, gates := range map[string]any{"core.FeatureGates": core.FeatureGates, "aws.FeatureGates": provider.FeatureGates} {
		on := map[string]bool{}
		for field, value := range reflect.ValueOf(gates).Fields() {
			if field.IsExported() {
				on[field.Name] = value.Bool()
			}
		}
		all[prefix] = on // without what was parsed
	}
	return all
}

// parsed are the options of a Karpenter with these arguments.
func parsed(t *testing.T, args ...string) (map[string]any, *coreoptions.FlagSet) {
	t.Helper()
	var core coreoptions.Options
	var provider awsoptions.Options
	flags := &coreoptions.FlagSet{FlagSet: flag.NewFlagSet("karpenter", flag.ContinueOnError)}
	flags.SetOutput(io.Discard)
	core.AddFlags(flags)
	provider.AddFlags(flags)
	args = append([]string{"--cluster-name=" + reconcilertest.Cluster(nil).Spec.Name}, args...)
	for _, injectable := range []coreoptions.Injectable{&core, &provider} {
		if err := injectable.Parse(flags, args...); err != nil {
			t.Fatalf("%q: %v", args, err)
		}
	}
	return optionsOf(core, provider), flags
}

// declared are the options of the engine that a Cluster declares.
func declared(t *testing.T, spec v1alpha1.ClusterSpec) map[string]any {
	t.Helper()
	ctx := engine.Offline(t.Context(), cluster.EngineSettings(spec))
	return optionsOf(*coreoptions.FromContext(ctx), *awsoptions.FromContext(ctx))
}

func differing(a, b map[string]any) (names []string) {
	for name := range a {
		if !reflect.DeepEqual(a[name], b[name]) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// upstreamSetting is one that Karpenter reads from a variable.
type upstreamSetting struct {
	// value is one that is not the default.
	value string
	// options are the fields that it sets, and parsed is all of them then.
	options []string
	parsed  map[string]any
}

// upstreamSettings are all of Karpenter, by their variables.
func upstreamSettings(t *testing.T) map[string]upstreamSetting {
	t.Helper()
	standard, flags := parsed(t)
	all := map[string]upstreamSetting{}
	flags.VisitAll(func(f *flag.Flag) {
		values := []string{"true", "false"}
		if getter, ok := f.Value.(flag.Getter); ok {
			values = []string{map[string]string{
				"preference-policy": "Ignore", "min-values-policy": "BestEffort", "feature-gates": "SpotToSpotConsolidation=true,NodeOverlay=true",
				"aws-feature-gates": "NodeClassCEL=true", "scheduler-config": "{podTopologySpread: {}}", "cluster-endpoint": "https://api.example.com", "log-level": "debug",
			}[f.Name], "other"}
			switch value := getter.Get().(type) {
			case int:
				values = []string{strconv.Itoa(value + 7)}
			case int64:
				values = []string{strconv.FormatInt(value+7, 10)}
			case float64:
				values = []string{strconv.FormatFloat(value/2, 'g', -1, 64)}
			case time.Duration:
				values = []string{(value + 77*time.Second/10).String()}
			}
		}
		for _, value := range values {
			if value == "" {
				continue
			}
			now, _ := parsed(t, "--"+f.Name+"="+value)
			if options := differing(standard, now); len(options) > 0 {
				all[strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))] = upstreamSetting{value, options, now}
				return
			}
		}
		t.Errorf("--%s sets no field of Karpenter's options", f.Name)
	})
	return all
}

// fieldsOfCluster are the options that each field of a Cluster decides.
func fieldsOfCluster(t *testing.T) map[string][]string {
	t.Helper()
	base := declared(t, reconcilertest.Cluster(nil).Spec)
	fields := map[string][]string{}
	for _, path := range []string{"spec", "spec.engine"} {
		of := reflect.TypeFor[v1alpha1.ClusterSpec]()
		if path == "spec.engine" {
			of = reflect.TypeFor[v1alpha1.EngineSpec]()
		}
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			if name == "engine" {
				continue
			}
			spec := reconcilertest.Cluster(nil).Spec
			target := reflect.ValueOf(&spec).Elem()
			if path == "spec.engine" {
				target = reflect.ValueOf(&spec.Engine).Elem()
			}
			change(target.Field(i))
			if options := differing(base, declared(t, spec)); len(options) > 0 {
				fields[path+"."+name] = options
			}
		}
	}
	return fields
}

// change gives a field another value than its default.
func change(v reflect.Value) {
	switch v.Interface().(type) {
	case *metav1.Duration:
		v.Set(reflect.ValueOf(&metav1.Duration{Duration: 77 * time.Second}))
		return
	case map[string]bool:
		v.Set(reflect.ValueOf(map[string]bool{"SpotToSpotConsolidation": true, "DRANVIDIAGPU": true}))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("0.5") // also a number
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32:
		v.SetInt(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	default: // The engine has no setting from another list or map.
	}
}

// rows are those of a section of docs/compatibility.md: the names of the first column, with the second.
func rows(t *testing.T, heading string) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("docs/compatibility.md has no section %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	all := map[string]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
			all[name[1]] = strings.TrimSpace(cells[2])
		}
	}
	return all
}

// TestEverySettingOfKarpenterHasAFieldOrAReason fails for one, by Karpenter's own structs, that
// neither a field of Cluster decides nor docs/compatibility.md gives a reason for.
func TestEverySettingOfKarpenterHasAFieldOrAReason(t *testing.T) {
	page, fields, set := rows(t, "Where Karpenter's settings are"), fieldsOfCluster(t), map[string]bool{}
	for variable, s := range upstreamSettings(t) {
		row := page[variable]
		delete(page, variable)
		var documented, decide []string
		if strings.HasPrefix(row, "`spec.") {
			for _, field := range regexp.MustCompile("`(spec[.a-zA-Z]+)`").FindAllStringSubmatch(row, -1) {
				documented = append(documented, field[1])
			}
		}
		for field, options := range fields {
			if slices.ContainsFunc(options, func(o string) bool { return slices.Contains(s.options, o) }) {
				decide = append(decide, field)
			}
		}
		slices.Sort(documented)
		slices.Sort(decide)
		if row == "" || !slices.Equal(documented, decide) {
			t.Errorf("%s (%s) is decided by the fields %q, and docs/compatibility.md has %q", variable, s.options, decide, row)
		}
		for _, option := range s.options {
			set[option] = true
		}
	}
	for variable := range page {
		t.Errorf("Karpenter has no %s, which docs/compatibility.md has", variable)
	}
	standard, _ := parsed(t)
	for option := range standard {
		if !set[option] {
			t.Errorf("no variable sets Karpenter's option %s: find out what does", option)
		}
	}
}

// TestEveryFeatureGateOfKarpenterIsAFieldOrHasAReason is the same for the gates.
func TestEveryFeatureGateOfKarpenterIsAFieldOrHasAReason(t *testing.T) {
	standard, _ := parsed(t)
	refused := rows(t, "What of Karpenter 1.15 is not offered")
	for _, of := range []string{"core.FeatureGates", "aws.FeatureGates"} {
		for gate := range standard[of].(map[string]bool) {
			spec := reconcilertest.Cluster(nil).Spec
			before := declared(t, spec)[of].(map[string]bool)[gate]
			spec.Engine.FeatureGates = map[string]bool{gate: !before}
			offered := declared(t, spec)[of].(map[string]bool)[gate] != before
			if offered == (refused[gate] != "") {
				t.Errorf("the gate %s is a field: %t; docs/compatibility.md refuses it because %q", gate, offered, refused[gate])
			}
		}
	}
}

// TestATakeOverCarriesEverySettingOver has a Karpenter with one setting after the other. What
// bootstrap proposes for the Cluster gives the engine the same options, or its name is reported.
func TestATakeOverCarriesEverySettingOver(t *testing.T) {
	carried := 0
	for variable, s := range upstreamSettings(t) {
		t.Run(variable, func(t *testing.T) {
			spec := reconcilertest.Cluster(nil).Spec
			k, compared := compareWith(t, spec, variable, s.value)
			if len(compared.Keep) == 0 {
				if !isReported(k, compared, variable, s) {
					t.Errorf("%s=%s is neither kept nor reported: %+v", variable, s.value, compared)
				}
				return
			}
			carried++
			raw, err := yaml.Marshal(compared.Keep)
			if err != nil {
				t.Fatal(err)
			}
			if err := yaml.UnmarshalStrict(raw, &spec.Engine); err != nil {
				t.Fatalf("%s\n%v", raw, err)
			}
			if err := cluster.EngineSettings(spec).Validate(); err != nil {
				t.Errorf("%s\n%v", raw, err)
			}
			got := declared(t, spec)
			for _, option := range s.options {
				if diff := cmp.Diff(s.parsed[option], got[option]); diff != "" {
					t.Errorf("%s of %s (-Karpenter +engine):\n%s", option, raw, diff)
				}
			}
			if _, again := compareWith(t, spec, variable, s.value); len(again.Keep) > 0 {
				t.Errorf("with %s it still differs: %v", raw, again.Keep)
			}
		})
	}
	if carried < 17 {
		t.Errorf("only %d settings were carried over", carried)
	}
}

// compareWith compares a Karpenter with one more variable with what a Cluster declares.
func compareWith(t *testing.T, spec v1alpha1.ClusterSpec, variable, value string) (takeover.Karpenter, takeover.Comparison) {
	t.Helper()
	d := karpenters("karpenter")[0]
	container := &d.Spec.Template.Spec.Containers[0]
	container.Env = append(container.Env, corev1.EnvVar{Name: variable, Value: value})
	kube := reconcilertest.InstalledClient(t, d)
	found, err := takeover.Find(t.Context(), kube)
	if err != nil || len(found) != 1 {
		t.Fatalf("found %v, %v", found, err)
	}
	compared, err := found[0].Compare(t.Context(), kube, cluster.EngineSettings(spec), found[0].CABundle)
	if err != nil {
		t.Fatal(err)
	}
	return found[0], compared
}

// isReported reports whether a person reads of the setting, or the engine has it in any case.
func isReported(k takeover.Karpenter, compared takeover.Comparison, variable string, s upstreamSetting) bool {
	switch variable {
	case "KARPENTER_SERVICE": // Nothing in Karpenter reads it.
		return true
	case "LEADER_ELECTION_NAMESPACE":
		return k.Election.Namespace == s.value
	case "LEADER_ELECTION_NAME", "DISABLE_LEADER_ELECTION":
		return strings.Contains(k.Undetectable(), variable)
	case "AWS_FEATURE_GATES":
		variable = "feature gate NodeClassCEL"
	}
	return slices.Contains(compared.Equal, variable) || slices.ContainsFunc(slices.Concat(compared.Blocking, compared.Differences), func(f takeover.Difference) bool {
		return strings.Contains(f.Message, variable) && f.Remedy != ""
	})
}
