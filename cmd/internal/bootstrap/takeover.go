package bootstrap

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/provision/engine/gate"
	"github.com/poolwright/poolwright/provision/engine/takeover"
	"github.com/poolwright/poolwright/reconciler/controller/cluster"
	"github.com/poolwright/poolwright/reconciler/state/owner"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
)

// existingKarpenter is a Karpenter that runs in the cluster already.
type existingKarpenter struct {
	takeover.Karpenter
	compared takeover.Comparison
}

// findOthers finds the Karpenters that run already, and compares them with
// the engine that the folder declares. One that was scaled to zero runs no more. The CA
// bundle is taken in every mode: a later commit may start the engine, and nobody runs
// bootstrap again for that.
func (b *Bootstrap) findOthers(ctx context.Context, eks declaredEKS) error {
	if !eks.embedded() && b.req.TakeOver {
		return fmt.Errorf("%s: spec.engine.mode is %s, so there is nothing to take over: set it to Embedded, or leave --take-over out", eks.origin, eks.spec.Engine.Mode)
	}
	found, err := takeover.Find(ctx, b.direct)
	if err != nil {
		return err
	}
	live, err := installation.ReadLive(ctx, b.direct, b.req.Namespace)
	if err != nil {
		return err
	}
	root, err := b.rootCA(ctx)
	if err != nil {
		return err
	}
	b.caBundle = b.bundleFor(found, live)
	if !eks.embedded() {
		return nil
	}
	for _, k := range found {
		if k.ReplicasBefore > 0 && b.req.TakeOver {
			b.stopped = &existingKarpenter{Karpenter: k}
		}
		if k.Replicas == 0 {
			continue
		}
		if err := b.compares(ctx, k, eks, root); err != nil {
			return err
		}
	}
	if b.req.TakeOver && len(b.others) == 0 && b.stopped == nil {
		b.Warnings = append(b.Warnings, "no Karpenter runs here, so --take-over has nothing to take over")
	}
	return nil
}

// compares compares one that runs with the engine, which must be able to detect it.
func (b *Bootstrap) compares(ctx context.Context, k takeover.Karpenter, eks declaredEKS, root string) error {
	if why := k.Undetectable(); why != "" {
		return fmt.Errorf("Deployment %s runs a Karpenter that the engine may detect too late, and both would run: %s, and the engine detects others first by their lease %s; take that setting out and wait until it holds that lease, or scale it down first: %s; or set spec.engine.mode to External", k.Deployment, why, takeover.Lease, scaling(k, 0))
	}
	compared, err := k.Compare(ctx, b.direct, eks.settings(), cmp.Or(b.caBundle, root))
	if err != nil {
		return fmt.Errorf("comparing with the Karpenter of Deployment %s: %w", k.Deployment, err)
	}
	other := existingKarpenter{k, compared}
	if k.CABundle == "" && b.caBundle != "" && b.caBundle != root {
		other.compared.Blocking = append(other.compared.Blocking, takeover.Difference{
			Message: fmt.Sprintf("it has no %s, and the controller that is installed has one: every node would be replaced", installation.CABundleVariable),
			Remedy:  fmt.Sprintf("kubectl -n %s set env deployment %s %s-, then run the same command again", b.req.Namespace, installation.Deployment, installation.CABundleVariable),
		})
	}
	if err := b.owned(ctx, &other); err != nil {
		return err
	}
	b.others = append(b.others, other)
	return nil
}

// bundleFor is the CA bundle that the controller is given, by which nodes are
// compared too; empty stands for what every pod finds beside its token. Whoever makes
// nodes at this moment decides: the Karpenter that runs, then the controller that is
// installed, and one that was stopped only where there is neither.
func (b *Bootstrap) bundleFor(found []takeover.Karpenter, live installation.Live) string {
	bundle, runs := live.CABundle, false
	for _, k := range found {
		if k.Replicas > 0 && !runs {
			bundle, runs = cmp.Or(k.CABundle, bundle), true
		}
	}
	if runs {
		return bundle
	}
	for _, k := range found {
		switch {
		case k.CABundle == "" || k.CABundle == bundle:
		case bundle == "" && live.Image == "":
			bundle = k.CABundle
		default:
			b.Warnings = append(b.Warnings, fmt.Sprintf("Deployment %s is scaled to zero and has another %s than the controller is given: nodes that it made would be replaced when the engine starts; delete the Deployment if it made none", k.Deployment, installation.CABundleVariable))
		}
	}
	return bundle
}

