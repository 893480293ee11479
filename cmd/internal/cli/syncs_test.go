package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

func TestAWaitThatEndsSaysWhatEndedIt(t *testing.T) {
	for name, c := range map[string]struct {
		// interrupt ends the command once it waits.
		interrupt bool
		timeout   time.Duration
		code      int
		says      string
	}{
		"a person": {interrupt: true, timeout: time.Hour, code: exitInterrupted, says: "kubectl -n poolwright-system get syncs.poolwright.dev dev -w"},
		"the time": {timeout: time.Millisecond, code: exitError, says: "was not handled within 1ms"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			sync := &v1alpha1.Sync{}
			sync.Namespace, sync.Name = "poolwright-system", "dev"
			cl := fake.NewClientBuilder().WithScheme(scheme).WithObjects(sync).WithInterceptorFuncs(interceptor.Funcs{
				Watch: func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) (watch.Interface, error) {
					w := watch.NewFake()
					if c.interrupt {
						interrupt()
					}
					context.AfterFunc(ctx, w.Stop)
					return w, nil
				},
			}).Build()
			var out bytes.Buffer
			err := request(ctx, cl, sync, waitFlags{wait: true, timeout: c.timeout}, &out, func(*v1alpha1.Sync) {})
			code := exitError
			if e, ok := errors.AsType[*exit](err); ok {
				code = e.code
			}
			if err == nil || code != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("exit code %d: %v", code, err)
			}
		})
	}
}
