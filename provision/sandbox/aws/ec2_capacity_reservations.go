package aws

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

func reservationOperations() map[string]operation {
	tags := func(list string, also ...string) []string {
		return append(also, list+".#.ResourceType", list+".#.Tag.#.Key", list+".#.Tag.#.Value")
	}
	return map[string]operation{
		"CreateCapacityReservation": {params: tags("TagSpecifications", "ClientToken", "InstanceType", "InstancePlatform", "AvailabilityZone", "AvailabilityZoneId",
			"InstanceCount", "EndDate", "EndDateType", "InstanceMatchCriteria", "Tenancy"), run: createReservation},
		"CancelCapacityReservation":                        {params: []string{"CapacityReservationId"}, run: cancelReservation},
		"CreateInterruptibleCapacityReservationAllocation": {params: tags("TagSpecification", "ClientToken", "CapacityReservationId", "InstanceCount"), run: allocateInterruptible},
		"CreatePlacementGroup":                             {params: tags("TagSpecification", "GroupName", "Strategy", "PartitionCount", "SpreadLevel"), run: createPlacementGroup},
		"DeletePlacementGroup":                             {params: []string{"GroupName"}, run: deletePlacementGroup},
	}
}

func createReservation(in *call) (any, error) {
	get := in.Form.Get
	kind, err := in.kindOf(get("InstanceType"))
	if err != nil {
		return nil, err
	}
	zone, err := in.reservedZone()
	if err != nil {
		return nil, err
	}
	r := &Reservation{Type: kind.Name, Zone: zone.Name, origin: origin{created: in.Now, token: get("ClientToken")}}
	if r.Total, err = in.positive("InstanceCount"); err != nil {
		return nil, err
	}
	if r.Tags, err = reservationTags(in.Form); err != nil {
		return nil, err
	}
	if r.End, err = in.endDate(); err != nil {
		return nil, err
	}
	match := cmp.Or(get("InstanceMatchCriteria"), "open")
	r.Targeted = match == "targeted"
	switch {
	case match != "open" && match != "targeted":
		return nil, api.Refuse("InvalidParameterValue", "InstanceMatchCriteria '%s' is neither open nor targeted.", match)
	case get("InstancePlatform") != "Linux/UNIX":
		return nil, api.Refuse("InvalidParameterValue", "InstancePlatform '%s' is not played, only Linux/UNIX.", get("InstancePlatform"))
	case cmp.Or(get("Tenancy"), "default") != "default":
		return nil, api.Refuse("InvalidParameterValue", "Tenancy '%s' is not played, only default.", get("Tenancy"))
	}
	if n := slices.IndexFunc(in.st.reservations, func(o *Reservation) bool { return r.token != "" && o.token == r.token }); n >= 0 {
		return []query.Element{query.Group("capacityReservation", in.reservationElements(in.st.reservations[n])...)}, nil // a repeated request
	}
	if in.Dry {
		return nil, api.ErrDryRun()
	}
	r.ID = in.cloud.account.NewID("cr")
	in.st.reservations = append(in.st.reservations, r)
	return []query.Element{query.Group("capacityReservation", in.reservationElements(r)...)}, nil
}

// positive reads a number of one or more.
func (in *call) positive(param string) (int, error) {
	n, _, err := in.Form.Int(param)
	if err != nil || n < 1 {
		return 0, api.Refuse("InvalidParameterValue", "%s '%s' is not a number of one or more.", param, in.Form.Get(param))
	}
	return n, nil
}

// reservedZone reads the zone of a new reservation, by name or by id.
func (in *call) reservedZone() (catalog.Zone, error) {
	name, id := in.Form.Get("AvailabilityZone"), in.Form.Get("AvailabilityZoneId")
	if (name == "") == (id == "") {
		return catalog.Zone{}, api.Refuse("MissingParameter", "The request must contain either AvailabilityZone or AvailabilityZoneId.")
	}
	z, ok := in.cloud.offers.zone(name + id)
	if !ok {
		return z, api.Refuse("InvalidParameterValue", "Invalid availability zone: [%s]", name+id)
	}
	return z, nil
}

// endDate reads the end of a new reservation, zero for none.
func (in *call) endDate() (time.Time, error) {
	text := in.Form.Get("EndDate")
	kind := cmp.Or(in.Form.Get("EndDateType"), map[bool]string{true: "unlimited", false: "limited"}[text == ""])
	if (kind == "limited") != (text != "") || kind != "limited" && kind != "unlimited" {
		return time.Time{}, api.Refuse("InvalidParameterCombination", "EndDateType '%s' does not fit the EndDate '%s'.", kind, text)
	}
	if text == "" {
		return time.Time{}, nil
	}
	end, err := time.Parse(time.RFC3339, text)
	if err != nil || !end.After(in.Now) {
		return end, api.Refuse("InvalidParameterValue", "EndDate '%s' is no time in the future.", text)
	}
	return end, nil
}

// cancelReservation ends a reservation; what runs in it goes on.
func cancelReservation(in *call) (any, error) {
	r, err := in.activeReservation()
	switch {
	case err != nil:
		return nil, err
	case in.Dry:
		return nil, api.ErrDryRun()
	}
	r.cancelled = true
	return []query.Element{query.Bool("return", true)}, nil
}

