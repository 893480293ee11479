package child

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// TestTheContainerHasRoomForTheProcessAndItsChildren holds every Deployment of the
// controller in this repository, and every patch of one, against the one arithmetic.
func TestTheContainerHasRoomForTheProcessAndItsChildren(t *testing.T) {
	met := 0
	for _, root := range []string{"config", "examples"} {
		err := filepath.WalkDir(filepath.Join(repository, root), func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(name) != ".yaml" {
				return err
			}
			content, err := os.ReadFile(name)
			for doc := range bytes.SplitSeq(content, []byte("\n---")) {
				var found appsv1.Deployment
				if yaml.Unmarshal(doc, &found) != nil || found.Kind != "Deployment" || found.Name != "poolwright" {
					continue
				}
				met++
				for _, c := range found.Spec.Template.Spec.Containers {
					if err := checkMemoryLimit(c); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if met < 2 {
		t.Errorf("only %d Deployments were found", met)
	}
}

// checkMemoryLimit is why a container is too small; nil where it is not, or is another one.
func checkMemoryLimit(c corev1.Container) error {
	at := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" })
	limit := c.Resources.Limits.Memory()
	if c.Name != "poolwright" || at < 0 && limit.IsZero() {
		return nil
	}
	if at < 0 || limit.IsZero() {
		return errors.New("it sets one of GOMEMLIMIT and the memory limit, which go together")
	}
	goMemLimit, err := resource.ParseQuantity(strings.TrimSuffix(c.Env[at].Value, "B")) // Go writes MiB, Kubernetes Mi.
	if err != nil {
		return fmt.Errorf("GOMEMLIMIT: %w", err)
	}
	if need := MinContainerMemory(goMemLimit.Value()); limit.Value() < need {
		return fmt.Errorf("with GOMEMLIMIT=%s and %d children it needs %d MiB; its limit is %s", c.Env[at].Value, atOnce, need>>20, limit)
	}
	return nil
}

func TestTheArithmeticFindsAContainerThatIsTooSmall(t *testing.T) {
	const before = 1843 << 20
	for limit, enough := range map[string]bool{"3571Mi": true, "3570Mi": false, "0": false} {
		c := corev1.Container{Name: "poolwright", Env: []corev1.EnvVar{{Name: "GOMEMLIMIT", Value: "1843MiB"}}}
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}
		if err := checkMemoryLimit(c); (err == nil) != enough {
			t.Errorf("a limit of %s: %v", limit, err)
		}
	}
	if need := MinContainerMemory(before); need != before+2*(640+32)<<20+384<<20 {
		t.Errorf("a process of 1843 MiB needs %d MiB", need>>20)
	}
	if limits := (Limits{}).withDefaults(); limits.Memory != memoryDefault {
		t.Errorf("a child of the default limits may hold %d MiB, and the arithmetic counts %d", limits.Memory>>20, memoryDefault>>20)
	}
	if slots := NewSemaphore(); cap(slots.all) != atOnce || slots.proposals.free >= cap(slots.all) {
		t.Errorf("%d children run at once, %d of them for proposals", cap(slots.all), slots.proposals.free)
	}
}
