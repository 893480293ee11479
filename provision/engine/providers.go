package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	sdk "github.com/aws/karpenter-provider-aws/pkg/aws"
	awscache "github.com/aws/karpenter-provider-aws/pkg/cache"
	kubeletcel "github.com/aws/karpenter-provider-aws/pkg/cel"
	awsoptions "github.com/aws/karpenter-provider-aws/pkg/operator/options"
	"github.com/aws/karpenter-provider-aws/pkg/providers/amifamily"
	shift "github.com/aws/karpenter-provider-aws/pkg/providers/arczonalshift"
	"github.com/aws/karpenter-provider-aws/pkg/providers/capacityreservation"
	"github.com/aws/karpenter-provider-aws/pkg/providers/instance"
	"github.com/aws/karpenter-provider-aws/pkg/providers/instanceprofile"
	"github.com/aws/karpenter-provider-aws/pkg/providers/instancestatus"
	"github.com/aws/karpenter-provider-aws/pkg/providers/instancetype"
	"github.com/aws/karpenter-provider-aws/pkg/providers/launchtemplate"
	"github.com/aws/karpenter-provider-aws/pkg/providers/placementgroup"
	"github.com/aws/karpenter-provider-aws/pkg/providers/pricing"
	"github.com/aws/karpenter-provider-aws/pkg/providers/securitygroup"
	ssmprovider "github.com/aws/karpenter-provider-aws/pkg/providers/ssm"
	"github.com/aws/karpenter-provider-aws/pkg/providers/subnet"
	"github.com/aws/karpenter-provider-aws/pkg/providers/version"
	"github.com/patrickmn/go-cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/karpenter/pkg/events"

	"github.com/poolwright/poolwright/provision/engine/offerings"
)

// providers are what the AWS provider's controllers share, grouped by what they are
// about.
type providers struct {
	config   aws.Config
	ec2      *ec2.Client
	eks      sdk.EKSAPI
	caBundle *string
	// expressions is the environment, with the cache of compiled ones, of the expressions in
	// kubelet configurations.
	expressions *kubeletcel.CELEnvironment
	caches      caches
	network     network
	images      images
	instances   instanceProviders
}

// caches are the ones that more than one part writes to.
type caches struct {
	unavailable *awscache.UnavailableOfferings
	ssm         *cache.Cache
	validation  *cache.Cache
	recreation  *cache.Cache
}

// network is where instances can be placed.
type network struct {
	subnets         subnet.Provider
	securityGroups  securitygroup.Provider
	placementGroups placementgroup.Provider
	reservations    capacityreservation.Provider
	zonalShift      shift.Provider
}

// images is what instances boot from.
type images struct {
	version  *version.DefaultProvider
	amis     amifamily.Provider
	resolver amifamily.Resolver
}

// instanceProviders are which instances there are and how they come and go.
type instanceProviders struct {
	types     *instancetype.DefaultProvider
	offerings *offerings.Recorder
	refusals  *offerings.Refusals
	prices    *offerings.Prices
	profiles  instanceprofile.Provider
	templates launchtemplate.Provider
	instances instance.Provider
	statuses  *instancestatus.DefaultProvider
}

// dependencies is what the providers take from outside AWS.
type dependencies struct {
	kube     kubernetes.Interface
	client   client.Client
	recorder events.Recorder
	clock    clock.Clock
	// elected is closed when this process leads.
	elected  <-chan struct{}
	caBundle string
	// endpoint is the API server's address for nodes, dns the cluster's.
	endpoint string
	dns      net.IP
}

