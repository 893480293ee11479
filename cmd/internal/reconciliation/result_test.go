package reconciliation

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
)

func TestASyncIsFoundByItsNameOrAsTheOnlyOne(t *testing.T) {
	named := func(namespace, name string) client.Object {
		return &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	for name, c := range map[string]struct {
		has       []client.Object
		namespace string
		name      string
		found     string
		fails     string
	}{
		"by its name":                  {[]client.Object{named("gitops", "dev"), named("gitops", "prod")}, "gitops", "prod", "prod", ""},
		"the only one":                 {[]client.Object{named("gitops", "dev"), named("other", "prod")}, "gitops", "", "dev", ""},
		"one that is not there":        {[]client.Object{named("gitops", "dev")}, "gitops", "prod", "", `no Sync "prod" in namespace gitops`},
		"without a name of two":        {[]client.Object{named("gitops", "dev"), named("gitops", "prod")}, "gitops", "", "", "several Syncs, name one of them: dev, prod"},
		"in a namespace that has none": {[]client.Object{named("gitops", "dev")}, "other", "", "", "no Sync found in namespace other"},
	} {
		t.Run(name, func(t *testing.T) {
			sync, err := FindSync(t.Context(), reconcilertest.InstalledClient(t, c.has...), c.namespace, c.name)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) || errors.Is(err, ErrNoSync) != (c.namespace == "other") {
					t.Errorf("it is %v", err)
				}
				return
			}
			if err != nil || sync.Name != c.found {
				t.Errorf("found %v, %v", sync, err)
			}
		})
	}
}

func TestASyncWithoutTheConditionReadyIsNotReady(t *testing.T) {
	if message, ready := Result(&v1alpha1.Sync{}); ready || message != "no Ready condition yet" {
		t.Errorf("ready %t: %s", ready, message)
	}
}
