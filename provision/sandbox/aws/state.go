package aws

import (
	"maps"
	"time"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/events"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/logs"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/quotas"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/sqs"
)

// state is what AWS remembers about the account. Everything that a read can
// show is in here, so that a clone is a stale answer.
type state struct {
	account      *api.Account
	cluster      Cluster
	instances    []*instance // by launch
	templates    []*template // by creation
	iam          identities
	network      network
	images       []*image
	reservations []*Reservation
	groups       []*PlacementGroup
	eks          control
	attachments
	services
}

// services are those that are packages of their own.
type services struct {
	logs   *logs.Service
	sqs    *sqs.Service
	events *events.Service
	quotas *quotas.Service
}

// template is a launch template with its only version.
type template struct {
	id, name string
	token    string // of the request that made it
	created  time.Time
	data     query.Form // LaunchTemplateData
	tags     map[string]string
}

func newState(account *api.Account, cfg Config, zones []catalog.Zone) *state {
	st := &state{account: account, cluster: cfg.Cluster}
	st.iam = newIdentities(st, cfg)
	st.eks = newControl(st, cfg)
	st.logs = logs.New(account)
	st.sqs = sqs.New(account)
	st.events = events.New(account, st.sqs, st.passRole)
	st.quotas = quotas.New(account, cfg.Limits.Quotas)
	st.logTo(st.eks.logging, cfg.Clock.Now())
	st.network = newNetwork(cfg, zones)
	st.images = newImages(cfg)
	return st
}

// clone copies deep enough that nothing later shows in it.
func (st *state) clone() *state {
	out := *st
	out.instances = make([]*instance, len(st.instances))
	for n, i := range st.instances {
		c := *i
		c.Tags, c.spotTags = maps.Clone(i.Tags), maps.Clone(i.spotTags)
		out.instances[n] = &c
	}
	out.templates = make([]*template, len(st.templates))
	for n, t := range st.templates {
		c := *t
		c.tags = maps.Clone(t.tags)
		out.templates[n] = &c
	}
	out.iam = st.iam.clone()
	out.eks = st.eks.clone()
	out.attachments = st.attachments.clone()
	out.logs, out.sqs, out.events, out.quotas = st.logs.Clone(), st.sqs.Clone(), st.events.Clone(), st.quotas.Clone()
	out.network = st.network.clone()
	out.images = api.Clones(st.images)
	for _, i := range out.images {
		i.tags = maps.Clone(i.tags)
	}
	out.reservations = api.Clones(st.reservations)
	for _, r := range out.reservations {
		r.Tags = maps.Clone(r.Tags)
	}
	out.groups = api.Clones(st.groups)
	for _, g := range out.groups {
		g.Tags = maps.Clone(g.Tags)
	}
	return &out
}

func (st *state) instance(id string) *instance {
	for _, i := range st.instances {
		if i.ID == id {
			return i
		}
	}
	return nil
}

func (st *state) template(id, name string) *template {
	for _, t := range st.templates {
		if t.id == id || t.name == name {
			return t
		}
	}
	return nil
}

// tables are what the services can do that are packages of their own.
func (st *state) tables() map[string]api.Table {
	return map[string]api.Table{
		"sqs": st.sqs.Table(), "events": st.events.Table(), "logs": st.logs.Table(), "servicequotas": st.quotas.Table(),
	}
}
