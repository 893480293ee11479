package gpu_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/poolwright/poolwright/provision/gpu"
)

func TestAPoolHasTheConfigThatNamesItOrTheDefault(t *testing.T) {
	sharing := gpu.Sharing{Default: "rest", Configs: []gpu.PluginConfig{
		{Name: "sliced", Pools: []string{"a", "b"}}, {Name: "rest"}, {Name: "mps", Pools: []string{"c"}},
	}}
	for pool, want := range map[string]string{"a": "sliced", "b": "sliced", "c": "mps", "d": "rest"} {
		if got, ok := sharing.ConfigForPool(pool); !ok || got.Name != want {
			t.Errorf("pool %s has %q, %t; want %s", pool, got.Name, ok, want)
		}
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, sharing.Others("rest")); diff != "" {
		t.Error(diff)
	}
	sharing.Default = ""
	if got, ok := sharing.ConfigForPool("d"); ok {
		t.Errorf("without a default, pool d has %q", got.Name)
	}
	if _, ok := (gpu.Sharing{}).ConfigForPool("a"); ok {
		t.Error("the empty sharing serves a pool")
	}
}

func TestWhatANodeAdvertisesIsTheConfigsSharesOfAllGPUs(t *testing.T) {
	for name, c := range map[string]struct {
		config gpu.PluginConfig
		gpus   int
		want   string
	}{
		"whole GPUs":    {gpu.PluginConfig{Strategy: gpu.SharingStrategyNone}, 4, "nvidia.com/gpu=4,nvidia.com/gpu.shared=0"},
		"time slices":   {gpu.PluginConfig{Strategy: gpu.SharingStrategyTimeSlicing, Replicas: 10}, 4, "nvidia.com/gpu=40,nvidia.com/gpu.shared=0"},
		"renamed ones":  {gpu.PluginConfig{Strategy: gpu.SharingStrategyMPS, Replicas: 3, Renamed: true}, 8, "nvidia.com/gpu=0,nvidia.com/gpu.shared=24"},
		"MIG devices":   {gpu.PluginConfig{Strategy: gpu.StrategyMIG, Replicas: 4, MIGDevices: map[string]int{"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}}, 8, "nvidia.com/gpu=0,nvidia.com/gpu.shared=0,nvidia.com/mig-1g.10gb=16,nvidia.com/mig-2g.20gb=8,nvidia.com/mig-3g.40gb=8"},
		"as whole GPUs": {gpu.PluginConfig{Strategy: gpu.StrategyMIG, Replicas: 7, MIGSingle: true, MIGDevices: map[string]int{"1g.10gb": 7}}, 8, "nvidia.com/gpu=56,nvidia.com/gpu.shared=0"},
		"no GPU at all": {gpu.PluginConfig{Strategy: gpu.SharingStrategyTimeSlicing, Replicas: 10}, 0, "nvidia.com/gpu=0,nvidia.com/gpu.shared=0"},
	} {
		allocatable := c.config.Allocatable(c.gpus)
		if got := allocatable.String(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		back, err := gpu.ParseResources(allocatable.String())
		if diff := cmp.Diff(allocatable, back); diff != "" || err != nil {
			t.Errorf("%s: read back: %v %s", name, err, diff)
		}
		if differs := allocatable.Differs(allocatable.ApplyTo(nil)); differs != "" {
			t.Errorf("%s: the advertise differs from itself: %s", name, differs)
		}
	}
}

func TestANodeDiffersFromWhatItMustAdvertise(t *testing.T) {
	allocatable := gpu.PluginConfig{Replicas: 10, Renamed: true}.Allocatable(4)
	list := func(pairs ...any) corev1.ResourceList {
		out := corev1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			out[corev1.ResourceName(pairs[i].(string))] = *resource.NewQuantity(int64(pairs[i+1].(int)), resource.DecimalSI)
		}
		return out
	}
	for name, c := range map[string]struct {
		has  corev1.ResourceList
		want string
	}{
		"nothing yet":            {nil, "nvidia.com/gpu.shared: 0 of 40"},
		"whole GPUs first":       {list("nvidia.com/gpu", 4), "nvidia.com/gpu: 4 of 0, nvidia.com/gpu.shared: 0 of 40"},
		"a GPU is missing":       {list("nvidia.com/gpu.shared", 30), "nvidia.com/gpu.shared: 30 of 40"},
		"both names":             {list("nvidia.com/gpu", 4, "nvidia.com/gpu.shared", 40), "nvidia.com/gpu: 4 of 0"},
		"as it should be":        {list("nvidia.com/gpu", 0, "nvidia.com/gpu.shared", 40, "cpu", 3), ""},
		"the other name is gone": {list("nvidia.com/gpu.shared", 40), ""},
	} {
		if got := allocatable.Differs(c.has); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestAdvertisedGPUsAreOfEveryName(t *testing.T) {
	quantity := *resource.NewQuantity(3, resource.DecimalSI)
	got := gpu.Resources{gpu.Resource: 0, gpu.SharedResource: 0}
	got.Add(corev1.ResourceList{"cpu": quantity, "nvidia.com/mig-1g.10gb": quantity, "nvidia.com/mig-2g.20gb": {}, "nvidia.com/other": quantity})
	if diff := cmp.Diff(gpu.Resources{gpu.Resource: 0, gpu.SharedResource: 0, "nvidia.com/mig-1g.10gb": 3, "nvidia.com/mig-2g.20gb": 0}, got); diff != "" {
		t.Error(diff)
	}
	if !got.Any() || (gpu.Resources{gpu.Resource: 0}).Any() {
		t.Error("whether any is advertised")
	}
}

func TestPartitionsAreComparedByProfilesNumbersAndName(t *testing.T) {
	mig := gpu.PluginConfig{Name: "a", Strategy: gpu.StrategyMIG, MIGDevices: map[string]int{"2g.20gb": 1, "1g.10gb": 2}}
	single := gpu.PluginConfig{Strategy: gpu.StrategyMIG, MIGSingle: true, MIGDevices: map[string]int{"1g.10gb": 7}}
	for want, p := range map[string]gpu.PluginConfig{"mixed,1g.10gb=2,2g.20gb=1": mig, "single,1g.10gb=7": single, "": {Strategy: gpu.SharingStrategyMPS, Replicas: 2}} {
		if got := p.Partitions(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if diff := cmp.Diff([]corev1.ResourceName{"nvidia.com/mig-1g.10gb", "nvidia.com/mig-2g.20gb"}, mig.Resources()); diff != "" || single.Resource() != gpu.Resource {
		t.Error(diff, single.Resource())
	}
	if got := mig.ResourceNames(); got != "nvidia.com/mig-1g.10gb, nvidia.com/mig-2g.20gb" || !mig.Advertises("nvidia.com/mig-2g.20gb") || mig.Advertises("nvidia.com/gpu") {
		t.Error(got)
	}
}

func TestTheLeastOfTwoResources(t *testing.T) {
	ten, five := gpu.PluginConfig{Replicas: 10}.Allocatable(4), gpu.PluginConfig{Replicas: 5, Renamed: true}.Allocatable(4)
	if got := ten.Min(five).String(); got != "nvidia.com/gpu=0,nvidia.com/gpu.shared=0" {
		t.Error(got)
	}
	if got := ten.Min(gpu.PluginConfig{Replicas: 20}.Allocatable(4)).String(); got != "nvidia.com/gpu=40,nvidia.com/gpu.shared=0" {
		t.Error(got)
	}
}

func TestAPodRequestsWhatItsContainersHoldAtOnce(t *testing.T) {
	container := func(n int64, of corev1.ResourceName) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{of: *resource.NewQuantity(n, resource.DecimalSI)}}}
	}
	always := corev1.ContainerRestartPolicyAlways
	sidecar := container(1, gpu.Resource)
	sidecar.RestartPolicy = &always
	for name, c := range map[string]struct {
		spec corev1.PodSpec
		want gpu.Resources
	}{
		"nothing of NVIDIA's":                {corev1.PodSpec{Containers: []corev1.Container{container(4, corev1.ResourceCPU)}}, gpu.Resources{}},
		"containers add up":                  {corev1.PodSpec{Containers: []corev1.Container{container(1, gpu.Resource), container(2, gpu.Resource), container(1, "nvidia.com/mig-1g.5gb")}}, gpu.Resources{gpu.Resource: 3, "nvidia.com/mig-1g.5gb": 1}},
		"init containers come before":        {corev1.PodSpec{InitContainers: []corev1.Container{container(2, gpu.Resource), container(3, gpu.Resource)}, Containers: []corev1.Container{container(1, gpu.Resource)}}, gpu.Resources{gpu.Resource: 3}},
		"sidecars run on beside them":        {corev1.PodSpec{InitContainers: []corev1.Container{sidecar}, Containers: []corev1.Container{container(1, gpu.Resource)}}, gpu.Resources{gpu.Resource: 2}},
		"requests stand where no limits are": {corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{gpu.SharedResource: resource.MustParse("1")}}}}}, gpu.Resources{gpu.SharedResource: 1}},
	} {
		if diff := cmp.Diff(c.want, gpu.Requests(c.spec)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestSharingStrategiesAreEncodedApart(t *testing.T) {
	stamps := map[string]string{}
	for name, p := range map[string]gpu.PluginConfig{
		"whole": {Strategy: gpu.SharingStrategyNone, Replicas: 1}, "sliced": {Strategy: gpu.SharingStrategyTimeSlicing, Replicas: 10}, "more": {Strategy: gpu.SharingStrategyTimeSlicing, Replicas: 20},
		"renamed": {Strategy: gpu.SharingStrategyTimeSlicing, Replicas: 10, Renamed: true}, "mps": {Strategy: gpu.SharingStrategyMPS, Replicas: 10},
	} {
		if other, twice := stamps[p.EncodeSharing()]; twice {
			t.Errorf("%s and %s have the stamp %s", name, other, p.EncodeSharing())
		}
		stamps[p.EncodeSharing()] = name
	}
}

func FuzzParseOffer(f *testing.F) {
	for _, seed := range []string{"nvidia.com/gpu=40", "nvidia.com/gpu=4,nvidia.com/gpu.shared=0", "", "cpu=1", "nvidia.com/gpu=99999999", "nvidia.com/gpu=1,nvidia.com/gpu=2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		allocatable, err := gpu.ParseResources(text)
		if err != nil {
			return
		}
		again, err := gpu.ParseResources(allocatable.String())
		if diff := cmp.Diff(allocatable, again); diff != "" || err != nil {
			t.Errorf("%q read as %v, then as %v, %v", text, allocatable, again, err)
		}
		for name, n := range allocatable {
			if n < 0 || n > 16_000 || (name != gpu.Resource && name != gpu.SharedResource) {
				t.Errorf("%q claims %d of %s", text, n, name)
			}
		}
	})
}
