package engine

import (
	"context"

	"github.com/go-logr/logr"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
)

// Offline returns a context in which Karpenter's code can be asked what it would
// do, with the options that an engine of these settings would have. It logs
// nothing: what a simulation tries is no news. What Karpenter counts of it carries
// the controller name "whatif", apart from what the engine does.
func Offline(ctx context.Context, s Settings) context.Context {
	return injection.WithControllerName(newOptions(s).into(ctx, logr.Discard()), "whatif")
}
