package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/sandbox/history"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

func (s *Stage) createNamespaces(ctx context.Context) error {
	for _, name := range s.namespaces() {
		if err := s.config.Admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "git", Namespace: s.System},
		StringData: map[string]string{"username": s.tree.User, "password": s.tree.Token},
	}
	return s.config.Admin.Create(ctx, secret)
}

// deleteNamespaces removes the Sync without its controller, and then the namespaces, which
// takes a while that nobody waits for.
func (s *Stage) deleteNamespaces(ctx context.Context) error {
	var errs []error
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: s.name, Namespace: s.System}}
	err := s.config.Admin.Patch(ctx, sync, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	if err == nil {
		err = s.config.Admin.Delete(ctx, sync)
	}
	if !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		errs = append(errs, err)
	}
	for _, name := range s.namespaces() {
		err := s.config.Admin.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		errs = append(errs, client.IgnoreNotFound(err))
	}
	return errors.Join(errs...)
}

// CreateSync creates the Sync, as soon as the controller has brought its kind.
func (s *Stage) CreateSync(ctx context.Context) error {
	sync := &v1alpha1.Sync{
		ObjectMeta: metav1.ObjectMeta{Name: s.name, Namespace: s.System},
		Spec: v1alpha1.SyncSpec{
			Source: v1alpha1.Source{Git: v1alpha1.GitSource{
				URL:       s.git.URL() + "/" + s.tree.User + "/" + repositoryName + ".git",
				Ref:       v1alpha1.GitRef{Branch: "main"},
				SecretRef: &v1alpha1.SecretRef{Name: "git"},
			}},
			Path: folder, Interval: metav1.Duration{Duration: 5 * time.Second},
		},
	}
	for _, complete := range s.Configure {
		complete(&sync.Spec)
	}
	return s.eventually(ctx, "the Sync is not accepted", func() error {
		err := s.config.Admin.Create(ctx, sync.DeepCopy())
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

func (s *Stage) readSync(ctx context.Context) (*v1alpha1.Sync, error) {
	var sync v1alpha1.Sync
	err := s.config.Admin.Get(ctx, client.ObjectKey{Namespace: s.System, Name: s.name}, &sync)
	return &sync, err
}

// Request requires a run now.
func (s *Stage) Request(ctx context.Context) error {
	_, err := s.requestRun(ctx)
	return err
}

func (s *Stage) requestRun(ctx context.Context) (token string, err error) {
	token = time.Now().Format(time.RFC3339Nano)
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, fluxmeta.ReconcileRequestAnnotation, token)
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: s.name, Namespace: s.System}}
	return token, s.config.Admin.Patch(ctx, sync, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// Run requires a run, and returns once one that began later has finished with the newest
// Commit applied. Of a Sync that was deleted it returns once that is gone.
func (s *Stage) Run(ctx context.Context) error {
	if s.deleted {
		return s.awaitDeletion(ctx)
	}
	token, err := s.requestRun(ctx)
	if err != nil {
		return err
	}
	return s.eventually(ctx, "the Sync is not ready", func() error {
		sync, err := s.readSync(ctx)
		if err != nil {
			return err
		}
		if at := sync.Status.LastHandledReconcileAt; at != token {
			return errors.Join(fmt.Errorf("the last request that was handled is %q", at), s.ready(sync))
		}
		return s.ready(sync)
	})
}

// DeleteSync deletes the Sync as a person does. What it applied is to go with it, or to stay.
func (s *Stage) DeleteSync(ctx context.Context, policy v1alpha1.DeletionPolicy) error {
	event := history.Event{Kind: history.SyncDeleted}
	if policy == v1alpha1.DeletionPolicyOrphan {
		event.Declared = s.declared()
	}
	s.deleted = true
	s.Tap.Record(event)
	return s.config.Admin.Delete(ctx, &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: s.name, Namespace: s.System}})
}

// awaitDeletion waits until the Sync is gone.
func (s *Stage) awaitDeletion(ctx context.Context) error {
	return s.eventually(ctx, "the Sync is not deleted", func() error {
		sync, err := s.readSync(ctx)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("its finalizers are %v and its conditions %+v", sync.Finalizers, sync.Status.Conditions)
		}
		return err
	})
}

