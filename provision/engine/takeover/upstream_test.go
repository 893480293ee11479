package takeover

import (
	"flag"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	awsoptions "github.com/aws/karpenter-provider-aws/pkg/operator/options"
	corev1 "k8s.io/api/core/v1"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"

	"github.com/poolwright/poolwright/provision/engine"
)

// upstream are Karpenter's own options and their flags.
type upstream struct {
	core  coreoptions.Options
	aws   awsoptions.Options
	flags *coreoptions.FlagSet
}

func newUpstream() *upstream {
	u := &upstream{flags: &coreoptions.FlagSet{FlagSet: flag.NewFlagSet("karpenter", flag.ContinueOnError)}}
	u.flags.SetOutput(io.Discard)
	u.core.AddFlags(u.flags)
	u.aws.AddFlags(u.flags)
	return u
}

// values are the options by which a take-over decides, by the names of their variables.
func (u *upstream) values() map[string]string {
	return map[string]string{
		"CLUSTER_NAME": u.aws.ClusterName, "INTERRUPTION_QUEUE": u.aws.InterruptionQueue, electionName: u.core.LeaderElectionName,
		"ISOLATED_VPC": strconv.FormatBool(u.aws.IsolatedVPC), electionOff: strconv.FormatBool(u.core.DisableLeaderElection),
	}
}

// Arguments are read as Karpenter's own flags read them, or the option counts as unknown.
func TestArgumentsAreReadAsKarpenterReadsThem(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 9))
	texts := []string{
		"--cluster-name=a", "--cluster-name", "-cluster-name=b", "-cluster-name", "--interruption-queue=c", "--interruption-queue",
		"--isolated-vpc", "--isolated-vpc=false", "-isolated-vpc=true", "--disable-leader-election", "--disable-leader-election=true",
		"--leader-election-name=d", "--leader-election-name", "--batch-max-duration=20s", "--reserved-enis", "1", "x", "true", "false", "--", "-", "",
	}
	read := 0
	for range 6_000 {
		var args []string
		for range r.IntN(6) {
			args = append(args, texts[r.IntN(len(texts))])
		}
		theirs := newUpstream()
		if theirs.flags.Parse(args) != nil {
			continue // Karpenter does not start with them.
		}
		ours, err := optionsOf(t.Context(), nil, "kube-system", &corev1.Container{Args: args})
		if err != nil {
			t.Fatal(err)
		}
		standard := newUpstream().values()
		for name, want := range theirs.values() {
			if ours.unknown(name) {
				continue
			}
			read++
			got, reported := ours.values[name]
			if !reported {
				got = standard[name]
			}
			if got != want {
				t.Fatalf("%q: %s is read as %q, and Karpenter has %q", args, name, got, want)
			}
		}
	}
	if read < 3_000 {
		t.Errorf("only %d options were compared", read)
	}
}

func TestStandardValuesAreKarpentersOwn(t *testing.T) {
	own := newUpstream()
	booleans := map[string]bool{
		"IGNORE_DRA_REQUESTS": own.core.IgnoreDRARequests, "EKS_CONTROL_PLANE": own.aws.EKSControlPlane, "ISOLATED_VPC": own.aws.IsolatedVPC,
		"ENABLE_ZONAL_SHIFT": own.aws.EnableZonalShift, "DISABLE_DRY_RUN": own.aws.DisableDryRun, "LEGACY_NODE_REPAIR": own.core.LegacyNodeRepair,
		"DISABLE_CLUSTER_STATE_OBSERVABILITY": own.core.DisableClusterStateObservability,
	}
	for _, v := range variables(engine.DefaultSettings()) {
		f := own.flags.Lookup(strings.ToLower(strings.ReplaceAll(v.name, "_", "-")))
		if f == nil {
			t.Errorf("Karpenter has no %s", v.name)
			continue
		}
		want := f.DefValue
		if on, ok := booleans[v.name]; ok {
			want = strconv.FormatBool(on)
		}
		if v.name == "CLUSTER_ENDPOINT" { // Without one Karpenter reads EKS's.
			want = "EKS's"
		}
		if v.name == "SCHEDULER_CONFIG" {
			want = "not set"
		}
		if !v.valueType.same(v.standard, want) {
			t.Errorf("the default of %s is %s, not %s", v.name, want, v.standard)
		}
		// What a cluster has that declares nothing is what Karpenter would do.
		if !v.valueType.same(v.ours, want) && v.name != "EKS_CONTROL_PLANE" {
			t.Errorf("without a setting %s would be %s, and Karpenter's is %s", v.name, v.ours, want)
		}
	}
}

