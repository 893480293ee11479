package wire

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/simulate"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// change is what a step does, for who foretells what comes of it.
type change struct {
	// before and after are what is declared on both sides.
	before, after state.Set
	changes       []plan.Change
}

// pools are the changes of what nodes are made from. What only a person may change is
// not taken as done; what waits for a confirmation is.
func (c change) pools() []plan.Change {
	return slices.DeleteFunc(slices.Clone(c.changes), func(c plan.Change) bool { return c.Standing() || !c.Provisions() })
}

// foresees reports whether there is anything to foretell: pools change, or workloads.
func (c change) foresees() bool {
	return slices.ContainsFunc(c.changes, func(c plan.Change) bool { return !c.Standing() && (c.Provisions() || works(c.Key)) })
}

// works reports whether pods are made for objects of the kind.
func works(k state.Key) bool {
	switch k.Group {
	case "":
		return k.Kind == "Pod"
	case "apps":
		return k.Kind == "Deployment" || k.Kind == "StatefulSet" || k.Kind == "ReplicaSet" || k.Kind == "DaemonSet"
	case "batch":
		return k.Kind == "Job" || k.Kind == "CronJob"
	}
	return false
}

// foresight tells what a change does to nodes, pods and money; nil where it changes
// nothing of theirs, or where no Cluster says in which region they are. A plan is worth
// showing without it: see saying.
type foresight func(ctx context.Context, c change) (*provision.Forecast, error)

// comparing is what makes a forecast of two fleets: simulate.Compare, in a process of
// its own.
type comparing func(ctx context.Context, settings engine.Settings, before, after provision.Fleet) (provision.Forecast, error)

// forecasting foretells what changes do to the live cluster.
func forecasting(live *stock, compare comparing) foresight {
	return func(ctx context.Context, c change) (*provision.Forecast, error) {
		return foresee(ctx, live, compare, c)
	}
}

// saying is the forecast, or one that says only why there is none.
func saying(told *provision.Forecast, err error) *provision.Forecast {
	if err != nil {
		return untold("What the change does to nodes, pods and money: " + strings.TrimSuffix(err.Error(), ".") + ".")
	}
	return told
}

// untold is a forecast that says only why there is none.
func untold(why string) *provision.Forecast {
	return &provision.Forecast{
		Pools: []provision.Pool{}, Replaced: []provision.Node{}, Drifted: []provision.Node{}, Removed: []provision.Removal{},
		Rollout: provision.Rollout{Assumed: []string{}}, Cost: provision.Cost{Prices: []provision.Price{}},
		Fit:     provision.Fit{Scheduled: []provision.Placement{}, Unscheduled: []provision.Placement{}, Waiting: []provision.Placement{}},
		Unknown: []string{why},
	}
}

// foresee reads the live cluster and compares it with what the changes make of it.
func foresee(ctx context.Context, live *stock, compare comparing, c change) (*provision.Forecast, error) {
	if !c.foresees() {
		return nil, nil
	}
	now, err := readStance(ctx, live.reader)
	if err != nil || now.cluster == nil {
		return nil, err
	}
	settings := EngineSettings(now.cluster.Spec)
	before, err := live.fleet(ctx, provision.Cluster{Region: settings.Region, RelaxMinValues: settings.Scheduling.RelaxMinValues})
	if err != nil {
		return nil, err
	}
	reader, err := simulate.NewReader()
	if err != nil {
		return nil, err
	}
	after, unread := changed(reader, before, c.pools())
	before.Workloads, after.Workloads = nil, nil
	_ = populate(reader, &before, only(c.before, pods)) // what is wrong with it there is nobody's news
	unread = append(unread, populate(reader, &after, only(c.after, pods))...)
	unread = append(unread, employ(reader, &after, c)...)
	told, err := compare(ctx, settings, before, after)
	if err != nil {
		return nil, err
	}
	told.Unknown = append(told.Unknown, unread...)
	return &told, nil
}

// foretelling foretells what two revisions alone say: of pools, and of the pods that
// are declared. want says what they declare with all that it stands for.
func foretelling(want func(context.Context, state.Set) (state.Set, error), compare comparing) foresight {
	return func(ctx context.Context, c change) (*provision.Forecast, error) {
		if !c.foresees() {
			return nil, nil
		}
		return foretell(ctx, want, compare, c)
	}
}

func foretell(ctx context.Context, want func(context.Context, state.Set) (state.Set, error), compare comparing, c change) (*provision.Forecast, error) {
	settings, known := declaredSettings(c)
	if !known {
		return nil, nil
	}
	reader, err := simulate.NewReader()
	if err != nil {
		return nil, err
	}
	var fleets [2]provision.Fleet
	var unread []string // of what is declared after the step
	for i, declared := range []state.Set{c.before, c.after} {
		wanted, err := want(ctx, declared)
		if err != nil {
			return nil, err
		}
		fleets[i] = provision.Fleet{Cluster: provision.Cluster{Region: settings.Region, RelaxMinValues: settings.Scheduling.RelaxMinValues}, Now: time.Now()}
		unread = populate(reader, &fleets[i], wanted)
	}
	told, err := compare(ctx, settings, fleets[0], fleets[1])
	if err != nil {
		return nil, err
	}
	told.Unknown = append(told.Unknown, unread...)
	return &told, nil
}

// declaredSettings are those of the Cluster that the newer side declares, or else the
// older one.
func declaredSettings(c change) (engine.Settings, bool) {
	for _, set := range []state.Set{c.after, c.before} {
		for _, item := range set.Items() {
			var declared v1alpha1.Cluster
			if isCluster(item) && runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &declared) == nil {
				return EngineSettings(declared.Spec), true
			}
		}
	}
	return engine.Settings{}, false
}

// pods tells whether an item is one that pods are made for, or that says what comes
// onto every node or with every pod.
func pods(item state.Item) bool { return works(item.Key) || item.Key.Kind == "RuntimeClass" }

// only are the items of a set that are wanted.
func only(set state.Set, wanted func(state.Item) bool) state.Set {
	return state.NewSet(slices.DeleteFunc(set.Items(), func(i state.Item) bool { return !wanted(i) })...)
}

// unreadable says of which thing it cannot be told what it does.
func unreadable(k state.Key, err error) string {
	return "What " + k.String() + " does to nodes: " + strings.TrimSuffix(err.Error(), ".") + "."
}

// populate adds what is declared to a fleet. One object that cannot be read keeps
// nothing from being told of the others: a sentence says which it is.
func populate(reader *simulate.Reader, fleet *provision.Fleet, declared state.Set) (unread []string) {
	fleet.DaemonSets, fleet.RuntimeClasses = slices.Clone(fleet.DaemonSets), slices.Clone(fleet.RuntimeClasses)
	for _, item := range declared.Items() {
		if err := reader.Add(fleet, item.Object); err != nil {
			unread = append(unread, unreadable(item.Key, err))
		}
	}
	return unread
}
