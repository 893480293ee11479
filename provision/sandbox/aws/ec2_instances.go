package aws

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// askedInstances reads InstanceId.N and refuses ids that are no ids or of which
// there is no instance.
func (in *call) askedInstances() ([]string, error) {
	ids := in.Form.List("InstanceId")
	if err := wellFormed("i", ids); err != nil {
		return nil, err
	}
	for _, id := range ids {
		if in.st.instance(id) == nil {
			return nil, api.Refuse("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
		}
	}
	if len(ids) > 0 && in.Form.Has("MaxResults") {
		return nil, api.Refuse("InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults")
	}
	return ids, nil
}

func instanceAttributes(vpc string) attributes[*instance] {
	groups := func(i *instance) (out []string) {
		for _, g := range i.groups {
			out = append(out, g.id)
		}
		return out
	}
	return attributes[*instance]{
		"instance-id":                one(func(i *instance) string { return i.ID }),
		"instance-state-name":        one(func(i *instance) string { return string(i.State) }),
		"instance-state-code":        one(func(i *instance) string { return strconv.Itoa(i.State.code()) }),
		"instance-type":              one(func(i *instance) string { return i.Type }),
		"instance-lifecycle":         one(func(i *instance) string { return lifecycle(i.CapacityType) }),
		"availability-zone":          one(func(i *instance) string { return i.Zone }),
		"availability-zone-id":       one(func(i *instance) string { return i.ZoneID }),
		"subnet-id":                  one(func(i *instance) string { return i.subnet }),
		"vpc-id":                     one(func(*instance) string { return vpc }),
		"image-id":                   one(func(i *instance) string { return i.Image }),
		"private-dns-name":           one(func(i *instance) string { return i.DNSName }),
		"private-ip-address":         one(func(i *instance) string { return i.Address }),
		"spot-instance-request-id":   one(func(i *instance) string { return i.spotRequest() }),
		"capacity-reservation-id":    one(func(i *instance) string { return i.reservation }),
		"architecture":               one(func(i *instance) string { return i.kind.Processor.Architectures[len(i.kind.Processor.Architectures)-1] }),
		"instance.group-id":          groups,
		"network-interface.group-id": groups,
	}
}

func describeInstances(in *call) (any, error) {
	ids, err := in.askedInstances()
	if err != nil {
		return nil, err
	}
	found, err := choose(in, in.st.instances, instanceAttributes(in.st.network.vpc), func(i *instance) map[string]string { return i.Tags })
	if err != nil {
		return nil, err
	}
	var rows []api.Row
	attached := in.st.groupByInstance()
	for _, i := range found {
		if len(ids) == 0 || slices.Contains(ids, i.ID) {
			rows = append(rows, api.NewRow(fmt.Sprintf("%012d", i.number), query.Group("item",
				query.Text("reservationId", "r-"+i.ID[2:]), query.Text("ownerId", in.cloud.account.ID), query.Group("groupSet"),
				query.List("instancesSet", "item", []query.Element{in.instanceElement(i, attached[i.ID])}))))
		}
	}
	return in.page("reservationSet", rows, pageLimits{5, 1000})
}

// lifecycle is how DescribeInstances marks what is not plain on demand.
func lifecycle(capacityType string) string {
	switch capacityType {
	case spot, capacityBlock:
		return capacityType
	case reserved:
		return "interruptible-capacity-reservation"
	}
	return ""
}

func (i *instance) spotRequest() string {
	if i.CapacityType != spot {
		return ""
	}
	return "sir-" + i.ID[3:11]
}

// stopInstances stops all the instances named, or none if one of them cannot be
// stopped.
func stopInstances(in *call) (any, error) {
	ids, err := in.askedInstances()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		switch i := in.st.instance(id); {
		case i.CapacityType == spot:
			return nil, api.Refuse("UnsupportedOperation", "You can't stop the Spot Instance '%s' because it is associated with a one-time Spot Instance request.", id)
		case i.State == ShuttingDown || i.State == Terminated:
			return nil, api.Refuse("IncorrectInstanceState", "This instance '%s' is not in a state from which it can be stopped.", id)
		}
	}
	return in.changed(ids, in.cloud.stop)
}

// changed does something to each instance, and shows its state before and after.
func (in *call) changed(ids []string, do func(*instance)) (any, error) {
	if in.Dry {
		return nil, api.ErrDryRun()
	}
	var rows []query.Element
	for _, id := range ids {
		i := in.st.instance(id)
		before := i.State
		do(i)
		rows = append(rows, query.Group("item", query.Text("instanceId", id), stateElement("currentState", i.State), stateElement("previousState", before)))
	}
	return []query.Element{query.List("instancesSet", "item", rows)}, nil
}

// terminateInstances ends all the instances named, or none if one of the ids
// is wrong.
func terminateInstances(in *call) (any, error) {
	ids, err := in.askedInstances()
	if err != nil {
		return nil, err
	}
	return in.changed(ids, func(i *instance) { in.cloud.terminate(i, userEnded) })
}
