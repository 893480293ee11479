package cluster

import (
	"context"
	"fmt"
	"maps"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/engine/dynamicresources"
)

// gateOff is the reason of the condition EngineBlocked, which is false, while the engine runs without a feature gate that
// is declared.
const gateOff = "FeatureGateOff"

// gateRetry is how often it is checked whether a feature gate that is off may be on.
const gateRetry = 5 * time.Minute

// SettingsInEffect are the desired settings, without the feature gate for claims of GPUs where Karpenter could not watch
// what the gate makes it watch: its manager would end, and nothing would be provisioned any more. Call it before AddTo.
func (s *Supervisor) SettingsInEffect(ctx context.Context) engine.Settings {
	settings := s.Desired.Settings
	s.gateOff = s.checkClaims(ctx)
	if s.gateOff == nil {
		return settings
	}
	s.Log.Info("The engine starts without a feature gate", "reason", s.gateOff.Reason, "message", s.gateOff.Message)
	settings.FeatureGates = maps.Clone(settings.FeatureGates)
	settings.FeatureGates[engine.GateDRA] = false
	return settings
}

// checkClaims is why the gate has to be off; nil where it may be on or is not declared.
func (s *Supervisor) checkClaims(ctx context.Context) *Blocked {
	if !s.Desired.Settings.EffectiveFeatureGates()[engine.GateDRA] {
		return nil
	}
	if err := dynamicresources.Check(ctx, s.REST); err != nil {
		return BlockedBy(gateOff, fmt.Errorf("the feature gate %s is off, and no node is launched for ResourceClaims: %w", engine.GateDRA, err))
	}
	return nil
}

// retryGate requests a restart once the gate may be on.
func (w *reconciler) retryGate(ctx context.Context) ctrl.Result {
	if left := gateRetry - time.Since(w.triedAt); left > 0 {
		return ctrl.Result{RequeueAfter: left}
	}
	w.triedAt = time.Now()
	if off := w.checkClaims(ctx); off != nil {
		w.gateOff = off
		return ctrl.Result{RequeueAfter: gateRetry}
	}
	w.Log.Info("Restarting: the feature gate that was off may be on", "featureGate", engine.GateDRA)
	w.Restart()
	return ctrl.Result{}
}