// newProviders builds the providers and fills those that need something before the
// first controller starts.
func newProviders(ctx context.Context, config aws.Config, from dependencies) (*providers, error) {
	expressions, err := kubeletcel.NewEnvironment()
	if err != nil {
		return nil, fmt.Errorf("preparing the expressions of kubelet configurations: %w", err)
	}
	p := &providers{
		config:      config,
		ec2:         ec2.NewFromConfig(config),
		eks:         completeEKS{eks.NewFromConfig(config)},
		caBundle:    &from.caBundle,
		expressions: expressions,
		caches: caches{
			unavailable: awscache.NewUnavailableOfferings(),
			ssm:         keep(awscache.SSMCacheTTL),
			validation:  awscache.NewJitteredCache(awscache.ValidationTTL, 5*time.Minute, awscache.DefaultCleanupInterval),
			recreation:  keep(awscache.RecreationTTL),
		},
	}
	if err := p.addNetwork(ctx, from.clock); err != nil {
		return nil, err
	}
	if err := p.addImages(ctx, from); err != nil {
		return nil, err
	}
	if err := p.addTypes(ctx, from); err != nil {
		return nil, err
	}
	p.addLaunch(ctx, from)
	return p, nil
}

func (p *providers) addNetwork(ctx context.Context, clk clock.Clock) error {
	opts := awsoptions.FromContext(ctx)
	refresh := opts.SubnetRefreshInterval
	// Free addresses are kept a little longer than the subnets they belong to.
	addresses := max(awscache.AvailableIPAddressTTL, refresh+awscache.AvailableIPAddressTTL-awscache.DefaultTTL)
	p.network = network{
		subnets:         subnet.NewDefaultProvider(p.ec2, keep(refresh), keep(addresses)),
		securityGroups:  securitygroup.NewDefaultProvider(p.ec2, keep(opts.SecurityGroupRefreshInterval)),
		placementGroups: placementgroup.NewProvider(p.ec2, keep(awscache.DefaultTTL), keep(awscache.PlacementGroupAvailabilityTTL)),
		reservations:    capacityreservation.NewProvider(p.ec2, clk, keep(awscache.DefaultTTL), keep(awscache.CapacityReservationAvailabilityTTL)),
		zonalShift:      shift.NewNoopProvider(),
	}
	if !opts.EnableZonalShift {
		return nil
	}
	return p.addZonalShift(ctx, clk)
}

// addZonalShift finds the cluster's resource in ARC, which must be registered.
func (p *providers) addZonalShift(ctx context.Context, clk clock.Clock) error {
	name := awsoptions.FromContext(ctx).ClusterName
	cluster, err := p.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &name})
	if err != nil {
		return fmt.Errorf("reading EKS cluster %q for its zonal shifts: %w: allow eks:DescribeCluster", name, err)
	}
	if cluster.Cluster.Arn == nil {
		return fmt.Errorf("reading EKS cluster %q for its zonal shifts: the response has no ARN", name)
	}
	api := arczonalshift.NewFromConfig(p.config)
	if _, err := api.GetManagedResource(ctx, &arczonalshift.GetManagedResourceInput{ResourceIdentifier: cluster.Cluster.Arn}); err != nil {
		return fmt.Errorf("reading the zonal shifts of EKS cluster %q: %w: enable zonal shift on the cluster and allow arc-zonal-shift:GetManagedResource, or leave spec.engine.enableZonalShift out", name, err)
	}
	p.network.zonalShift = shift.NewProvider(api, clk, *cluster.Cluster.Arn)
	return nil
}

func (p *providers) addImages(ctx context.Context, from dependencies) error {
	v := version.NewDefaultProvider(from.kube, p.eks)
	if err := v.UpdateVersion(ctx); err != nil {
		return fmt.Errorf("reading the cluster's Kubernetes version: %w: check that the API server serves /version, or EKS DescribeCluster", err)
	}
	parameters := ssmprovider.NewDefaultProvider(ssm.NewFromConfig(p.config), p.caches.ssm)
	p.images = images{
		version:  v,
		amis:     amifamily.NewDefaultProvider(from.clock, v, parameters, p.ec2, keep(awsoptions.FromContext(ctx).AMIRefreshInterval)),
		resolver: amifamily.NewDefaultResolver(p.config.Region, p.interfaces, p.expressions),
	}
	return nil
}