// rootCA is the text by which every pod verifies the API server without any other
// configuration, or empty where the cluster does not publish it.
func (b *Bootstrap) rootCA(ctx context.Context) (string, error) {
	var root corev1.ConfigMap
	err := b.direct.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "kube-root-ca.crt"}, &root)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the CA that pods are given: %w", err)
	}
	return base64.StdEncoding.EncodeToString([]byte(root.Data["ca.crt"])), nil
}

// owned makes it a blocking difference where a tool would scale another Karpenter up again
// that was scaled down.
func (b *Bootstrap) owned(ctx context.Context, k *existingKarpenter) error {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	if err := b.direct.Get(ctx, client.ObjectKey{Namespace: k.Deployment.Namespace, Name: k.Deployment.Name}, live); err != nil {
		return fmt.Errorf("reading who manages Deployment %s: %w", k.Deployment, err)
	}
	if other := kubernetes.OwnerOf(live, nil); other != (owner.Reference{}) {
		k.compared.Blocking = append(k.compared.Blocking, takeover.Difference{
			Message: fmt.Sprintf("its Deployment is managed by %s, which would scale it up again", other),
			Remedy:  "set its replicas to 0 there, instead of using --take-over",
		})
	}
	return nil
}

// OtherKarpenters reports of the Karpenters that run already, or nothing.
func (b *Bootstrap) OtherKarpenters() string {
	var out strings.Builder
	for _, k := range b.others {
		out.WriteString(k.Text(k.compared))
		switch {
		case b.req.TakeOver:
		case len(k.compared.Blocking) > 0:
			out.WriteString("  The engine waits while it leads.\n")
		default:
			fmt.Fprintf(&out, "  The engine waits while it leads. To take its nodes over, run this command with --take-over,\n  or scale it down yourself: %s\n", scaling(k.Karpenter, 0))
		}
	}
	return out.String()
}

// scaling is the command that gives a Deployment so many replicas.
func scaling(k takeover.Karpenter, replicas int32) string {
	return fmt.Sprintf("kubectl -n %s scale deployment %s --replicas=%d", k.Deployment.Namespace, k.Deployment.Name, replicas)
}

// TakesOver names the Deployment that TakeOver would scale to zero, or is empty
// where there is nothing to take over. Its error names what prevents it.
func (b *Bootstrap) TakesOver() (string, error) {
	if !b.req.TakeOver {
		return "", nil
	}
	if len(b.others) == 0 {
		if b.stopped != nil {
			return b.stopped.Deployment.String(), nil
		}
		return "", nil
	}
	if len(b.others) > 1 {
		return "", fmt.Errorf("%s run here: two Karpenters must never run at a time; scale all but one to zero first", plural.Count(len(b.others), "Karpenter"))
	}
	k := b.others[0]
	if n := len(k.compared.Blocking); n > 0 {
		return "", fmt.Errorf("not taking over from Deployment %s: %s in the way, as listed above; nothing was changed", k.Deployment, isOrAre(n, "thing"))
	}
	return k.Deployment.String(), nil
}

