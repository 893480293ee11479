package benchmark

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/sandbox/process"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// Poolwright is the product without its engine.
type Poolwright struct {
	Environment *Environment
	// Product is the binary, Namespace where it runs.
	Product, Namespace string
	// Variables are set for the process beside the sandbox's, such as GOGC=25.
	Variables []string
	process   *process.Process
	metrics   string
	runs      int
}

// System is the product as it is measured.
func (p *Poolwright) System() System { return System{Name: "Poolwright", Processes: p, Reconciler: p} }

// Start implements Processes.
func (p *Poolwright) Start(ctx context.Context) (err error) {
	p.runs++
	if p.metrics, err = freeAddress(ctx); err != nil {
		return err
	}
	name := fmt.Sprintf("%s-%d", p.Namespace, p.runs)
	arguments := append(slices.Clone(p.Variables), p.Product, "run", "--namespace="+p.Namespace, "--kubeconfig="+p.Environment.Kubeconfig,
		"--cache-dir="+filepath.Join(p.Environment.Dir, "caches", name), "--metrics-addr="+p.metrics, "--health-addr=0")
	if p.process, err = p.Environment.Run(name, "/usr/bin/env", arguments...); err != nil {
		return fmt.Errorf("starting Poolwright: %w", err)
	}
	admin := p.Environment.Admin
	return p.Environment.await(ctx, "Poolwright leads", func() error {
		var syncs v1alpha1.SyncList
		if err := admin.List(ctx, &syncs, client.InNamespace(p.Namespace)); err != nil {
			return err
		}
		return leads(ctx, admin, types.NamespacedName{Namespace: p.Namespace, Name: "poolwright"})
	})
}

// Follow implements Reconciler.
func (p *Poolwright) Follow(ctx context.Context, r *Repository, commit string) error {
	admin := p.Environment.Admin
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: r.Namespace, Namespace: p.Namespace},
		StringData: map[string]string{"username": r.tree.User, "password": r.tree.Token},
	}
	sync := &v1alpha1.Sync{
		ObjectMeta: metav1.ObjectMeta{Name: r.Namespace, Namespace: p.Namespace},
		Spec: v1alpha1.SyncSpec{
			Source: v1alpha1.Source{Git: v1alpha1.GitSource{URL: r.URL, Ref: v1alpha1.GitRef{Branch: branch}, SecretRef: &v1alpha1.SecretRef{Name: secret.Name}}},
			Path:   Folder, Interval: metav1.Duration{Duration: time.Hour}, DeletionPolicy: v1alpha1.DeletionPolicyOrphan,
		},
	}
	if err := errors.Join(admin.Create(ctx, secret), admin.Create(ctx, sync)); err != nil {
		return fmt.Errorf("making the Sync: %w", err)
	}
	return p.applied(ctx, r, commit, "")
}

// applied returns once the Sync reports a commit, and a request for a run where there is one.
func (p *Poolwright) applied(ctx context.Context, r *Repository, commit, request string) error {
	return awaitObject(ctx, p.Environment, p.sync(r), &v1alpha1.SyncList{}, func(sync *v1alpha1.Sync) error {
		status, ready := sync.Status, meta.FindStatusCondition(sync.Status.Conditions, fluxmeta.ReadyCondition)
		switch {
		case status.LastAppliedRevision != branch+"@sha1:"+commit:
			return fmt.Errorf("%q is applied, and its Ready is %v", status.LastAppliedRevision, ready)
		case request != "" && status.LastHandledReconcileAt != request:
			return fmt.Errorf("the last request that was handled is %q", status.LastHandledReconcileAt)
		case ready == nil || ready.Status != metav1.ConditionTrue:
			return fmt.Errorf("its Ready is %v", ready)
		}
		return nil
	})
}

func (p *Poolwright) sync(r *Repository) *v1alpha1.Sync {
	return &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: r.Namespace, Namespace: p.Namespace}}
}

// Request implements Reconciler.
func (p *Poolwright) Request(ctx context.Context, r *Repository, commit string) error {
	token, err := request(ctx, p.Environment.Admin, p.sync(r))
	if err != nil {
		return err
	}
	return p.applied(ctx, r, commit, token)
}

// request requires a run of an object's controller now, and returns what that reports as handled.
func request(ctx context.Context, admin client.Client, object client.Object) (token string, err error) {
	token = time.Now().Format(time.RFC3339Nano)
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, fluxmeta.ReconcileRequestAnnotation, token)
	if err := admin.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		return "", fmt.Errorf("requesting a run of %s: %w", object.GetName(), err)
	}
	return token, nil
}

// Correct implements Reconciler: what was applied is watched.
func (*Poolwright) Correct(context.Context, *Repository) error { return nil }

// Release implements Reconciler.
func (p *Poolwright) Release(ctx context.Context, r *Repository) error {
	admin := p.Environment.Admin
	if err := admin.Delete(ctx, p.sync(r)); err != nil {
		return fmt.Errorf("deleting the Sync: %w", err)
	}
	return p.Environment.await(ctx, "the Sync is gone", func() error {
		err := admin.Get(ctx, client.ObjectKeyFromObject(p.sync(r)), p.sync(r))
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
}

// Running implements Processes.
func (p *Poolwright) Running() []*process.Process {
	if p.process == nil {
		return nil
	}
	return []*process.Process{p.process}
}

// Requests implements Processes.
func (p *Poolwright) Requests(ctx context.Context) (int, error) {
	return sentRequests(ctx, p.metrics)
}

// Stop implements Processes. Nobody else leads then.
func (p *Poolwright) Stop() error {
	if p.process == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.process.Stop(ctx); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("stopping Poolwright: %w", err)
	}
	p.process = nil
	return nil
}
