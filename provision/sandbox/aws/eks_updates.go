package aws

import (
	"slices"
	"time"
)

// update is a change that EKS is, or was, at.
type update struct {
	id, kind, group string // group is a node group's name, "" for the cluster
	token           string // of the request that asked for it
	params          []updateParam
	created         time.Time
	done            bool
}

type updateParam struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

// running is the update that is not done of the cluster ("") or a node group.
func (k control) running(group string) *update {
	for _, u := range k.updates {
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
func (in *call) begin(u *update, effect func(*state)) any {
	u.id, u.created = in.cloud.account.NewUUID(), in.Now
	in.st.eks.updates = append(in.st.eks.updates, u)
	answer := map[string]any{"update": u.response()}
	end := func() {
		u.done = true
		effect(in.cloud.st)
	}
	if d := in.cloud.account.Delays.Update; d > 0 {
		in.cloud.account.AfterFunc(d, end)
	} else {
		end()
	}
	return answer
}

// repeated finds the update that an earlier request of the same token began.
func (in *call) repeated(token string) *update {
	for _, u := range in.st.eks.updates {
		if token != "" && u.token == token {
			return u
		}
	}
	return nil
}

func describeUpdate(in *call) (any, error) {
	id, group := in.Segment(3), in.Query.Get("nodegroupName")
	for _, u := range in.st.eks.updates {
		if u.id == id && u.group == group {
			return map[string]any{"update": u.response()}, nil
		}
	}
	return nil, noResource("No update found for ID: %s", id)
}

// logTypes are the control plane's, in the order in which EKS shows them.
func logTypes() []string {
	return []string{"api", "audit", "authenticator", "controllerManager", "scheduler"}
}

// logSetup is one element of the clusterLogging list.
type logSetup struct {
	Types   []string `json:"types"`
	Enabled bool     `json:"enabled"`
}

// loggingResponse has one element of the types that are on, and one of the others.
func (k control) loggingResponse() map[string]any {
	on, off := logSetup{Types: []string{}, Enabled: true}, logSetup{Types: []string{}}
	for _, t := range logTypes() {
		if slices.Contains(k.logging, t) {
			on.Types = append(on.Types, t)
		} else {
			off.Types = append(off.Types, t)
		}
	}
	shown := []logSetup{}
	for _, s := range []logSetup{on, off} {
		if len(s.Types) > 0 {
			shown = append(shown, s)
		}
	}
	return map[string]any{"clusterLogging": shown}
}

// updateClusterConfig changes the logging; nothing else of a cluster is
// changed here.
func updateClusterConfig(in *call) (any, error) {
	var ask struct {
		ClientRequestToken string
		Logging            struct{ ClusterLogging []logSetup }
	}
	if err := in.Into(&ask); err != nil {
		return nil, err
	}
	if u := in.repeated(ask.ClientRequestToken); u != nil {
		return map[string]any{"update": u.response()}, nil
	}
	if len(ask.Logging.ClusterLogging) == 0 {
		return nil, invalid("Nothing to update: no logging config was provided")
	}
	want := slices.Clone(in.st.eks.logging)
	named := map[string]bool{}
	for _, s := range ask.Logging.ClusterLogging {
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
	if k := in.st.cluster.Name; in.st.eks.running("") != nil {
		return nil, inUse("Cannot LoggingUpdate because cluster %s currently has update %s in progress", k, in.st.eks.running("").id)
	}
	if slices.Equal(want, slices.Sorted(slices.Values(in.st.eks.logging))) {
		return nil, invalid("No changes needed for the logging config provided")
	}
	u := &update{kind: "LoggingUpdate", token: ask.ClientRequestToken,
		params: []updateParam{{"ClusterLogging", asJSON(map[string]any{"clusterLogging": ask.Logging.ClusterLogging})}}}
	return in.begin(u, func(st *state) { st.logTo(want, in.cloud.account.Clock.Now()) }), nil
}

// logTo sets the log types that are on. EKS makes the group for what is logged,
// without tags and a retention.
func (st *state) logTo(types []string, now time.Time) {
	st.eks.logging = types
	if len(types) > 0 {
		st.logs.Ensure("/aws/eks/"+st.cluster.Name+"/cluster", now)
	}
}
