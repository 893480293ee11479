package prove

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/fixture"
	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/scenarios"
	"github.com/poolwright/poolwright/provision/sandbox/trace"
	"github.com/poolwright/poolwright/provision/sandbox/wiretap"
)

// area is the part of the cluster that a request is about: the controller's namespace, that
// of the declared objects, or neither. The namespaces themselves are new in each case.
type area string

const (
	anywhere area = ""
	system   area = "controller"
	apps     area = "declared"
)

// point is a request of a scenario in every fixture of it.
type point struct {
	Wire trace.Wire `json:"wire"`
	Verb string     `json:"verb"`
	Kind string     `json:"kind"`
	Area area       `json:"area,omitempty"`
	// Nth counts changes at a forge, which differ although their verb and kind do not: 2 for
	// the second. It is 0 for the first, and elsewhere.
	Nth int `json:"nth,omitempty"`
	// DryRun is whether the requests are dry runs.
	DryRun bool `json:"dryRun,omitempty"`
}

// whole reports whether the point is all requests of the wire.
func (p point) whole() bool { return p.Verb == "" }

// String is wire, verb, kind and area.
func (p point) String() string {
	if p.whole() {
		return string(p.Wire)
	}
	text := fmt.Sprintf("%s %s %s", p.Wire, trace.VerbText(p.Verb, p.DryRun), p.Kind)
	if p.Area != "" {
		text += " (" + string(p.Area) + ")"
	}
	if p.Nth > 0 {
		text += fmt.Sprintf(" #%d", p.Nth)
	}
	return text
}

// pointOf is the point of a request; false for one of another case's namespaces, which are
// observed by every controller of the cluster.
func pointOf(s *fixture.Fixture, q *trace.Request) (point, bool) {
	p := point{Wire: q.Wire, Verb: q.Verb, Kind: q.Kind, DryRun: q.DryRun}
	switch q.Namespace {
	case s.System:
		p.Area = system
	case s.Apps:
		p.Area = apps
	case "":
	default:
		return p, false
	}
	return p, true
}

// in is the point in a fixture.
func (p point) in(s *fixture.Fixture) wiretap.Point {
	if p.whole() {
		return wiretap.Point{Wire: p.Wire}
	}
	namespace := map[area]string{anywhere: wiretap.NoNamespace, system: s.System, apps: s.Apps}[p.Area]
	return wiretap.Point{Wire: p.Wire, Verb: p.Verb, Kind: p.Kind, Namespace: namespace, DryRun: p.DryRun}
}

// changes reports whether a request of the point changes something.
func (p point) changes() bool {
	q := trace.Request{Wire: p.Wire, Verb: p.Verb, Kind: p.Kind, DryRun: p.DryRun}
	return q.Writes()
}

// faultKind is something that can happen at a point.
type faultKind struct {
	name, summary string
	// at reports whether it can happen there. It is nil where wires are those that it can happen
	// to as a whole.
	at    func(point) bool
	wires []trace.Wire
	// named is set where it can happen only in scenarios that name it, as those with a second
	// replica.
	named bool
	// prepare, if any, is done before the scenario begins.
	prepare func(*fixture.Fixture) error
	// fault is what the tap is armed with right before the scenario acts. It is given its point
	// where it has none.
	fault func(context.Context, *fixture.Fixture) wiretap.Fault
	// then, if any, is what a person does once the scenario has acted.
	then func(context.Context, *fixture.Fixture) error
}

// points are those of the observed ones at which it can happen.
func (f faultKind) points(observed []point) []point {
	if f.at != nil {
		return slices.DeleteFunc(slices.Clone(observed), func(p point) bool { return !f.at(p) })
	}
	var out []point
	for _, wire := range f.wires {
		if slices.ContainsFunc(observed, func(p point) bool { return p.Wire == wire }) {
			out = append(out, point{Wire: wire})
		}
	}
	return out
}

func everywhere(point) bool { return true }

func deletes(p point) bool { return p.Verb == "delete" && !p.DryRun && p.Area == apps }

func deletesPool(p point) bool {
	return p.Verb == "delete" && !p.DryRun && strings.HasPrefix(p.Kind, "nodepools.")
}

