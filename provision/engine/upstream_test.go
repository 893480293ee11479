package engine

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/karpenter-provider-aws/pkg/aws"
	awsoptions "github.com/aws/karpenter-provider-aws/pkg/operator/options"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"

	"github.com/poolwright/poolwright/internal/golden"
)

// TestWhatKarpenterHasIsListed fails when an upgrade adds or drops a setting, a feature gate, an
// operation of AWS or a field of a CRD. With -update the difference of the file is what is to be
// decided about, by the procedure of docs/compatibility.md.
func TestWhatKarpenterHasIsListed(t *testing.T) {
	var all strings.Builder
	section := func(title string, lines []string) {
		slices.Sort(lines)
		fmt.Fprintf(&all, "# %s\n%s\n\n", title, strings.Join(lines, "\n"))
	}
	section("settings of the core", exported(reflect.TypeFor[coreoptions.Options]()))
	section("settings of the AWS provider", exported(reflect.TypeFor[awsoptions.Options]()))
	section("feature gates of the core", exported(reflect.TypeFor[coreoptions.FeatureGates]()))
	section("feature gates of the AWS provider", exported(reflect.TypeFor[awsoptions.FeatureGates]()))
	var operations []string
	for service, api := range map[string]reflect.Type{
		"arc-zonal-shift": reflect.TypeFor[sdk.ARCZonalShiftAPI](), "ec2": reflect.TypeFor[sdk.EC2API](), "eks": reflect.TypeFor[sdk.EKSAPI](),
		"iam": reflect.TypeFor[sdk.IAMAPI](), "pricing": reflect.TypeFor[sdk.PricingAPI](), "sqs": reflect.TypeFor[sdk.SQSAPI](), "ssm": reflect.TypeFor[sdk.SSMAPI](),
	} {
		for method := range api.Methods() {
			operations = append(operations, service+":"+method.Name)
		}
	}
	section("operations of AWS", operations)
	settings := valid()
	settings.FeatureGates["CapacityBuffer"] = true
	crds, err := CRDs(settings)
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds {
		var fields []string
		for _, v := range crd.Spec.Versions {
			fields = append(fields, fieldsOf(v.Schema.OpenAPIV3Schema, v.Name)...)
		}
		section("fields of "+crd.Name, fields)
	}
	golden.Compare(t, "testdata/upstream.golden", strings.TrimSpace(all.String())+"\n")
}

func exported(of reflect.Type) (names []string) {
	for field := range of.Fields() {
		if field.IsExported() {
			names = append(names, field.Name)
		}
	}
	return names
}

// fieldsOf are the paths of a schema's fields that have no fields of their own.
func fieldsOf(schema *apiextensionsv1.JSONSchemaProps, path string) (paths []string) {
	if schema.Items != nil && schema.Items.Schema != nil {
		return fieldsOf(schema.Items.Schema, path+"[]")
	}
	for name, property := range schema.Properties {
		paths = append(paths, fieldsOf(&property, path+"."+name)...)
	}
	if len(paths) == 0 {
		return []string{path}
	}
	return paths
}

// TestEverySettingOfKarpenterIsDecidedAbout fails for one that neither follows from the settings of
// the engine nor stays as it is for a reason.
func TestEverySettingOfKarpenterIsDecidedAbout(t *testing.T) {
	const ofManager = "it is the manager's or the process's"
	stays := map[string]string{
		"Options.ServiceName": ofManager, "Options.MetricsPort": ofManager, "Options.HealthProbePort": ofManager,
		"Options.EnableProfiling": ofManager, "Options.DisableLeaderElection": ofManager, "Options.LeaderElectionName": ofManager,
		"Options.LeaderElectionNamespace": ofManager, "Options.MemoryLimit": ofManager, "Options.LogLevel": ofManager,
		"Options.LogOutputPaths": ofManager, "Options.LogErrorOutputPaths": ofManager,
		"Options.LegacyNodeRepair": "upstream plans to remove it",
		"Options.SchedulerConfig":  "EKS does not let one configure its scheduler",
	}
	base := newOptions(valid())
	decided := map[string]bool{}
	walkFields(reflect.TypeFor[Settings](), nil, func(path []int, _ string) {
		changed := valid()
		poke(reflect.ValueOf(&changed).Elem().FieldByIndex(path))
		now := newOptions(changed)
		for prefix, pair := range map[string][2]any{"Options.": {*base.core, *now.core}, "AWS.": {*base.provider, *now.provider}} {
			before, after := reflect.ValueOf(pair[0]), reflect.ValueOf(pair[1])
			for i := range before.NumField() {
				if field := before.Type().Field(i); field.IsExported() && !reflect.DeepEqual(before.Field(i).Interface(), after.Field(i).Interface()) {
					decided[prefix+field.Name] = true
				}
			}
		}
	})
	for prefix, of := range map[string]reflect.Type{"Options.": reflect.TypeFor[coreoptions.Options](), "AWS.": reflect.TypeFor[awsoptions.Options]()} {
		for _, name := range exported(of) {
			because, left := stays[prefix+name]
			delete(stays, prefix+name)
			if decided[prefix+name] == left || left && because == "" {
				t.Errorf("Karpenter's setting %s%s follows from the engine's settings: %t; stays: %t", prefix, name, decided[prefix+name], left)
			}
		}
	}
	for name := range stays {
		t.Errorf("Karpenter has no setting %s", name)
	}
}
