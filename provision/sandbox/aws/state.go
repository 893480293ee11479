package aws

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"time"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// state is what AWS remembers about the account. Everything that a read can
// show is in here, so that a clone is a stale answer.
type state struct {
	seq          int
	cluster      Cluster
	instances    []*instance // by launch
	templates    []*template // by creation
	profiles     map[string]*profile
	network      network
	images       []*image
	reservations []*Reservation
	groups       []*PlacementGroup
	shifts       []shift
}

// template is a launch template with its only version.
type template struct {
	id, name string
	token    string // of the request that made it
	created  time.Time
	data     query.Form // LaunchTemplateData
	tags     map[string]string
}

// profile is an IAM instance profile.
type profile struct {
	name, path, role string
	created          time.Time
	tags             map[string]string
}

func newState(cfg Config, zones []catalog.Zone) *state {
	st := &state{cluster: cfg.Cluster, profiles: map[string]*profile{}}
	now := cfg.Clock.Now()
	for name, role := range cfg.Profiles {
		st.profiles[name] = &profile{name: name, path: "/", role: role, created: now, tags: map[string]string{}}
	}
	st.network = newNetwork(cfg, zones)
	st.images = newImages(cfg)
	return st
}

// id makes the next identifier with that prefix. They look like AWS's, and the
// same history gives the same ones.
func (st *state) id(prefix string) string {
	st.seq++
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", prefix, st.seq))
	return prefix + "-0" + hex.EncodeToString(sum[:8])
}

// clone copies deep enough that nothing later shows in it.
func (st *state) clone() *state {
	out := *st
	out.instances = make([]*instance, len(st.instances))
	for n, i := range st.instances {
		c := *i
		c.Tags = maps.Clone(i.Tags)
		out.instances[n] = &c
	}
	out.templates = make([]*template, len(st.templates))
	for n, t := range st.templates {
		c := *t
		c.tags = maps.Clone(t.tags)
		out.templates[n] = &c
	}
	out.profiles = make(map[string]*profile, len(st.profiles))
	for name, p := range st.profiles {
		c := *p
		out.profiles[name] = &c
	}
	out.network = st.network.clone()
	out.images = clones(st.images)
	for _, i := range out.images {
		i.tags = maps.Clone(i.tags)
	}
	out.reservations = clones(st.reservations)
	out.groups = clones(st.groups)
	out.shifts = append([]shift(nil), st.shifts...)
	return &out
}

func clones[T any](in []*T) []*T {
	out := make([]*T, len(in))
	for n, v := range in {
		c := *v
		out[n] = &c
	}
	return out
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
