package published

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	// Live writes the ConfigMap while this process leads, and reads it past every cache.
	Live client.Client
	// Cached reads EC2NodeClasses and NodeClaims.
	Cached client.Reader
	// Namespace is the controller's.
	Namespace string
	// Offerings returns what was read of prices and offerings; nil where nothing was.
	Offerings func() *pricelist.List
	Clock     clock.Clock
	Log       logr.Logger
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
		list := p.Offerings()
		if !list.Complete() && tries < startTries {
			continue
		}
		wait = interval
		if err := p.publish(ctx, list); err != nil && ctx.Err() == nil {
			p.Log.Error(err, "The price list was not published: commands without AWS credentials have the one before, or none")
		}
	}
}

// publish writes the ConfigMap where it is not as it should be.
func (p *Publisher) publish(ctx context.Context, list *pricelist.List) error {
	if list == nil {
		return nil
	}
	reserved, err := p.reservations(ctx)
	if err != nil {
		return err
	}
	var found corev1.ConfigMap
	err = p.Live.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: Name}, &found)
	absent := apierrors.IsNotFound(err)
	switch {
	case absent:
	case err != nil:
		return fmt.Errorf("reading ConfigMap %s/%s: %w", p.Namespace, Name, err)
	case !IsPriceList(&found):
		return fmt.Errorf("updating ConfigMap %s/%s: %w", p.Namespace, Name, ErrForeign)
	default:
		// What this process has not read is as the one before it published it, with its date.
		if before, err := Of(&found); err == nil {
			list = list.Or(before.Offerings)
		}
	}
	want, err := Content{Offerings: list, CapacityReservations: reserved}.ConfigMap(p.Namespace)
	switch {
	case err != nil:
		return err
	case absent:
		if err := p.Live.Create(ctx, want); err != nil {
			return fmt.Errorf("creating ConfigMap %s/%s: %w", p.Namespace, Name, err)
		}
		return nil
	case bytes.Equal(found.BinaryData[dataKey], want.BinaryData[dataKey]):
		return nil
	}
	// One that somebody changed meanwhile is compared again the next time.
	want.ResourceVersion = found.ResourceVersion
	if err := p.Live.Update(ctx, want); err != nil {
		return fmt.Errorf("updating ConfigMap %s/%s: %w", p.Namespace, Name, err)
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
