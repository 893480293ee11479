package eks

import (
	"slices"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// update is a change that EKS is, or was, at.
type update struct {
	id, kind, group string // group is a node group's name, "" for the cluster
	token           string // of the request that started it
	params          []updateParam
	created         time.Time
	done            bool
}

type updateParam struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

// running is the update that is not done of the cluster ("") or a node group.
func (svc *Service) running(group string) *update {
	for _, u := range svc.updates {
		if u.group == group && !u.done {
			return u
		}
	}
	return nil
}

func (u *update) response() map[string]any {
	status := "InProgress"
	if u.done {
		status = "Successful"
	}
	return map[string]any{"id": u.id, "status": status, "type": u.kind, "params": u.params, "createdAt": u.created.Unix(), "errors": []any{}}
}

// begin starts an update whose effect comes when it is done.
func (svc *Service) begin(in *api.Call, u *update, effect func()) any {
	u.id, u.created = svc.account.NewUUID(), in.Now
	svc.updates = append(svc.updates, u)
	response := map[string]any{"update": u.response()}
	end := func() {
		u.done = true
		effect()
	}
	if d := svc.account.Delays.Update; d > 0 {
		svc.account.AfterFunc(d, end)
	} else {
		end()
	}
	return response
}

// repeated finds the update that an earlier request of the same token began.
func (svc *Service) repeated(token string) *update {
	for _, u := range svc.updates {
		if token != "" && u.token == token {
			return u
		}
	}
	return nil
}

func (svc *Service) describeUpdate(in *api.Call) (any, error) {
	id, group := in.Segment(3), in.Query.Get("nodegroupName")
	for _, u := range svc.updates {
		if u.id == id && u.group == group {
			return map[string]any{"update": u.response()}, nil
		}
	}
	return nil, noResource("No update found for ID: %s", id)
}

// logSetup is one element of the clusterLogging list.
type logSetup struct {
	Types   []string `json:"types"`
	Enabled bool     `json:"enabled"`
}

// loggingResponse has one element of the types that are on, and one of the others.
func (svc *Service) loggingResponse() map[string]any {
	on, off := logSetup{Types: []string{}, Enabled: true}, logSetup{Types: []string{}}
	for _, t := range logTypes() {
		if slices.Contains(svc.logging, t) {
			on.Types = append(on.Types, t)
		} else {
			off.Types = append(off.Types, t)
		}
	}
	setups := []logSetup{}
	for _, s := range []logSetup{on, off} {
		if len(s.Types) > 0 {
			setups = append(setups, s)
		}
	}
	return map[string]any{"clusterLogging": setups}
}

// updateClusterConfig changes the logging; nothing else of a cluster is
// changed here.
func (svc *Service) updateClusterConfig(in *api.Call) (any, error) {
	var input struct {
		ClientRequestToken string
		Logging            struct{ ClusterLogging []logSetup }
	}
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	if u := svc.repeated(input.ClientRequestToken); u != nil {
		return map[string]any{"update": u.response()}, nil
	}
	if len(input.Logging.ClusterLogging) == 0 {
		return nil, invalid("Nothing to update: no logging config was provided")
	}
	want := slices.Clone(svc.logging)
	named := map[string]bool{}
	for _, s := range input.Logging.ClusterLogging {
		for _, t := range s.Types {
			switch {
			case !slices.Contains(logTypes(), t):
				return nil, invalid("The log type '%s' is not one of %q", t, logTypes())
			case named[t]:
				return nil, invalid("The log type '%s' is given twice", t)
			}
			named[t] = true
			want = slices.DeleteFunc(want, func(have string) bool { return have == t })
			if s.Enabled {
				want = append(want, t)
			}
		}
	}
	slices.Sort(want)
	if k := svc.cluster.Name; svc.running("") != nil {
		return nil, inUse("Cannot LoggingUpdate because cluster %s currently has update %s in progress", k, svc.running("").id)
	}
	if slices.Equal(want, slices.Sorted(slices.Values(svc.logging))) {
		return nil, invalid("No changes needed for the logging config provided")
	}
	u := &update{kind: "LoggingUpdate", token: input.ClientRequestToken,
		params: []updateParam{{"ClusterLogging", asJSON(map[string]any{"clusterLogging": input.Logging.ClusterLogging})}}}
	return svc.begin(in, u, func() { svc.logTo(want, svc.account.Clock.Now()) }), nil
}

// logTo sets the log types that are on. EKS makes the group for what is logged,
// without tags and a retention.
func (svc *Service) logTo(types []string, now time.Time) {
	svc.logging = types
	if len(types) > 0 {
		svc.logs.Ensure("/aws/eks/"+svc.cluster.Name+"/cluster", now)
	}
}
