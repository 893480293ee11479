package ec2

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/offerings"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/templates"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

func fleetParams() []string {
	const config = "LaunchTemplateConfigs.#."
	return []string{
		"ClientToken", "Type", "Context",
		"TargetCapacitySpecification.TotalTargetCapacity", "TargetCapacitySpecification.DefaultTargetCapacityType",
		"SpotOptions.AllocationStrategy", "OnDemandOptions.AllocationStrategy", "ReservedCapacityOptions.ReservationType.#",
		"TagSpecification.#.ResourceType", "TagSpecification.#.Tag.#.Key", "TagSpecification.#.Tag.#.Value",
		config + "LaunchTemplateSpecification.LaunchTemplateId", config + "LaunchTemplateSpecification.LaunchTemplateName",
		config + "LaunchTemplateSpecification.Version",
		config + "Overrides.#.InstanceType", config + "Overrides.#.SubnetId", config + "Overrides.#.AvailabilityZone",
		config + "Overrides.#.ImageId", config + "Overrides.#.Priority",
	}
}

// fleetLimit is the most instances of one instant fleet.
const fleetLimit = 1000

// fleetRequest is a CreateFleet request that has been parsed.
type fleetRequest struct {
	capacityType string
	total        int
	strategy     string
	pools        []pool
}

// pool is one override, with everything a launch from it needs.
type pool struct {
	launch
	template *templates.Template
	priority float64
	price    float64
	order    int
}

// createFleet starts an instant fleet. It fills the request from the best pool
// on, as the strategy ranks them; a pool that cannot give what is requested leaves an
// error beside the instances that others gave.
func (svc *Service) createFleet(in *api.Call) (any, error) {
	f, err := svc.parseFleet(in)
	if err != nil {
		return nil, err
	}
	if in.Dry {
		return nil, api.ErrDryRun()
	}
	token := in.Form.Get("ClientToken")
	if before, ok := svc.capacity.fleets[token]; ok && token != "" {
		if before.params != in.Params {
			return nil, api.Refuse("IdempotentParameterMismatch", "The client token was used for a request with other parameters.")
		}
		return before.nodes, nil
	}
	f.rank()
	var sets, failures []query.Element
	left := max(0, f.total+in.Extra)
	for _, p := range f.pools {
		if left == 0 {
			break
		}
		ids, failed := svc.fill(in, p, left)
		left -= len(ids)
		if len(ids) > 0 {
			sets = append(sets, query.Group("item", query.Values("instanceIds", "item", ids),
				query.Text("instanceType", p.kind.Name), query.Text("lifecycle", f.lifecycle()), p.element()))
		}
		if failed != nil {
			failures = append(failures, query.Group("item", query.Text("errorCode", failed.Code), query.Text("errorMessage", failed.Message),
				query.Text("lifecycle", f.lifecycle()), p.element()))
		}
	}
	nodes := []query.Element{query.Text("fleetId", svc.account.NewID("fleet")), query.List("errorSet", "item", failures), query.List("fleetInstanceSet", "item", sets)}
	if token != "" {
		svc.capacity.keep(token, &fleetResponse{in.Now, in.Params, nodes})
	}
	return nodes, nil
}

// lifecycle is how a fleet's response names what it bought.
func (f *fleetRequest) lifecycle() string {
	if f.capacityType == offerings.Spot {
		return offerings.Spot
	}
	return offerings.OnDemand
}

func (p pool) element() query.Element {
	return query.Group("launchTemplateAndOverrides",
		query.Group("launchTemplateSpecification", query.Text("launchTemplateId", p.template.ID),
			query.Text("launchTemplateName", p.template.Name), query.Text("version", "1")),
		query.Group("overrides", query.Text("instanceType", p.kind.Name), query.Opt("subnetId", p.subnetID),
			query.Opt("availabilityZone", p.zone.Name), query.Opt("imageId", p.image),
			query.Text("priority", strconv.FormatFloat(p.priority, 'f', -1, 64))))
}

// fill launches up to n instances from one pool.
func (svc *Service) fill(in *api.Call, p pool, n int) ([]string, *api.Error) {
	if !svc.offers.Offered(p.kind.Name, p.zone.Name) {
		// RunInstances has the code Unsupported for it, a fleet this one.
		return nil, api.NewError(http.StatusBadRequest, "InvalidFleetConfiguration", launchError("Unsupported", p.kind.Name, p.zone.Name))
	}
	if failed := svc.launchable(in, p.launch); failed != nil {
		return nil, failed
	}
	var ids []string
	for len(ids) < n {
		i, failed := svc.start(in, p.launch, p.price)
		if failed != nil {
			return ids, failed
		}
		ids = append(ids, i.ID)
	}
	return ids, nil
}

