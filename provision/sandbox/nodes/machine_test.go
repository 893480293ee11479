package nodes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/userdata"
)

func TestAnImagesNameHasItsFamilyAndDriver(t *testing.T) {
	for name, want := range map[string]image{
		"amazon-eks-node-al2023-x86_64-standard-1.36-v20261110":    {userdata.AL2023, false, "1.36", "Amazon Linux 2023"},
		"amazon-eks-node-al2023-x86_64-nvidia-1.36-v20261110":      {userdata.AL2023, true, "1.36", "Amazon Linux 2023"},
		"amazon-eks-node-al2023-arm64-standard-1.31-v20261110":     {userdata.AL2023, false, "1.31", "Amazon Linux 2023"},
		"amazon-eks-node-1.31-v20261110":                           {userdata.AL2, false, "1.31", "Amazon Linux 2"},
		"amazon-eks-arm64-node-1.31-v20261110":                     {userdata.AL2, false, "1.31", "Amazon Linux 2"},
		"amazon-eks-gpu-node-1.31-v20261110":                       {userdata.AL2, true, "1.31", "Amazon Linux 2"},
		"bottlerocket-aws-k8s-1.36-x86_64-v1.50.0-0123abcd":        {userdata.Bottlerocket, false, "1.36", "Bottlerocket OS"},
		"bottlerocket-aws-k8s-1.36-nvidia-x86_64-v1.50.0-0123abcd": {userdata.Bottlerocket, true, "1.36", "Bottlerocket OS"},
		"our-golden-image 2026":                                    {userdata.Unknown, false, "", "Linux"},
		"our_gpu_image":                                            {userdata.Unknown, true, "", "Linux"},
	} {
		got, err := readImage(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(image{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if _, err := readImage("Windows_Server-2022-English-Core-EKS_Optimized-1.36-2026.11.10"); err == nil || !strings.Contains(err.Error(), "Windows") {
		t.Errorf("a Windows image: %v", err)
	}
}

func TestAPrintedMachineHidesItsUserData(t *testing.T) {
	m := Machine{ID: "i-1", Type: "g5.xlarge", Zone: "us-east-1a", UserData: "hunter2"}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if got := fmt.Sprintf(verb, m); strings.Contains(got, "hunter2") || !strings.Contains(got, "i-1") {
			t.Errorf("%s prints %s", verb, got)
		}
	}
}

func TestAPlayerNeedsACluster(t *testing.T) {
	full := Cluster{Name: "c", Endpoint: "https://e", Region: "us-east-1"}
	for name, c := range map[string]struct {
		config Config
		reason string
	}{
		"no client":                    {Config{Cluster: full}, "neither REST nor Client"},
		"no endpoint":                  {Config{REST: &rest.Config{}, Cluster: Cluster{Name: "c"}}, "endpoint"},
		"a system machine of no group": {Config{REST: &rest.Config{}, Cluster: full, System: []Machine{{ID: "i-1"}}}, "has no node group"},
	} {
		if _, err := New(c.config); err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.reason)
		}
	}
}

func TestDelaysHaveDefaultsAndCanBeNone(t *testing.T) {
	want := Delays{Join: 2 * time.Second, PodStart: time.Second, Plugin: 500 * time.Millisecond, BuiltinPlugin: 500 * time.Millisecond,
		PluginRetry: 30 * time.Second, CrashBackOff: 10 * time.Second, Volume: time.Second}
	if diff := cmp.Diff(want, Delays{PodStart: time.Second, NodeGone: -1}.withDefaults()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
