package aws

import (
	"crypto/sha256"
	"encoding/base32"
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
	iam          identities
	network      network
	images       []*image
	reservations []*Reservation
	groups       []*PlacementGroup
	eks          control
	attachments
	managed
}

// template is a launch template with its only version.
type template struct {
	id, name string
	token    string // of the request that made it
	created  time.Time
	data     query.Form // LaunchTemplateData
	tags     map[string]string
}

func newState(cfg Config, zones []catalog.Zone) *state {
	st := &state{cluster: cfg.Cluster}
	st.iam = newIdentities(st, cfg)
	st.eks = newControl(st, cfg)
	st.managed = newManaged(cfg)
	st.logTo(st.eks.logging, cfg.Clock.Now())
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

// iamID makes the next unique id of an IAM entity: two of one name have two.
func (st *state) iamID(prefix string) string {
	st.seq++
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", prefix, st.seq))
	return prefix + base32.StdEncoding.EncodeToString(sum[:])[:17]
}

// uuid makes the next identifier of that form.
func (st *state) uuid() string {
	st.seq++
	sum := sha256.Sum256(fmt.Appendf(nil, "uuid/%d", st.seq))
	h := hex.EncodeToString(sum[:16])
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-8" + h[17:20] + "-" + h[20:]
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
	out.managed = st.managed.clone()
	out.network = st.network.clone()
	out.images = clones(st.images)
	for _, i := range out.images {
		i.tags = maps.Clone(i.tags)
	}
	out.reservations = clones(st.reservations)
	for _, r := range out.reservations {
		r.Tags = maps.Clone(r.Tags)
	}
	out.groups = clones(st.groups)
	for _, g := range out.groups {
		g.Tags = maps.Clone(g.Tags)
	}
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