// rank orders the pools: by price, or by the caller's priority (the lowest
// number first), or by the room they have.
func (f *fleetRequest) rank() {
	byPrice := func(a, b pool) int {
		return cmp.Or(cmp.Compare(a.price, b.price), cmp.Compare(a.priority, b.priority), cmp.Compare(a.zone.Name, b.zone.Name), cmp.Compare(a.order, b.order))
	}
	byPriority := func(a, b pool) int { return cmp.Or(cmp.Compare(a.priority, b.priority), byPrice(a, b)) }
	if f.strategy == "prioritized" || f.strategy == "capacity-optimized-prioritized" {
		slices.SortStableFunc(f.pools, byPriority)
		return
	}
	slices.SortStableFunc(f.pools, byPrice)
}

// parseFleet reads and checks the request. What is wrong with a single pool is found
// at its launch; what is wrong with the request, here.
func (svc *Service) parseFleet(in *api.Call) (*fleetRequest, error) {
	get := in.Form.Get
	f := &fleetRequest{capacityType: get("TargetCapacitySpecification.DefaultTargetCapacityType")}
	if kind := get("Type"); kind != "instant" {
		return nil, api.Refuse("UnsupportedOperation", "Fleets of type '%s' are not emulated, only instant ones.", kind)
	}
	total, _, err := in.Form.Int("TargetCapacitySpecification.TotalTargetCapacity")
	if err != nil || total < 1 || total > fleetLimit {
		return nil, api.Refuse("InvalidParameterValue", "TotalTargetCapacity '%s' is not between 1 and %d.", get("TargetCapacitySpecification.TotalTargetCapacity"), fleetLimit)
	}
	f.total = total
	if f.strategy, err = svc.strategy(in, f.capacityType); err != nil {
		return nil, err
	}
	if err = templates.CheckTags(in.Form, "fleet"); err != nil {
		return nil, err
	}
	for _, c := range in.Form.Each("LaunchTemplateConfigs") {
		if err := svc.addPools(f, c); err != nil {
			return nil, err
		}
	}
	if len(f.pools) == 0 {
		return nil, api.Refuse("MissingParameter", "The request must contain the parameter LaunchTemplateConfigs")
	}
	return f, nil
}

func (svc *Service) strategy(in *api.Call, capacityType string) (string, error) {
	known := map[string][]string{
		offerings.OnDemand:      {"lowest-price", "prioritized"},
		offerings.Spot:          {"price-capacity-optimized", "lowest-price", "capacity-optimized-prioritized"},
		offerings.CapacityBlock: {""},
		offerings.Reserved:      {"", "prioritized"},
	}
	allowed, ok := known[capacityType]
	if !ok {
		return "", api.Refuse("InvalidParameterValue", "DefaultTargetCapacityType '%s' is not known.", capacityType)
	}
	name := map[string]string{offerings.OnDemand: "OnDemandOptions", offerings.Spot: "SpotOptions"}[capacityType] + ".AllocationStrategy"
	s := in.Form.Get(name)
	if s == "" {
		s = allowed[0]
	}
	if !slices.Contains(allowed, s) {
		return "", api.Refuse("InvalidParameterValue", "The %s '%s' is not emulated for %s; it supports %q.", name, s, capacityType, allowed)
	}
	return s, nil
}

// addPools makes a pool of every override, or of the template alone.
func (svc *Service) addPools(f *fleetRequest, config query.Form) error {
	spec := config.Sub("LaunchTemplateSpecification")
	t, err := svc.templates.Find(spec.Get("LaunchTemplateId"), spec.Get("LaunchTemplateName"), spec.Get("Version"))
	if err != nil {
		return err
	}
	overrides := config.Each("Overrides")
	if len(overrides) == 0 {
		overrides = []query.Form{{}}
	}
	for _, o := range overrides {
		p := pool{template: t, order: len(f.pools)}
		if s := o.Get("Priority"); s != "" {
			if p.priority, err = strconv.ParseFloat(s, 64); err != nil || p.priority < 0 {
				return api.Refuse("InvalidParameterValue", "Priority '%s' is not a number of zero or more.", s)
			}
		}
		p.launch, err = svc.launch(t.Data, o, f.capacityType)
		if err != nil {
			return err
		}
		// A type that is not sold so has no price; its launch returns why.
		p.price, _ = svc.offers.Price(p.kind, p.zone, f.capacityType)
		f.pools = append(f.pools, p)
	}
	return nil
}
