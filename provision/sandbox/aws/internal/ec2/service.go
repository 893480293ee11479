// Package ec2 is EC2's instances: launches by fleets, their states on the account's
// clock, what they cost, and how they are refused, interrupted, impaired and ended;
// with what all of EC2 shares, its tags and its requests to IAM. What EC2 sells,
// its images, networks, volumes, templates, reservations and placement groups are
// packages below it. Nothing runs in an instance, and none is started again. Start
// with Service and operations.
package ec2

import (
	"maps"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/ebs"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/images"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/offerings"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/placement"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/reservations"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/templates"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/vpc"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/events"
)

// Service is EC2 in one account.
type Service struct {
	account      *api.Account
	offers       *offerings.Service
	VPC          *vpc.Service
	Images       *images.Service
	Reservations *reservations.Service
	Placement    *placement.Service
	ebs          *ebs.Service
	templates    *templates.Service
	instances    []*instance // by launch
	capacity     *capacity
	billed       []bill // instances that have ended
	deps         Dependencies
}

// Config is what there is from the start.
type Config struct {
	Tags     map[string]string // by which the cluster's nodes find subnets and security groups
	Version  string            // of Kubernetes, of the cluster
	Releases []string          // of the Amazon Linux images, oldest first
}

// Dependencies are what EC2 needs of other services.
type Dependencies struct {
	Profiles Profiles
	Quotas   Quotas
	Events   Events
	// Entered is called, with the lock held, for each state that an instance enters.
	Entered func(now time.Time, state State, i Instance)
}

// Profiles are the instance profiles in IAM.
type Profiles interface {
	// HasProfile reports whether a launch finds an instance profile.
	HasProfile(name string, now time.Time) bool
	// ProfileRole is the role in an instance profile, "" without either.
	ProfileRole(name string) string
	// PassRole is the request to IAM for giving a role to a service.
	PassRole(role, service string) api.AuthorizationRequest
}

// Quotas are EC2's in Service Quotas.
type Quotas interface {
	// Exceeds reports whether so many vCPUs of a class are over its quota.
	Exceeds(class string, vcpus int) bool
}

// Events is the default bus of EventBridge.
type Events interface {
	// Publish puts an event on the bus.
	Publish(now time.Time, e events.Event)
}

// New has no instances.
func New(account *api.Account, offers *offerings.Service, cfg Config, deps Dependencies) *Service {
	svc := &Service{account: account, offers: offers, deps: deps, capacity: &capacity{fleets: map[string]*fleetResponse{}}}
	svc.VPC, svc.Images = vpc.New(account, cfg.Tags, offers.Zones()), images.New(account, cfg.Version, cfg.Releases)
	svc.ebs, svc.templates = ebs.New(account), templates.New(account)
	svc.Reservations, svc.Placement = reservations.New(account, offers, svc), placement.New(account, svc)
	return svc
}

// Clone copies deep enough that nothing later shows in it. What launches go by is
// not copied: only reads use a copy.
func (svc *Service) Clone() *Service {
	out := &Service{account: svc.account, offers: svc.offers, deps: svc.deps, capacity: svc.capacity}
	for _, i := range svc.instances {
		c := *i
		c.Tags, c.spotTags = maps.Clone(i.Tags), maps.Clone(i.spotTags)
		out.instances = append(out.instances, &c)
	}
	out.VPC, out.Images, out.ebs, out.templates = svc.VPC.Clone(), svc.Images.Clone(), svc.ebs.Clone(), svc.templates.Clone()
	out.Reservations, out.Placement = svc.Reservations.Clone(out), svc.Placement.Clone(out)
	return out
}
