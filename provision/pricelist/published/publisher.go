package published

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/poolwright/poolwright/provision/pricelist"
)

const (
	// interval is how often what was read is compared with what is published. Karpenter reads prices every twelve hours.
	interval = time.Hour
	// startInterval is the same until prices of both kinds and offerings were read, startTries how often: in an
	// isolated VPC, and in GovCloud, Karpenter never reads on-demand prices.
	startInterval = 10 * time.Second
	startTries    = 30
)

// Publisher publishes what an engine reads. It is a Runnable of the manager, which runs it on the leader only.
type Publisher struct {
	// Live writes both ConfigMaps while this process leads, and reads it past every cache.
	Live client.Client
	// Cached reads EC2NodeClasses and NodeClaims.
	Cached client.Reader
	// Namespace is the controller's.
	Namespace string
	// Offerings returns what was read of prices and offerings; nil where nothing was. Without an engine it is nil itself:
	// then nothing is published, and only deleted.
	Offerings func() *pricelist.List
	// Prices and Reservations are what is published. What is not, and was published before, is deleted, at the first
	// try: it waits for no prices.
	Prices, Reservations bool
	Clock                clock.Clock
	Log                  logr.Logger
}

// Start implements manager.Runnable. What fails is logged and tried again after the interval: nothing but
// commands of persons reads the price list.
func (p *Publisher) Start(ctx context.Context) error {
	wait := startInterval
	for tries := 0; ; tries++ {
		timer := p.Clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
		var list *pricelist.List
		if p.Offerings != nil {
			list = p.Offerings()
		}
		var err error
		switch {
		case p.Offerings == nil:
			wait, err = interval, p.withdraw(ctx)
		case list.Complete() || tries >= startTries:
			wait, err = interval, p.publish(ctx, list)
		case tries == 0:
			err = p.withdraw(ctx)
		}
		if err != nil && ctx.Err() == nil {
			p.Log.Error(err, "What was read of AWS was not published or not deleted: commands without AWS credentials have what was before, or nothing")
		}
	}
}

// withdraw deletes what is not to be published, and is from before: the ConfigMaps that are switched off, and capacity
// reservations among the prices, which an older controller published there.
func (p *Publisher) withdraw(ctx context.Context) error {
	err := p.publishPrices(ctx, nil)
	if !p.Reservations {
		err = errors.Join(err, p.delete(ctx, ReservationsName))
	}
	return err
}

// publish writes the ConfigMaps where they are not as they should be.
func (p *Publisher) publish(ctx context.Context, list *pricelist.List) error {
	return errors.Join(p.publishPrices(ctx, list), p.publishReservations(ctx))
}

// publishPrices publishes a list; of one of which nothing was read, what was published stays.
func (p *Publisher) publishPrices(ctx context.Context, list *pricelist.List) error {
	if !p.Prices {
		return p.delete(ctx, Name)
	}
	if list.IsEmpty() {
		list = nil
	}
	return p.put(ctx, Name, func(found *corev1.ConfigMap) (*corev1.ConfigMap, error) {
		// What this process has not read is as the one before it published it, with its date.
		if before, err := Of(found); err == nil {
			list = list.Or(before.Offerings)
		}
		if list == nil {
			return nil, nil
		}
		return Content{Offerings: list}.ConfigMap(p.Namespace)
	})
}

func (p *Publisher) publishReservations(ctx context.Context) error {
	if !p.Reservations {
		return p.delete(ctx, ReservationsName)
	}
	reserved, err := p.reservations(ctx)
	if err != nil {
		return err
	}
	return p.put(ctx, ReservationsName, func(*corev1.ConfigMap) (*corev1.ConfigMap, error) {
		return Content{CapacityReservations: reserved}.ReservationsConfigMap(p.Namespace)
	})
}

// find reads a ConfigMap; one that nobody has is not found, and one of another owner an error.
func (p *Publisher) find(ctx context.Context, name string) (found corev1.ConfigMap, exists bool, err error) {
	err = p.Live.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: name}, &found)
	switch {
	case apierrors.IsNotFound(err):
		return found, false, nil
	case err != nil:
		return found, false, fmt.Errorf("reading ConfigMap %s/%s: %w", p.Namespace, name, err)
	case !IsPublished(&found):
		return found, true, fmt.Errorf("updating ConfigMap %s/%s: %w", p.Namespace, name, ErrForeign)
	}
	return found, true, nil
}

// put writes what is made of a ConfigMap, which is empty where there is none yet. Where nothing is made of it, it has
// nothing that can be read, and is deleted.
func (p *Publisher) put(ctx context.Context, name string, desired func(found *corev1.ConfigMap) (*corev1.ConfigMap, error)) error {
	found, exists, err := p.find(ctx, name)
	if err != nil {
		return err
	}
	want, err := desired(&found)
	switch {
	case err != nil:
		return err
	case want == nil && exists:
		return p.remove(ctx, &found)
	case want == nil:
		return nil
	case !exists:
		if err := p.Live.Create(ctx, want); err != nil {
			return fmt.Errorf("creating ConfigMap %s/%s: %w", p.Namespace, name, err)
		}
		return nil
	case maps.EqualFunc(found.BinaryData, want.BinaryData, bytes.Equal):
		return nil
	}
	// One that somebody changed meanwhile is compared again the next time.
	want.ResourceVersion = found.ResourceVersion
	if err := p.Live.Update(ctx, want); err != nil {
		return fmt.Errorf("updating ConfigMap %s/%s: %w", p.Namespace, name, err)
	}
	return nil
}

// delete deletes a ConfigMap that was published before. One of another owner stays.
func (p *Publisher) delete(ctx context.Context, name string) error {
	found, exists, err := p.find(ctx, name)
	switch {
	case errors.Is(err, ErrForeign) || err == nil && !exists:
		return nil
	case err != nil:
		return err
	}
	return p.remove(ctx, &found)
}

// remove deletes a ConfigMap that was found, unless somebody has changed it since.
func (p *Publisher) remove(ctx context.Context, found *corev1.ConfigMap) error {
	if err := client.IgnoreNotFound(p.Live.Delete(ctx, found, client.Preconditions{UID: &found.UID, ResourceVersion: &found.ResourceVersion})); err != nil {
		return fmt.Errorf("deleting ConfigMap %s/%s: %w", p.Namespace, found.Name, err)
	}
	return nil
}

// reservations are the capacity reservations of the EC2NodeClasses that select any.
func (p *Publisher) reservations(ctx context.Context) (map[string][]Reservation, error) {
	var classes awsv1.EC2NodeClassList
	var claims karpv1.NodeClaimList
	if err := errors.Join(p.Cached.List(ctx, &classes), p.Cached.List(ctx, &claims)); err != nil {
		return nil, fmt.Errorf("reading EC2NodeClasses and NodeClaims: %w", err)
	}
	nodes := map[string]int{}
	for i := range claims.Items {
		nodes[claims.Items[i].Labels[cloudprovider.ReservationIDLabel]]++
	}
	out := map[string][]Reservation{}
	for _, class := range classes.Items {
		for _, r := range class.Status.CapacityReservations {
			out[class.Name] = append(out[class.Name], Reservation{CapacityReservation: r, Nodes: nodes[r.ID]})
		}
	}
	return out, nil
}