// TestEverySettingOfKarpenterIsCompared fails for a flag that an upgrade adds.
func TestEverySettingOfKarpenterIsCompared(t *testing.T) {
	// These are compared apart from the others. Nothing reads the name of the Service.
	apart := map[string]bool{
		"CLUSTER_NAME": true, "INTERRUPTION_QUEUE": true, caBundle: true, "FEATURE_GATES": true, "AWS_FEATURE_GATES": true,
		electionName: true, electionNamespace: true, electionOff: true, "KARPENTER_SERVICE": true,
	}
	own := newUpstream()
	for name, standard := range ofInstallation() {
		apart[name] = true
		f := own.flags.Lookup(strings.ToLower(strings.ReplaceAll(name, "_", "-")))
		switch {
		case f == nil: // reported below
		case name == "ENABLE_PROFILING" || name == "DISABLE_CONTROLLER_WARMUP":
			if on := map[string]bool{"ENABLE_PROFILING": own.core.EnableProfiling, "DISABLE_CONTROLLER_WARMUP": own.core.DisableControllerWarmup}[name]; standard != strconv.FormatBool(on) {
				t.Errorf("the default of %s is %t, not %s", name, on, standard)
			}
		case f.DefValue != standard:
			t.Errorf("the default of %s is %s, not %s", name, f.DefValue, standard)
		}
	}
	compared := map[string]bool{}
	for _, v := range variables(engine.DefaultSettings()) {
		compared[v.name] = true
		if because := withoutField()[v.name]; (v.field == "") != (because != "") {
			t.Errorf("%s has the field %q, or none because %q", v.name, v.field, because)
		}
	}
	newUpstream().flags.VisitAll(func(f *flag.Flag) {
		name := strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if compared[name] == apart[name] {
			t.Errorf("%s is compared: %t; left apart: %t", name, compared[name], apart[name])
		}
		delete(apart, name)
	})
	for name := range apart {
		t.Errorf("Karpenter has no %s", name)
	}
}

func TestVariablesThatAreReadOutweighEachOtherAsInAPod(t *testing.T) {
	secret := &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "k"}}
	tests := map[string]struct {
		container corev1.Container
		value     string
		unknown   bool
	}{
		"nothing":                                  {corev1.Container{}, "", false},
		"the last of two variables":                {corev1.Container{Env: []corev1.EnvVar{{Name: "CLUSTER_NAME", Value: "a"}, {Name: "CLUSTER_NAME", Value: "b"}}}, "b", false},
		"a flag before a variable":                 {corev1.Container{Env: []corev1.EnvVar{{Name: "CLUSTER_NAME", Value: "a"}}, Args: []string{"--cluster-name=b"}}, "b", false},
		"the last of two flags":                    {corev1.Container{Args: []string{"--cluster-name=a", "--cluster-name=b"}}, "b", false},
		"flags behind the command":                 {corev1.Container{Command: []string{"/karpenter", "--cluster-name=a"}}, "a", false},
		"arguments behind those":                   {corev1.Container{Command: []string{"/karpenter", "--cluster-name=a"}, Args: []string{"--cluster-name=b"}}, "b", false},
		"a program that starts another":            {corev1.Container{Command: []string{"/entrypoint"}, Args: []string{"--cluster-name=a"}}, "", true},
		"an older flag takes no flag":              {corev1.Container{Args: []string{"--leader-elect", "--cluster-name=a"}}, "a", false},
		"an older flag takes a value":              {corev1.Container{Args: []string{"--webhook-port", "8443", "--cluster-name=a"}}, "a", false},
		"a boolean takes no next argument":         {corev1.Container{Args: []string{"--isolated-vpc", "false", "--cluster-name=a"}}, "", true},
		"a text takes what has the form of a flag": {corev1.Container{Args: []string{"--interruption-queue", "--cluster-name=a"}}, "", false},
		"one from a Secret":                        {corev1.Container{Env: []corev1.EnvVar{{Name: "CLUSTER_NAME", ValueFrom: secret}}}, "", true},
		"one from a Secret behind a value":         {corev1.Container{Env: []corev1.EnvVar{{Name: "CLUSTER_NAME", Value: "a"}, {Name: "CLUSTER_NAME", ValueFrom: secret}}}, "", true},
		"a value behind one from a Secret":         {corev1.Container{Env: []corev1.EnvVar{{Name: "CLUSTER_NAME", ValueFrom: secret}, {Name: "CLUSTER_NAME", Value: "a"}}}, "a", false},
		"a flag behind one from a Secret":          {corev1.Container{Env: []corev1.EnvVar{{Name: "CLUSTER_NAME", ValueFrom: secret}}, Args: []string{"--cluster-name=a"}}, "a", false},
		"one that is put together":                 {corev1.Container{Env: []corev1.EnvVar{{Name: "CLUSTER_NAME", Value: "x-$(STAGE)"}}}, "", true},
		"a Secret of which all is taken":           {corev1.Container{EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{}}}}, "", true},
		"a value beside such a Secret":             {corev1.Container{EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{}}}, Env: []corev1.EnvVar{{Name: "CLUSTER_NAME", Value: "a"}}}, "a", false},
		"a script instead of arguments":            {corev1.Container{Command: []string{"sh", "-c", "exec karpenter"}}, "", true},
		"what stands before such an ending":        {corev1.Container{Args: []string{"--cluster-name=a", "x", "--cluster-name=b"}}, "a", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o, err := optionsOf(t.Context(), nil, "kube-system", &tt.container)
			if err != nil {
				t.Fatal(err)
			}
			if got := o.values["CLUSTER_NAME"]; got != tt.value || o.unknown("CLUSTER_NAME") != tt.unknown {
				t.Errorf("%q, unknown %t; not %q, %t", got, o.unknown("CLUSTER_NAME"), tt.value, tt.unknown)
			}
		})
	}
}
