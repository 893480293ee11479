package ec2

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2query"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// Impair makes a status check of an instance fail from now on: "instance",
// "system" or "ebs"; "" makes all of them pass again. A code of a scheduled
// event, such as "instance-retirement", announces that event, also by AWS
// Health.
func (svc *Service) Impair(id, check string) error {
	i := svc.instance(id)
	if i == nil {
		return fmt.Errorf("impairing instance %q: there is none", id)
	}
	switch {
	case check == "":
		i.health = health{}
	case slices.Contains([]string{"instance", "system", "ebs"}, check):
		next := map[string]time.Time{check: svc.account.Clock.Now()}
		maps.Copy(next, i.health.impaired)
		i.health.impaired = next // a new map: the old one may be in a snapshot
	case isScheduledEvent(check):
		i.health.events = append(slices.Clone(i.health.events), check)
		svc.scheduled(id, check, svc.account.Clock.Now())
	default:
		return fmt.Errorf("impairing instance %s: %q is neither a status check nor a scheduled event", id, check)
	}
	return nil
}

// AnnounceScheduledEvent sends AWS Health's event of a scheduled event, and leaves the instance's status as it is.
func (svc *Service) AnnounceScheduledEvent(id, code string) error {
	switch {
	case svc.instance(id) == nil:
		return fmt.Errorf("announcing a scheduled event of instance %q: there is none", id)
	case !isScheduledEvent(code):
		return fmt.Errorf("announcing a scheduled event of instance %s: %q is none", id, code)
	}
	svc.scheduled(id, code, svc.account.Clock.Now())
	return nil
}

func isScheduledEvent(code string) bool {
	return slices.Contains([]string{"instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"}, code)
}

// element is the summary of one check, with the one test behind it.
func (h health) element(name, check string) query.Element {
	status := "passed"
	since := query.Element{}
	if at, bad := h.impaired[check]; bad {
		status, since = "failed", query.Text("impairedSince", ec2query.Stamp(at))
	}
	return query.Group(name, query.Text("status", h.status(check)),
		query.List("details", "item", []query.Element{query.Group("item", query.Text("name", "reachability"), query.Text("status", status), since)}))
}

func (svc *Service) describeStatus(in *api.Call) (any, error) {
	ids, err := svc.requestedInstances(in)
	if err != nil {
		return nil, err
	}
	all, err := in.Form.Bool("IncludeAllInstances")
	if err != nil {
		return nil, api.Refuse("InvalidParameterValue", "%s", err)
	}
	found, err := ec2query.Choose(in, svc.instances, ec2query.Attributes[*instance]{
		"instance-status.status":     ec2query.One(func(i *instance) string { return i.health.status("instance") }),
		"system-status.status":       ec2query.One(func(i *instance) string { return i.health.status("system") }),
		"attached-ebs-status.status": ec2query.One(func(i *instance) string { return i.health.status("ebs") }),
		"event.code":                 func(i *instance) []string { return i.health.events },
		"instance-state-name":        ec2query.One(func(i *instance) string { return string(i.State) }),
		"availability-zone":          ec2query.One(func(i *instance) string { return i.Zone }),
	}, func(i *instance) map[string]string { return i.Tags })
	if err != nil {
		return nil, err
	}
	var rows []api.Row
	for _, i := range found {
		if len(ids) > 0 && !slices.Contains(ids, i.ID) || !all && i.State != Running {
			continue
		}
		var events []query.Element
		for n, code := range i.health.events {
			events = append(events, query.Group("item", query.Text("instanceEventId", fmt.Sprintf("instance-event-%s%x", i.ID[3:], n)),
				query.Text("code", code), query.Text("description", "A scheduled event of the emulator."), query.Text("notBefore", ec2query.Stamp(in.Now.Add(time.Hour)))))
		}
		rows = append(rows, api.NewRow(fmt.Sprintf("%012d", i.number), query.Group("item",
			query.Text("instanceId", i.ID), query.Text("availabilityZone", i.Zone), query.Text("availabilityZoneId", i.ZoneID),
			query.List("eventsSet", "item", events), stateElement("instanceState", i.State),
			i.health.element("systemStatus", "system"), i.health.element("instanceStatus", "instance"), i.health.element("attachedEbsStatus", "ebs"))))
	}
	return ec2query.Page(in, "instanceStatusSet", rows, 5, 1000)
}
