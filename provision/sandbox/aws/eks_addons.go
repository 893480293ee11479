package aws

import (
	"maps"
	"slices"
	"time"
)

// addon is an EKS add-on that is installed.
type addon struct {
	name, version, uuid string
	created             time.Time
	tags                map[string]string
}

func newAddons(st *state, cfg Config) map[string]*addon {
	out := map[string]*addon{}
	for _, name := range slices.Sorted(maps.Keys(cfg.Cluster.Addons)) {
		out[name] = &addon{name: name, version: cfg.Cluster.Addons[name], uuid: st.account.NewUUID(), created: cfg.Clock.Now(), tags: map[string]string{}}
	}
	return out
}

func (c *Cloud) addonARN(a *addon) string { return c.eksARN("addon", "/"+a.name+"/"+a.uuid) }

func listAddons(in *call) (any, error) {
	var rows []row
	for name := range in.st.eks.addons {
		rows = append(rows, row{name, name})
	}
	return in.eksPage("addons", rows)
}

func describeAddon(in *call) (any, error) {
	a := in.st.eks.addons[in.Segment(3)]
	if a == nil {
		return nil, noResource("No addon: %s found in cluster: %s", in.Segment(3), in.st.cluster.Name)
	}
	return map[string]any{"addon": map[string]any{
		"addonName": a.name, "clusterName": in.st.cluster.Name, "status": "ACTIVE", "addonVersion": a.version, "addonArn": in.cloud.addonARN(a),
		"health": map[string]any{"issues": []any{}}, "createdAt": a.created.Unix(), "modifiedAt": a.created.Unix(), "tags": maps.Clone(a.tags),
	}}, nil
}
