package eks

import (
	"maps"
	"slices"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// addon is an EKS add-on that is installed.
type addon struct {
	name, version, uuid string
	created             time.Time
	tags                map[string]string
}

func newAddons(account *api.Account, cluster Cluster) map[string]*addon {
	out := map[string]*addon{}
	for _, name := range slices.Sorted(maps.Keys(cluster.Addons)) {
		out[name] = &addon{name: name, version: cluster.Addons[name], uuid: account.NewUUID(), created: account.Clock.Now(), tags: map[string]string{}}
	}
	return out
}

func (svc *Service) addonARN(a *addon) string { return svc.arn("addon", "/"+a.name+"/"+a.uuid) }

func (svc *Service) listAddons(in *api.Call) (any, error) {
	var rows []row
	for name := range svc.addons {
		rows = append(rows, row{name, name})
	}
	return page(in, "addons", rows)
}

func (svc *Service) describeAddon(in *api.Call) (any, error) {
	a := svc.addons[in.Segment(3)]
	if a == nil {
		return nil, noResource("No addon: %s found in cluster: %s", in.Segment(3), svc.cluster.Name)
	}
	return map[string]any{"addon": map[string]any{
		"addonName": a.name, "clusterName": svc.cluster.Name, "status": "ACTIVE", "addonVersion": a.version, "addonArn": svc.addonARN(a),
		"health": map[string]any{"issues": []any{}}, "createdAt": a.created.Unix(), "modifiedAt": a.created.Unix(), "tags": maps.Clone(a.tags),
	}}, nil
}