// faultKinds are all of them, in the order in which they are run and printed.
func faultKinds() []faultKind {
	return append([]faultKind{
		{name: "kill-before", summary: "the controller is killed; the server never gets the request", at: everywhere,
			fault: func(_ context.Context, s *fixture.Fixture) wiretap.Fault {
				return wiretap.Fault{Do: wiretap.Kill, Call: s.KillSender}
			}},
		{name: "kill-after", summary: "the controller is killed right after the server has carried the request out", at: everywhere,
			fault: func(_ context.Context, s *fixture.Fixture) wiretap.Fault {
				return wiretap.Fault{After: true, Do: wiretap.Kill, Call: s.KillSender}
			}},
		{name: "drop", summary: "the connection breaks; the server never gets the request", at: everywhere,
			fault: func(context.Context, *fixture.Fixture) wiretap.Fault {
				return wiretap.Fault{Do: wiretap.Drop}
			}},
		{name: "lose", summary: "the server carries the request out, and the response is lost", at: point.changes,
			fault: func(context.Context, *fixture.Fixture) wiretap.Fault {
				return wiretap.Fault{After: true, Do: wiretap.Drop}
			}},
		{name: "replace", summary: "right before a deletion arrives, a person puts another object of that name in the place", at: deletes,
			fault: func(ctx context.Context, s *fixture.Fixture) wiretap.Fault {
				return wiretap.Fault{Do: wiretap.Call, Call: func(q trace.Request) { s.ByHand(s.Replace(ctx, q.Object())) }}
			}},
		{name: "keep", summary: "right before a deletion arrives, a person marks the object to be kept", at: deletes,
			fault: func(ctx context.Context, s *fixture.Fixture) wiretap.Fault {
				return wiretap.Fault{Do: wiretap.Call, Call: func(q trace.Request) { s.ByHand(s.Keep(ctx, q.Object())) }}
			}},
		{name: "nodes-arrive", summary: "right before a deletion of a node pool arrives, the pool gets a node", at: deletesPool,
			fault: func(ctx context.Context, s *fixture.Fixture) wiretap.Fault {
				return wiretap.Fault{Do: wiretap.Call, Call: func(q trace.Request) { s.ByHand(s.AddNode(ctx, q.Object())) }}
			},
			then: func(ctx context.Context, s *fixture.Fixture) error { return s.AwaitHold(ctx, "NodePool", "a", "v1") }},
	}, slices.Concat(forgeFaults(), replicaFaults(), environmentFaults(), awsFaults(), machineFaults())...)
}

// proveCase is a scenario with one fault at one point.
type proveCase struct {
	Scenario string `json:"scenario"`
	Fault    string `json:"fault"`
	Point    point  `json:"point"`
}

// String is the name that --run matches.
func (c proveCase) String() string { return fmt.Sprintf("%s/%s/%s", c.Scenario, c.Fault, c.Point) }

// cases are all faults of a scenario at its points.
func cases(c scenarios.Scenario, points []point) []proveCase {
	points = slices.DeleteFunc(slices.Clone(points), func(p point) bool { return c.Wires != nil && !slices.Contains(c.Wires, p.Wire) })
	var out []proveCase
	for _, f := range faultKinds() {
		if !f.isOf(c) {
			continue
		}
		for _, p := range f.points(points) {
			out = append(out, proveCase{c.Name, f.name, p})
		}
	}
	return out
}

// isOf reports whether a scenario is run with the kind of fault.
func (f faultKind) isOf(c scenarios.Scenario) bool {
	if c.Faults != nil {
		return slices.Contains(c.Faults, f.name)
	}
	return !f.named
}

// pointsOf are the distinct points of a stretch of records, in a fixed order.
func pointsOf(s *fixture.Fixture, records []trace.Record) []point {
	count := map[point]int{}
	var out []point
	for _, r := range records {
		if r.Request == nil {
			continue
		}
		p, ok := pointOf(s, r.Request)
		if !ok {
			continue
		}
		if count[p]++; count[p] > 1 {
			if p.Wire != trace.Forge || !p.changes() {
				continue
			}
			p.Nth = count[p]
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b point) int {
		if c := strings.Compare(string(a.Wire), string(b.Wire)); c != 0 {
			return c
		}
		if a.changes() != b.changes() {
			return map[bool]int{true: -1, false: 1}[a.changes()]
		}
		return cmp.Compare(a.String(), b.String())
	})
	return out
}
