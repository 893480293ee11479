package images

import (
	"strings"
	"testing"
)

func TestNoImageIsOlderThanItsKubernetesVersion(t *testing.T) {
	releases := []string{"v20250505", "v20250904", "v20260115", "v20260611", "v20261102"}
	names := func(k8s, release string) (found int) {
		for _, i := range newImages("1.33", releases) {
			if strings.HasSuffix(i.name, "-"+k8s+"-"+release) {
				found++
			}
		}
		return found
	}
	for _, c := range []struct {
		k8s, release string
		published    bool
	}{
		{"1.32", "v20250505", true},
		{"1.33", "v20250505", false},
		{"1.33", "v20250904", true},
		{"1.34", "v20250904", false},
		{"1.34", "v20260115", true},
	} {
		if found := names(c.k8s, c.release); found > 0 != c.published {
			t.Errorf("release %s has %d images for %s", c.release, found, c.k8s)
		}
	}
}
