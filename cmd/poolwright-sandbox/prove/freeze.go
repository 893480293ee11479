package prove

import (
	"context"
	"errors"
	"time"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/fixture"
	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/releases"
	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// frozenName is the name of the fixture of a release, which stands in nothing else.
const frozenName = "frozen-release"

// Freeze has a release of the product apply a repository in a new sandbox, and writes what that
// leaves in the cluster into a folder, for the scenarios of upgrades. timeout bounds each wait for
// the product.
func Freeze(ctx context.Context, environment *sandbox.Environment, product string, timeout time.Duration, dir string) error {
	if err := v1alpha1.AddToScheme(clientgoscheme.Scheme); err != nil {
		return err
	}
	in, err := newCaseSandbox(environment)
	if err != nil {
		return err
	}
	s, err := fixture.New(ctx, fixture.Config{Environment: environment, Admin: in.admin, Product: product, Timeout: timeout}, frozenName)
	if err != nil {
		return err
	}
	release, err := applied(ctx, s)
	if err == nil {
		err = release.Write(dir)
	}
	return errors.Join(err, s.Close(context.WithoutCancel(ctx)))
}

// applied is what the fixture's product leaves in the cluster.
func applied(ctx context.Context, s *fixture.Fixture) (releases.Release, error) {
	s.Model = releases.Model()
	for _, do := range []func() error{
		func() error { return s.Commit(ctx, "Begin") }, s.Start,
		func() error { return s.CreateSync(ctx) }, func() error { return s.Converge(ctx) },
	} {
		if err := do(); err != nil {
			return releases.Release{}, err
		}
	}
	return s.FreezeRelease(ctx)
}