// ready returns why the Sync is not ready at the newest commit, or nil.
func (s *Stage) ready(sync *v1alpha1.Sync) error {
	condition := meta.FindStatusCondition(sync.Status.Conditions, "Ready")
	switch {
	case condition == nil:
		return errors.New("it has no condition Ready")
	case condition.Status != metav1.ConditionTrue || condition.ObservedGeneration != sync.Generation:
		return fmt.Errorf("Ready is %s, %s: %s", condition.Status, condition.Reason, condition.Message)
	case sync.Status.LastAppliedRevision != s.revision:
		return fmt.Errorf("%s is applied, not %s", sync.Status.LastAppliedRevision, s.revision)
	}
	return nil
}

// Converge returns once all is as declared, by the product's own account.
func (s *Stage) Converge(ctx context.Context) error {
	// The first run may be one that the commit was pushed in.
	for range 2 {
		if err := s.Run(ctx); err != nil {
			return err
		}
	}
	if err := s.rejoin(ctx); err != nil {
		return err
	}
	s.Tap.Record(history.Event{Kind: history.Converged, Revision: s.revision})
	return nil
}

// What in AWS belongs to a Cluster has the one tag, and what to an EC2NodeClass the other.
const (
	ownedTag     = "poolwright.dev/cluster"
	nodeClassTag = "karpenter.k8s.aws/ec2nodeclass"
)

// Observe records what is there, and what the inventory has.
func (s *Stage) Observe(ctx context.Context) error {
	event := history.Event{Kind: history.Observed}
	var maps corev1.ConfigMapList
	var secrets corev1.SecretList
	var accounts corev1.ServiceAccountList
	for _, list := range []client.ObjectList{&maps, &secrets, &accounts} {
		if err := s.config.Admin.List(ctx, list, client.InNamespace(s.Apps)); err != nil {
			return err
		}
	}
	add := func(kind string, o metav1.Object, value string) {
		event.Live = append(event.Live, history.State{Object: s.object(kind, o.GetName()), Value: value, UID: string(o.GetUID())})
	}
	for _, o := range maps.Items {
		if o.Name != "kube-root-ca.crt" {
			add("ConfigMap", &o, o.Data["value"])
		}
	}
	for _, o := range secrets.Items {
		add("Secret", &o, string(o.Data["value"]))
	}
	for _, o := range accounts.Items {
		if o.Name != "default" {
			value := ""
			if len(o.Secrets) == 1 {
				value = o.Secrets[0].Name
			}
			add("ServiceAccount", &o, value)
		}
	}
	err := s.observePools(ctx, &event)
	if err != nil {
		return err
	}
	if event.Inventory, err = s.inventory(ctx); err != nil {
		return err
	}
	if event.Comments, err = s.countComments(ctx); err != nil {
		return err
	}
	if err := s.observeBulk(ctx); err != nil {
		return err
	}
	s.observeAccount(&event)
	if s.config.Exclusive {
		if event.Machines, err = s.machines(ctx); err != nil {
			return err
		}
	}
	s.Tap.Record(event)
	return nil
}

// observeAccount adds what there is in AWS.
func (s *Stage) observeAccount(event *history.Event) {
	for _, r := range s.AWS.Resources() {
		o := history.Object{Kind: r.Service + "/" + r.Kind, Name: r.Name}
		switch {
		case slices.Contains(s.initial, o):
		case r.Tags[ownedTag] != "":
			event.Live = append(event.Live, history.State{Object: o, Value: r.Value})
		case r.Tags[nodeClassTag] == "":
			event.Unowned = append(event.Unowned, o)
		}
	}
}

// inventory reads what the product has recorded.
func (s *Stage) inventory(ctx context.Context) ([]history.State, error) {
	var shards corev1.ConfigMapList
	if err := s.config.Admin.List(ctx, &shards, client.InNamespace(s.System), client.MatchingLabels{"poolwright.dev/inventory": s.name}); err != nil {
		return nil, err
	}
	var out []history.State
	for _, shard := range shards.Items {
		var document struct {
			Records []struct{ Kind, Namespace, Name, UID string }
		}
		if err := json.Unmarshal([]byte(shard.Data["records.json"]), &document); err != nil {
			return nil, fmt.Errorf("reading the inventory: %w", err)
		}
		for _, r := range document.Records {
			if r.Namespace == s.bulk() || resources[r.Kind] == "" {
				continue // the Cluster, and what it has in AWS, are recorded, too
			}
			// A NodePool is recorded by its whole name.
			out = append(out, history.State{Object: s.object(r.Kind, strings.TrimPrefix(r.Name, s.poolName(""))), UID: r.UID})
		}
	}
	return out, nil
}
