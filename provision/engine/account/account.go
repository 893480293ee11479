// Package account reads of an AWS account what the engine reads of it for its own use: the prices and
// offerings of a region, and the capacity reservations of EC2NodeClasses. It is for commands that run with a
// user's credentials, where no engine runs.
//
// Its requests are those of Karpenter's own code, of the actions pricing:GetProducts,
// ec2:DescribeSpotPriceHistory, ec2:DescribeInstanceTypeOfferings and ec2:DescribeCapacityReservations, and
// sts:GetCallerIdentity, which AWS denies nobody; it changes nothing, and keeps nothing on disk. Start reading at [Account].
package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	awscache "github.com/aws/karpenter-provider-aws/pkg/cache"
	"github.com/aws/karpenter-provider-aws/pkg/providers/capacityreservation"
	"github.com/aws/karpenter-provider-aws/pkg/providers/pricing"
	"github.com/patrickmn/go-cache"
	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/engine/offerings"
	"github.com/poolwright/poolwright/provision/pricelist"
)

// Account is one region of an AWS account. Its methods may be called at the same time.
type Account struct {
	config       aws.Config
	clock        clock.Clock
	reservations capacityreservation.Provider
}

// New is the account of a configuration, in its region. It makes no request.
func New(config aws.Config, clk clock.Clock) *Account {
	keep := func(lifetime time.Duration) *cache.Cache { return cache.New(lifetime, awscache.DefaultCleanupInterval) }
	return &Account{config: config, clock: clk, reservations: capacityreservation.NewProvider(
		ec2.NewFromConfig(config), clk, keep(awscache.DefaultTTL), keep(awscache.CapacityReservationAvailabilityTTL))}
}

// ID is the number of the account whose credentials a configuration has.
func ID(ctx context.Context, config aws.Config) (string, error) {
	caller, err := sts.NewFromConfig(config).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", fmt.Errorf("reading which account the AWS credentials are of: %w", err)
	}
	return aws.ToString(caller.Account), nil
}

// Offerings reads the prices and offerings of the region. What cannot be read is missing in the list,
// which is never nil, and part of the error.
func (a *Account) Offerings(ctx context.Context) (*pricelist.List, error) {
	api, region := ec2.NewFromConfig(a.config), a.config.Region
	prices := offerings.NewPrices(pricing.NewAPI(a.config), api, a.clock, region, false)
	offered := &offerings.Recorder{EC2API: api, Clock: a.clock}
	errs := make([]error, 3)
	// What one part lacks is no reason to have none of the others.
	var all errgroup.Group
	all.Go(func() error { errs[0] = prices.UpdateOnDemandPricing(ctx); return nil })
	all.Go(func() error { errs[1] = prices.UpdateSpotPricing(ctx); return nil })
	all.Go(func() error { errs[2] = readOfferings(ctx, offered); return nil })
	_ = all.Wait() // Nothing returns an error.
	if err := errors.Join(errs...); err != nil {
		return offerings.List(region, offered, prices), fmt.Errorf("reading the prices and offerings of %s: %w", region, err)
	}
	return offerings.List(region, offered, prices), nil
}

// readOfferings has the recorder read which zones offer which instance types.
func readOfferings(ctx context.Context, offered *offerings.Recorder) error {
	pages := ec2.NewDescribeInstanceTypeOfferingsPaginator(offered, &ec2.DescribeInstanceTypeOfferingsInput{
		LocationType: ec2types.LocationTypeAvailabilityZone, MaxResults: aws.Int32(1000), // the most that EC2 allows
	})
	for pages.HasMorePages() {
		if _, err := pages.NextPage(ctx); err != nil {
			return fmt.Errorf("reading which instance types the zones offer: %w", err)
		}
	}
	return nil
}

// CapacityReservations are those that the terms of an EC2NodeClass select, as
// [offerings.Reservations] has them.
func (a *Account) CapacityReservations(ctx context.Context, terms []awsv1.CapacityReservationSelectorTerm) ([]provision.CapacityReservation, error) {
	return offerings.Reservations(ctx, a.clock, a.reservations, terms)
}