// interfaces are the network interfaces that an instance type has, as EC2 describes them. The
// resolver of images is made before the instance types are read, and calls it at launches.
func (p *providers) interfaces(name string) (amifamily.ENILimits, bool) {
	if p.instances.types == nil {
		return amifamily.ENILimits{}, false
	}
	return p.instances.types.ENILimits(name)
}

func (p *providers) addTypes(ctx context.Context, from dependencies) error {
	region := p.config.Region
	isolated := awsoptions.FromContext(ctx).IsolatedVPC
	p.instances.prices = offerings.NewPrices(pricing.NewAPI(p.config), p.ec2, from.clock, region, isolated)
	p.instances.offerings = &offerings.Recorder{EC2API: p.ec2, Clock: from.clock}
	types := instancetype.NewDefaultProvider(
		keep(awscache.InstanceTypesZonesAndOfferingsTTL),
		keep(awscache.InstanceTypesZonesAndOfferingsTTL),
		keep(awscache.DiscoveredCapacityCacheTTL),
		p.instances.offerings, p.network.subnets, p.instances.prices, p.network.reservations, p.network.placementGroups,
		p.caches.unavailable, instancetype.NewDefaultResolver(region, p.expressions), p.network.zonalShift, from.client, p.expressions,
	)
	if err := types.UpdateInstanceTypes(ctx); err != nil {
		return fmt.Errorf("reading the instance types of %s: %w: allow ec2:DescribeInstanceTypes", region, err)
	}
	if err := types.UpdateInstanceTypeOfferings(ctx); err != nil {
		return fmt.Errorf("reading which instance types the zones of %s offer: %w: allow ec2:DescribeInstanceTypeOfferings", region, err)
	}
	p.instances.types = types
	return nil
}

func (p *providers) addLaunch(ctx context.Context, from dependencies) {
	p.instances.profiles = instanceprofile.NewDefaultProvider(
		iam.NewFromConfig(p.config),
		keep(awscache.InstanceProfileTTL), keep(awscache.DefaultCleanupInterval), keep(awscache.ProtectedProfilesTTL),
		p.config.Region,
	)
	p.instances.templates = launchtemplate.NewDefaultProvider(
		ctx, keep(awscache.DefaultTTL), p.ec2, p.eks, p.images.resolver,
		p.network.securityGroups, p.network.subnets, p.network.placementGroups,
		p.caBundle, from.elected, from.dns, from.endpoint,
	)
	// Known instances are kept for ever: the provider itself drops those that a
	// complete list no longer holds.
	known := cache.New(cache.NoExpiration, cache.NoExpiration)
	p.instances.refusals = &offerings.Refusals{EC2API: p.ec2, Clock: from.clock}
	p.instances.instances = instance.NewDefaultProvider(
		ctx, p.config.Region, from.recorder, p.instances.refusals, p.caches.unavailable,
		p.network.subnets, p.instances.templates, p.network.reservations, p.network.placementGroups, p.network.zonalShift, known,
	)
	p.instances.statuses = instancestatus.NewDefaultProvider(p.ec2, from.clock)
}

// completeEKS refuses responses without the parts that the provider reads unchecked.
type completeEKS struct{ sdk.EKSAPI }

func (c completeEKS) DescribeCluster(ctx context.Context, in *eks.DescribeClusterInput, o ...func(*eks.Options)) (*eks.DescribeClusterOutput, error) {
	out, err := c.EKSAPI.DescribeCluster(ctx, in, o...)
	switch {
	case err != nil:
		return nil, err
	case out.Cluster == nil:
		return nil, errors.New("the response of EKS has no cluster")
	case out.Cluster.KubernetesNetworkConfig == nil:
		return nil, errors.New("the response of EKS has no network configuration")
	}
	return out, nil
}
