package demo

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/setups"
)

func TestEverySetUpHasAScenarioThatItsExampleCanRun(t *testing.T) {
	known := scenarios()
	for _, setup := range setups.All() {
		t.Run(setup.Name, func(t *testing.T) {
			scenario, ok := known[setup.Name]
			if !ok {
				t.Fatal("there is no scenario of it")
			}
			example := filepath.Join("..", "..", "..", "examples", setup.Name)
			manifests := manifestsOf(t, example)
			for _, r := range scenario.workloads {
				if err := r.load(example); err != nil {
					t.Error(err)
				}
				if !regexp.MustCompile(`(?m)^kind: (?:NodePool|Provisioner)\nmetadata:\n  name: ` + r.pool + `$`).MatchString(manifests) {
					t.Errorf("the example has no pool %s", r.pool)
				}
			}
			if len(scenario.steps(&Run{}, scenario.workloads)) == 0 {
				t.Error("it has no steps")
			}
		})
	}
	if len(known) != len(setups.All()) {
		t.Errorf("there are %d scenarios for %d set-ups", len(known), len(setups.All()))
	}
}

func manifestsOf(t *testing.T, example string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(example, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func TestTheWorkloadOwnsItsPodsAlone(t *testing.T) {
	examples := filepath.Join("..", "..", "..", "examples")
	pod := func(namespace, name, app string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": app}}}
	}
	for name, c := range map[string]struct {
		setup       string
		pods        int
		title       string
		gpu         bool
		ours, other *corev1.Pod
	}{
		"a pod by its name": {
			"altanova", 1, "pod/tinyllama-inference", true,
			pod("default", "tinyllama-inference", "any"), pod("default", "another", "tinyllama"),
		},
		"a Deployment's by their labels": {
			"timeslicing", 40, "deployment/inference", true,
			pod("default", "inference-1", "inference"), pod("default", "inference", "another"),
		},
		"one that starts with none has one, in its namespace": {
			"pingvas", 1, "deployment/ai-worker", true,
			pod("prod", "ai-worker-1", "ai-worker"), pod("default", "ai-worker-1", "ai-worker"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := scenarios()[c.setup].workloads[0]
			if err := r.load(filepath.Join(examples, c.setup)); err != nil {
				t.Fatal(err)
			}
			if r.pods() != c.pods || r.title() != c.title || r.needsGPU != c.gpu {
				t.Errorf("it has %d pods of %s, GPUs: %t", r.pods(), r.title(), r.needsGPU)
			}
			if !r.owns(c.ours) || r.owns(c.other) {
				t.Errorf("it knows its own: %t, and another as its own: %t", r.owns(c.ours), r.owns(c.other))
			}
		})
	}
}

func TestAWorkloadIgnoresWhatAnEarlierOneHasObserved(t *testing.T) {
	first := newWorkload("gpu", "1 GPU")
	first.claims("i-1")
	next := first.again()
	next.ignore(first)
	if next.claims("i-1") || !next.claims("i-2") || !first.claims("i-2") {
		t.Error("it must know what is new, and that alone")
	}
}

func TestOnlyTheNamedPoolIsShortened(t *testing.T) {
	const text = "name: first\nconsolidateAfter: 1m\n---\nname: gpu\nconsolidateAfter: 1m\n---\nname: gpu-class\nconsolidateAfter: 1m\n"
	got, err := shortenConsolidateAfter("gpu", "1m")(text)
	if want := "name: first\nconsolidateAfter: 1m\n---\nname: gpu\nconsolidateAfter: 10s\n---\nname: gpu-class\nconsolidateAfter: 1m\n"; err != nil || got != want {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := shortenConsolidateAfter("other", "1m")(text); err == nil {
		t.Error("a pool that is not there was shortened")
	}
}