// activeReservation finds the reservation that the request names.
func (in *call) activeReservation() (*Reservation, error) {
	id := in.Form.Get("CapacityReservationId")
	n := slices.IndexFunc(in.st.reservations, func(r *Reservation) bool { return r.ID == id })
	if n < 0 {
		return nil, api.Refuse("InvalidCapacityReservationId.NotFound", "The capacity reservation ID '%s' does not exist", id)
	}
	r := in.st.reservations[n]
	if state := r.state(in.Now); state != "active" {
		return nil, api.Refuse("InvalidCapacityReservationState", "The capacity reservation %s is %s.", id, state)
	}
	return r, nil
}

// allocateInterruptible lends unused capacity of a reservation to one that its
// owner may take back: its instances are interrupted then.
func allocateInterruptible(in *call) (any, error) {
	source, err := in.activeReservation()
	if err != nil {
		return nil, err
	}
	n, err := in.positive("InstanceCount")
	if err != nil {
		return nil, err
	}
	tags, err := tagsOnly(in.Form, "capacity-reservation")
	if err != nil {
		return nil, err
	}
	token := in.Form.Get("ClientToken")
	switch {
	case token != "" && slices.ContainsFunc(in.st.reservations, func(r *Reservation) bool { return r.token == token }): // a repeated request
		return interruptibleElements(source, n), nil
	case source.Interruptible || source.CapacityBlock || !source.End.IsZero():
		return nil, api.Refuse("InvalidParameterValue", "The capacity reservation %s is interruptible, a capacity block or has an end date.", source.ID)
	case source.Total-in.st.used(source) < n:
		return nil, api.Refuse("InvalidParameterValue", "The capacity reservation %s has only %d instances available.", source.ID, source.Total-in.st.used(source))
	case in.Dry:
		return nil, api.ErrDryRun()
	}
	source.Total -= n
	in.st.reservations = append(in.st.reservations, &Reservation{ID: in.cloud.account.NewID("cr"), Type: source.Type, Zone: source.Zone, Total: n, Interruptible: true,
		Targeted: true, Tags: tags, origin: origin{created: in.Now, token: token, source: source.ID}})
	return interruptibleElements(source, n), nil
}

func interruptibleElements(source *Reservation, n int) []query.Element {
	return []query.Element{query.Text("sourceCapacityReservationId", source.ID), query.Int("targetInstanceCount", n), query.Text("status", "active"), query.Text("interruptionType", "adhoc")}
}

func createPlacementGroup(in *call) (any, error) {
	get := in.Form.Get
	g := &PlacementGroup{Name: get("GroupName"), Strategy: cmp.Or(get("Strategy"), "cluster")}
	var err error
	if g.Tags, err = tagsOnly(in.Form, "placement-group"); err != nil {
		return nil, err
	}
	n, given, err := in.Form.Int("PartitionCount")
	switch {
	case g.Name == "":
		return nil, api.Refuse("MissingParameter", "The request must contain the parameter GroupName.")
	case !slices.Contains([]string{"cluster", "partition", "spread"}, g.Strategy):
		return nil, api.Refuse("InvalidParameterValue", "Value '%s' for strategy is invalid.", g.Strategy)
	case given && (err != nil || g.Strategy != "partition" || n < 1 || n > 7):
		return nil, api.Refuse("InvalidParameterValue", "PartitionCount '%s' is not 1 to 7, or the strategy is not partition.", get("PartitionCount"))
	case cmp.Or(get("SpreadLevel"), "rack") != "rack":
		return nil, api.Refuse("InvalidParameterValue", "SpreadLevel '%s' is not played, only rack.", get("SpreadLevel"))
	case in.st.placementGroup("", g.Name) != nil:
		return nil, api.Refuse("InvalidPlacementGroup.Duplicate", "The Placement Group '%s' already exists.", g.Name)
	case in.Dry:
		return nil, api.ErrDryRun()
	}
	if g.Strategy == "partition" {
		g.Partitions = 2
		if given {
			g.Partitions = n
		}
	}
	g.ID = in.cloud.account.NewID("pg")
	in.st.groups = append(in.st.groups, g)
	return []query.Element{query.Group("placementGroup", in.cloud.groupElements(g)...)}, nil
}

func (c *Cloud) groupElements(g *PlacementGroup) []query.Element {
	nodes := []query.Element{query.Text("groupId", g.ID), query.Text("groupName", g.Name), query.Text("groupArn", c.account.ARN("ec2", "placement-group/"+g.Name)),
		query.Text("state", "available"), query.Text("strategy", g.Strategy), tagSet(g.Tags)}
	switch g.Strategy {
	case "partition":
		nodes = append(nodes, query.Text("partitionCount", strconv.Itoa(g.Partitions)))
	case "spread":
		nodes = append(nodes, query.Text("spreadLevel", "rack"))
	}
	return nodes
}

func deletePlacementGroup(in *call) (any, error) {
	g := in.st.placementGroup("", in.Form.Get("GroupName"))
	switch {
	case g == nil:
		return nil, api.Refuse("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", in.Form.Get("GroupName"))
	case slices.ContainsFunc(in.st.instances, func(i *instance) bool { return i.placement.group == g.ID && i.State != Terminated }):
		return nil, api.Refuse("InvalidPlacementGroup.InUse", "The placement group %s is in use and may not be deleted.", g.Name)
	case in.Dry:
		return nil, api.ErrDryRun()
	}
	in.st.groups = slices.DeleteFunc(in.st.groups, func(o *PlacementGroup) bool { return o == g })
	return []query.Element{query.Bool("return", true)}, nil
}

// reservationTags reads TagSpecifications, as CreateCapacityReservation names
// them.
func reservationTags(f query.Form) (map[string]string, error) {
	return tagsIn(f.Each("TagSpecifications"), "capacity-reservation")
}