// TakeOver scales the other Karpenter to zero once it alone keeps the engine
// waiting, and returns when the engine runs. It scales nothing back: by then the
// engine may be about to start, and two must never run. Its error describes how to go
// back. One that was killed after it had scaled goes on from there.
func (b *Bootstrap) TakeOver(ctx context.Context, timeout time.Duration) error {
	if len(b.others) == 0 {
		return b.replaceKarpenter(ctx, *b.stopped, b.stopped.ReplicasBefore, timeout)
	}
	k := b.others[0]
	if waits := b.WaitsFor(ctx); waits != "" {
		return fmt.Errorf("not taking over yet: %s; then run the same command again", waits)
	}
	if err := installation.Await(ctx, timeout, b.req.Progress, b.onlyOneWaits); err != nil {
		return fmt.Errorf("not taking over from Deployment %s, which goes on: %w", k.Deployment, err)
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: k.Deployment.Namespace, Name: k.Deployment.Name}}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}},"spec":{"replicas":0}}`, takeover.ReplicasAnnotation, k.Replicas)
	if err := b.direct.Patch(ctx, d, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		return fmt.Errorf("scaling Deployment %s to zero: %w", k.Deployment, err)
	}
	b.req.Progress(fmt.Sprintf("scaled Deployment %s from %d to 0 replicas", k.Deployment, k.Replicas))
	return b.replaceKarpenter(ctx, k, k.Replicas, timeout)
}

// replaceKarpenter waits until the engine runs in the place of a Karpenter that was scaled
// to zero, and returns how to give it back its replicas.
func (b *Bootstrap) replaceKarpenter(ctx context.Context, k existingKarpenter, replicas int32, timeout time.Duration) error {
	err := b.awaitLease(ctx, k, timeout)
	if err == nil {
		err = installation.Await(ctx, timeout, b.req.Progress, b.engineRuns)
	}
	if err != nil {
		return fmt.Errorf("Deployment %s is scaled to zero and the engine does not run, so nobody provisions nodes: %w; mend that and run the same command again, or go back: set spec.engine.mode to External, wait for that, then %s", k.Deployment, err, scaling(k.Karpenter, replicas))
	}
	b.req.Progress("to go back: set spec.engine.mode to External, wait until the engine has stopped, then " + scaling(k.Karpenter, replicas))
	return nil
}

// onlyOneWaits reports whether the other Karpenter is all that holds the engine.
// An engine that runs waits for nobody: the other's pods do not, and must not
// start now.
func (b *Bootstrap) onlyOneWaits(ctx context.Context) (bool, string, error) {
	ready, err := b.engineReady(ctx)
	switch {
	case err != nil:
		return false, "", err
	case ready == nil:
		return false, "waiting until the Sync has applied the Cluster and the leading controller has reconciled it", nil
	case ready.Reason == cluster.EngineRunning:
		return true, "the engine runs already, for the other Karpenter holds no lease and has no ready pod", nil
	case ready.Reason != gate.OtherKarpenterRunning:
		return false, "the engine is not ready to take over: " + ready.Message, nil
	}
	return true, "all gates of the engine are open but one: " + ready.Message, nil
}

// engineRuns reports whether it does.
func (b *Bootstrap) engineRuns(ctx context.Context) (bool, string, error) {
	ready, err := b.engineReady(ctx)
	switch {
	case err != nil:
		return false, "", err
	case ready == nil:
		return false, "waiting until the leading controller has reconciled the Cluster", nil
	case ready.Reason == cluster.EngineRunning:
		return true, "the engine runs", nil
	case ready.Reason == gate.OtherKarpenterRunning:
		return false, "waiting until the other Karpenter is gone: " + ready.Message, nil
	}
	return false, ready.Message, nil
}

// engineReady is cluster.Ready as the controller reports it that leads now: nobody
// takes back what one reported that is gone. Only one with the engine can report that
// it runs.
func (b *Bootstrap) engineReady(ctx context.Context) (*metav1.Condition, error) {
	ready, err := cluster.Ready(ctx, b.direct)
	if err != nil || ready == nil {
		return nil, err
	}
	lease, leads, err := b.leader.read(ctx, b.direct, b.req.Namespace)
	if err != nil || !leads || ready.Reason == cluster.EngineRunning && !lease.Engine {
		return nil, err
	}
	return ready, nil
}
