package ec2

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/offerings"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2query"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// requestedInstances reads InstanceId.N and refuses ids that are no ids or of which
// there is no instance.
func (svc *Service) requestedInstances(in *api.Call) ([]string, error) {
	ids := in.Form.List("InstanceId")
	if err := ec2query.WellFormed("i", ids); err != nil {
		return nil, err
	}
	for _, id := range ids {
		if svc.instance(id) == nil {
			return nil, api.Refuse("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
		}
	}
	if len(ids) > 0 && in.Form.Has("MaxResults") {
		return nil, api.Refuse("InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults")
	}
	return ids, nil
}

func instanceAttributes(vpc string) ec2query.Attributes[*instance] {
	groups := func(i *instance) (out []string) {
		for _, g := range i.groups {
			out = append(out, g.ID)
		}
		return out
	}
	return ec2query.Attributes[*instance]{
		"instance-id":                ec2query.One(func(i *instance) string { return i.ID }),
		"instance-state-name":        ec2query.One(func(i *instance) string { return string(i.State) }),
		"instance-state-code":        ec2query.One(func(i *instance) string { return strconv.Itoa(i.State.code()) }),
		"instance-type":              ec2query.One(func(i *instance) string { return i.Type }),
		"instance-lifecycle":         ec2query.One(func(i *instance) string { return lifecycle(i.CapacityType) }),
		"availability-zone":          ec2query.One(func(i *instance) string { return i.Zone }),
		"availability-zone-id":       ec2query.One(func(i *instance) string { return i.ZoneID }),
		"subnet-id":                  ec2query.One(func(i *instance) string { return i.subnet }),
		"vpc-id":                     ec2query.One(func(*instance) string { return vpc }),
		"image-id":                   ec2query.One(func(i *instance) string { return i.Image }),
		"private-dns-name":           ec2query.One(func(i *instance) string { return i.DNSName }),
		"private-ip-address":         ec2query.One(func(i *instance) string { return i.Address }),
		"spot-instance-request-id":   ec2query.One(func(i *instance) string { return i.spotRequest() }),
		"capacity-reservation-id":    ec2query.One(func(i *instance) string { return i.reservation }),
		"architecture":               ec2query.One(func(i *instance) string { return i.kind.Processor.Architectures[len(i.kind.Processor.Architectures)-1] }),
		"instance.group-id":          groups,
		"network-interface.group-id": groups,
	}
}

func (svc *Service) describeInstances(in *api.Call) (any, error) {
	ids, err := svc.requestedInstances(in)
	if err != nil {
		return nil, err
	}
	found, err := ec2query.Choose(in, svc.instances, instanceAttributes(svc.VPC.ID()), func(i *instance) map[string]string { return i.Tags })
	if err != nil {
		return nil, err
	}
	var rows []api.Row
	disks, nics := svc.ebs.ByInstance(), svc.VPC.ByInstance()
	for _, i := range found {
		if len(ids) == 0 || slices.Contains(ids, i.ID) {
			cards, public := nics(i.ID)
			rows = append(rows, api.NewRow(fmt.Sprintf("%012d", i.number), query.Group("item",
				query.Text("reservationId", "r-"+i.ID[2:]), query.Text("ownerId", svc.account.ID), query.Group("groupSet"),
				query.List("instancesSet", "item", []query.Element{svc.instanceElement(i, disks(i.ID), cards, public)}))))
		}
	}
	return ec2query.Page(in, "reservationSet", rows, 5, 1000)
}

// stopInstances stops all the instances named, or none if one of them cannot be
// stopped.
func (svc *Service) stopInstances(in *api.Call) (any, error) {
	ids, err := svc.requestedInstances(in)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		switch i := svc.instance(id); {
		case i.CapacityType == offerings.Spot:
			return nil, api.Refuse("UnsupportedOperation", "You can't stop the Spot Instance '%s' because it is associated with a one-time Spot Instance request.", id)
		case i.State == ShuttingDown || i.State == Terminated:
			return nil, api.Refuse("IncorrectInstanceState", "This instance '%s' is not in a state from which it can be stopped.", id)
		}
	}
	return svc.changed(in, ids, svc.stop)
}

// changed does something to each instance, and shows its state before and after.
func (svc *Service) changed(in *api.Call, ids []string, do func(*instance)) (any, error) {
	if in.Dry {
		return nil, api.ErrDryRun()
	}
	var rows []query.Element
	for _, id := range ids {
		i := svc.instance(id)
		before := i.State
		do(i)
		rows = append(rows, query.Group("item", query.Text("instanceId", id), stateElement("currentState", i.State), stateElement("previousState", before)))
	}
	return []query.Element{query.List("instancesSet", "item", rows)}, nil
}

// terminateInstances ends all the instances named, or none if one of the ids
// is wrong.
func (svc *Service) terminateInstances(in *api.Call) (any, error) {
	ids, err := svc.requestedInstances(in)
	if err != nil {
		return nil, err
	}
	return svc.changed(in, ids, func(i *instance) { svc.terminate(i, userInitiated) })
}

// InReservation counts the living instances in a reservation.
func (svc *Service) InReservation(id string) int {
	n := 0
	for _, i := range svc.instances {
		if i.reservation == id && i.State.alive() {
			n++
		}
	}
	return n
}

// InPlacementGroup has the partition of each instance in a group that has not
// ended.
func (svc *Service) InPlacementGroup(id string) []string {
	var out []string
	for _, i := range svc.instances {
		if i.placement.group == id && i.State != Terminated {
			out = append(out, i.placement.partition)
		}
	}
	return out
}
