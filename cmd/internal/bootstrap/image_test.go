package bootstrap

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/reconcilertest"
)

func TestAnotherImageOfTheInstalledOnesRepositoryIsAWarning(t *testing.T) {
	const replaced, stays = "is replaced", "stays"
	for name, c := range map[string]struct {
		installed, given, released string
		// warning is of which kind the warning is; empty where there is none.
		warning string
	}{
		"another tag that is given":                          {installed: "example.com:5000/p:v1", given: "example.com:5000/p:v2", warning: replaced},
		"another digest that is given":                       {installed: "example.com/p@sha256:1", given: "example.com/p@sha256:2", warning: replaced},
		"another digest of the same tag":                     {installed: "example.com/p:v1@sha256:1", given: "example.com/p:v1@sha256:2", warning: replaced},
		"a tag in the place of a digest":                     {installed: "example.com/p@sha256:1", given: "example.com/p:v2", warning: replaced},
		"a tag in the place of none":                         {installed: "example.com/p", given: "example.com/p:v2", warning: replaced},
		"an older tag that is given counts, not the release": {installed: "example.com/p:v2", given: "example.com/p:v1", released: "example.com/p:v2", warning: replaced},
		"a release with another tag":                         {installed: "example.com/p:v1", released: "example.com/p:v2", warning: stays},
		"the same image":                                     {installed: "example.com/p:v1", given: "example.com/p:v1"},
		"another tag of the same digest":                     {installed: "example.com/p:v1@sha256:1", given: "example.com/p:v2@sha256:1"},
		"the digest of the same tag":                         {installed: "example.com/p:v1", given: "example.com/p:v1@sha256:1"},
		"the tag latest, which is that of none":              {installed: "example.com/p", given: "example.com/p:latest"},
		"the release that is installed":                      {installed: "example.com/p:v2", released: "example.com/p:v2"},
		"another repository":                                 {installed: "example.com/p:v1", given: "registry.example.com/p:v2"},
		"another port is another registry":                   {installed: "example.com:5000/p:v1", given: "example.com:5001/p:v2"},
		"another repository than that of the release":        {installed: "example.com/p:v1", released: "registry.example.com/p:v2"},
		"a program of no release":                            {installed: "example.com/p:v1"},
		"nothing is installed":                               {given: "example.com/p:v1", released: "example.com/p:v2"},
	} {
		t.Run(name, func(t *testing.T) {
			kube := reconcilertest.InstalledClient(t)
			if c.installed != "" {
				d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "poolwright", Namespace: "gpu"}}
				d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "poolwright", Image: c.installed}}
				kube = reconcilertest.InstalledClient(t, d)
			}
			b := &Bootstrap{req: Request{Namespace: "gpu", Image: c.given, ReleasedImage: c.released}, direct: kube}
			if err := b.chooseImage(t.Context()); err != nil {
				t.Fatal(err)
			}
			var want []string
			switch c.warning {
			case replaced:
				want = []string{"the image of the controller that is installed is " + c.installed + ", and is replaced by " + c.given + "; to keep it, leave --image out"}
			case stays:
				want = []string{"the image of the controller that is installed is " + c.installed + ", and stays, while the other objects become those of this release; to install its image, pass --image " + c.released}
			}
			if d := cmp.Diff(want, b.Warnings); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}
