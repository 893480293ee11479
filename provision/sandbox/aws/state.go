package aws

import (
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/offerings"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/eks"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/events"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/iam"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/logs"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/pricing"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/quotas"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/sqs"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ssm"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/sts"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/zonalshift"
)

// state is what AWS keeps of the account. Everything that a read can show is in here,
// so that a clone is stale state.
type state struct {
	account *api.Account
	iam     *iam.Service
	ec2     *ec2.Service
	eks     *eks.Service
	shifts  *zonalshift.Service
	prices  *pricing.Service
	ssm     *ssm.Service
	logs    *logs.Service
	sqs     *sqs.Service
	events  *events.Service
	quotas  *quotas.Service
}

// newState has what the config lists; entered is called for each state that an
// instance enters.
func newState(account *api.Account, cfg Config, offers *offerings.Service, entered func(time.Time, State, Instance)) *state {
	st := &state{account: account}
	provider := iam.Provider{Exists: cfg.Cluster.OIDC, Issuer: eks.Issuer(account), Created: eks.Created()}
	st.iam = iam.New(account, provider, cfg.Roles, cfg.Profiles)
	st.sqs = sqs.New(account)
	st.events = events.New(account, st.sqs, st.iam.PassRole)
	st.quotas = quotas.New(account, cfg.Quotas)
	st.ec2 = ec2.New(account, offers, ec2.Config{Tags: cfg.Tags, Version: cfg.Cluster.Version, Releases: cfg.Releases},
		ec2.Dependencies{Profiles: st.iam, Quotas: st.quotas, Events: st.events, Entered: entered})
	st.logs = logs.New(account)
	network := eks.Network{VPC: st.ec2.VPC.ID(), Subnets: st.ec2.VPC.PrivateSubnets(), Release: cfg.Releases[0]}
	network.ClusterGroup, network.NodeGroup = st.ec2.VPC.ClusterGroups()
	st.eks = eks.New(account, cfg.Cluster, network, st.iam, st.logs)
	st.shifts = zonalshift.New(account, st.eks)
	st.prices, st.ssm = pricing.New(account, offers), ssm.New(account, st.ec2.Images)
	return st
}

// clone copies deep enough that nothing later shows in it.
func (st *state) clone() *state {
	out := &state{account: st.account, prices: st.prices}
	out.iam, out.ec2, out.eks, out.shifts = st.iam.Clone(), st.ec2.Clone(), st.eks.Clone(), st.shifts.Clone()
	out.logs, out.sqs, out.events, out.quotas = st.logs.Clone(), st.sqs.Clone(), st.events.Clone(), st.quotas.Clone()
	out.ssm = ssm.New(st.account, out.ec2.Images)
	return out
}

// tables are what each service can do, by its name in a credential scope.
func (st *state) tables() map[string]func() api.Table {
	return map[string]func() api.Table{
		"ec2": st.ec2.Table, "iam": st.iam.Table, "eks": st.eks.Table, "arc-zonal-shift": st.shifts.Table, "ssm": st.ssm.Table,
		"pricing": st.prices.Table, "sts": func() api.Table { return sts.Table(st.account) },
		"sqs": st.sqs.Table, "events": st.events.Table, "logs": st.logs.Table, "servicequotas": st.quotas.Table,
	}
}
