// Package ebsdriver emulates the EBS CSI driver as far as it acts on the API server: it
// provisions PersistentVolumes for claims of its StorageClasses, attaches and detaches
// them by VolumeAttachments, and deletes those that are released. Who binds, schedules
// and requests attachments are the real controllers.
//
// There is no volume behind an object: EC2's are not touched, nothing is mounted,
// and a pod starts without waiting for its attachment. It refuses nothing; a claim
// of another driver is left alone.
//
// Start reading at Driver; volume.go makes the objects.
package ebsdriver

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// resync is how often every object is reconciled again, so that a step that failed is
// taken once more.
const resync = 5 * time.Second

// Config is what the driver needs. All fields are required, durations may be 0.
type Config struct {
	Client kubernetes.Interface
	// Zone is that of a node, "" of one that there is not.
	Zone func(node string) string
	// Create, Attach and Detach are how long EC2 takes for each.
	Create, Attach, Detach time.Duration
	Clock                  clock.Clock
	Log                    *slog.Logger
}

// Driver emulates the driver of one cluster. Use New, then Start.
type Driver struct {
	config                       Config
	claims, volumes, attachments cache.SharedIndexInformer

	ctx  context.Context // the driver's life, set by Start
	work sync.WaitGroup

	mu   sync.Mutex
	busy map[types.UID]bool // objects that a step is under way for
}

// New builds a driver; nothing runs before Start.
func New(config Config) (*Driver, error) {
	factory := informers.NewSharedInformerFactory(config.Client, resync)
	d := &Driver{config: config, busy: map[types.UID]bool{},
		claims:      factory.Core().V1().PersistentVolumeClaims().Informer(),
		volumes:     factory.Core().V1().PersistentVolumes().Informer(),
		attachments: factory.Storage().V1().VolumeAttachments().Informer()}
	for _, informer := range []cache.SharedIndexInformer{d.claims, d.volumes, d.attachments} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: d.step, UpdateFunc: func(_, o any) { d.step(o) },
		})
		if err != nil {
			return nil, fmt.Errorf("emulating the EBS CSI driver: building caches: %w", err)
		}
	}
	return d, nil
}

// Start installs the driver and emulates it until the context ends; Wait then returns.
func (d *Driver) Start(ctx context.Context) error {
	d.ctx = ctx
	if err := d.install(); err != nil {
		return fmt.Errorf("emulating the EBS CSI driver: %w", err)
	}
	for _, informer := range []cache.SharedIndexInformer{d.claims, d.volumes, d.attachments} {
		d.work.Go(func() { informer.RunWithContext(ctx) })
	}
	return nil
}

// Wait returns when everything that the driver started has ended.
func (d *Driver) Wait() { d.work.Wait() }

// install creates the CSIDriver object. A driver that is there already stays.
func (d *Driver) install() error {
	yes := true
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: Name}, Spec: storagev1.CSIDriverSpec{AttachRequired: &yes}}
	_, err := d.config.Client.StorageV1().CSIDrivers().Create(d.ctx, driver, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// Register records in the cluster that the driver runs on a node, as its kubelet does.
func (d *Driver) Register(ctx context.Context, node *corev1.Node, instance string) error {
	_, err := d.config.Client.StorageV1().CSINodes().Create(ctx, csiNode(node, instance), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("registering the EBS CSI driver on node %s: %w", node.Name, err)
	}
	return nil
}

// step takes the next one that an object needs, if any, after its delay. What fails is
// taken again when the object is reconciled next.
func (d *Driver) step(object any) {
	after, do := d.next(object)
	if do == nil {
		return
	}
	uid := object.(metav1.Object).GetUID()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy[uid] {
		return
	}
	d.busy[uid] = true
	d.work.Go(func() {
		defer func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			delete(d.busy, uid)
		}()
		if !d.sleep(after) {
			return
		}
		if err := do(d.ctx); err != nil && d.ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			d.config.Log.Warn("a step of the EBS CSI driver failed; it is repeated", "object", object.(metav1.Object).GetName(), "error", err.Error())
		}
	})
}

// next is what an object needs, and how long that takes.
func (d *Driver) next(object any) (time.Duration, func(context.Context) error) {
	switch o := object.(type) {
	case *corev1.PersistentVolumeClaim:
		if wantsVolume(o) {
			return d.config.Create, func(ctx context.Context) error { return d.provision(ctx, o) }
		}
	case *corev1.PersistentVolume:
		if released(o) {
			return 0, func(ctx context.Context) error { return d.remove(ctx, o) }
		}
	case *storagev1.VolumeAttachment:
		switch {
		case o.Spec.Attacher != Name:
		case !o.DeletionTimestamp.IsZero() && len(o.Finalizers) > 0:
			return d.config.Detach, func(ctx context.Context) error { return d.detach(ctx, o) }
		case o.DeletionTimestamp.IsZero() && !o.Status.Attached:
			return d.config.Attach, func(ctx context.Context) error { return d.attach(ctx, o) }
		}
	}
	return 0, nil
}

// sleep waits; false means that the driver ended meanwhile.
func (d *Driver) sleep(length time.Duration) bool {
	if length <= 0 {
		return d.ctx.Err() == nil
	}
	timer := d.config.Clock.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-d.ctx.Done():
		return false
	}
}
