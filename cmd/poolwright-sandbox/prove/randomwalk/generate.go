package randomwalk

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/trace"
	"github.com/poolwright/poolwright/provision/sandbox/wiretap"
)

// permanent is declared by every commit: a repository that declares nothing is refused.
const permanent = "ConfigMap/permanent"

// Generator is an endless sequence of operations.
type Generator struct {
	random *rand.Rand
	kills  bool
	// values is how many were drawn, so that none comes twice.
	values int
	// recent are the objects that were edited last: the product leaves one alone that is
	// edited again and again.
	recent []string
	// following are operations that come next, whatever else would be drawn.
	following []Operation
	// left is how many operations there are until the next check.
	left int
}

// NewGenerator returns the sequence of a seed, with or without kills of the controller.
func NewGenerator(seed uint64, kills bool) *Generator {
	g := &Generator{random: rand.New(rand.NewPCG(seed, 0)), kills: kills}
	g.left = g.length()
	return g
}

// keys are the objects that operations are about.
func keys() []string {
	var out []string
	for kind, count := range map[string]int{"ConfigMap": 16, "Secret": 12, "ServiceAccount": 12} {
		for i := range count {
			out = append(out, fmt.Sprintf("%s/o%02d", kind, i))
		}
	}
	slices.Sort(out)
	return out
}

// initial is what the first commit declares.
func initial() map[string]string {
	out := map[string]string{permanent: "v0"}
	for _, key := range keys() {
		out[key] = "v0"
	}
	return out
}

// choice is an action and how often it is drawn, in relation to others.
type choice struct {
	weight int
	draw   func(*Generator) Operation
}

func (g *Generator) choices() []choice {
	plain := func(a Action) func(*Generator) Operation {
		return func(*Generator) Operation { return Operation{Do: a} }
	}
	out := []choice{
		{30, (*Generator).commit},
		{6, plain(Revert)},
		{14, byHand(Edit)},
		{10, byHand(Delete)},
		{4, plain(Suspend)},
		{4, plain(Resume)},
		{8, plain(Reconcile)},
		{24, (*Generator).inject},
	}
	if g.kills {
		out = append(out, choice{4, plain(Kill)}, choice{8, (*Generator).killAt}, choice{8, (*Generator).orphan}, choice{8, plain(Restart)})
	}
	return out
}

// Next returns the next operation.
func (g *Generator) Next() Operation {
	if len(g.following) > 0 {
		o := g.following[0]
		g.following = g.following[1:]
		return o
	}
	if g.left == 0 {
		g.left = g.length()
		return Operation{Do: Check}
	}
	g.left--
	all, total := g.choices(), 0
	for _, c := range all {
		total += c.weight
	}
	n := g.random.IntN(total)
	for _, c := range all {
		if n -= c.weight; n < 0 {
			o := c.draw(g)
			o.Pause = g.pause()
			return o
		}
	}
	return Operation{Do: Check} // not reached: n is less than the total
}

// length is how many operations there are until a check.
func (g *Generator) length() int { return 2 + g.random.IntN(7) }

// pause is none, one within a run, or one as long as the interval.
func (g *Generator) pause() time.Duration {
	longest := []time.Duration{time.Millisecond, 300 * time.Millisecond, interval}[g.random.IntN(3)]
	return time.Duration(g.random.Int64N(longest.Milliseconds())) * time.Millisecond
}

func (g *Generator) commit() Operation {
	o := Operation{Do: Commit, Values: map[string]string{}}
	for range 1 + g.random.IntN(3) {
		g.values++
		value := fmt.Sprintf("v%d", g.values)
		if g.random.IntN(3) == 0 {
			value = ""
		}
		o.Values[pick(g, keys())] = value
	}
	return o
}

// apart is how many other objects are edited before one is edited again.
const apart = 24

// byHand draws an object that a person changes.
func byHand(a Action) func(*Generator) Operation {
	return func(g *Generator) Operation {
		free := slices.DeleteFunc(keys(), func(key string) bool { return slices.Contains(g.recent, key) })
		o := Operation{Do: a, Object: pick(g, free)}
		g.recent = append(g.recent, o.Object)
		g.recent = g.recent[max(0, len(g.recent)-apart):]
		return o
	}
}

// inject draws a fault at requests that the product sends often.
func (g *Generator) inject() Operation {
	f := Fault{At: pick(g, points())}
	switch g.random.IntN(5) {
	case 0:
		f.Do = wiretap.Drop
	case 1:
		f.Do, f.After = wiretap.Drop, true
	case 2:
		f.Do, f.Status = wiretap.Respond, pick(g, statuses(f.At.Wire))
	case 3:
		f.Do, f.Wait = wiretap.Delay, time.Duration(100+g.random.IntN(1900))*time.Millisecond
	case 4:
		f.Do = wiretap.Duplicate
	}
	return Operation{Do: Inject, Fault: &f, Times: 1 + g.random.IntN(3)}
}

// killAt draws a kill at one of the next writes of a point.
func (g *Generator) killAt() Operation {
	f := Fault{At: pick(g, slices.DeleteFunc(points(), func(p wiretap.Point) bool { return !writes(p) })), Do: wiretap.Kill, After: g.random.IntN(2) == 0}
	return Operation{Do: Inject, Fault: &f, Times: 1 + g.random.IntN(4)}
}

// orphan draws a kill at the creation of an object, in a commit that is reverted while no
// process runs: what was applied and is not recorded stays.
func (g *Generator) orphan() Operation {
	o := g.killAt()
	o.Fault.At = pick(g, slices.DeleteFunc(points(), func(p wiretap.Point) bool { return !slices.Contains(declaredKinds(), p.Kind) }))
	o.Times = 1
	g.values++
	kind := map[string]string{"configmaps": "ConfigMap", "secrets": "Secret", "serviceaccounts": "ServiceAccount"}[o.Fault.At.Kind]
	commit := Operation{Do: Commit, Values: map[string]string{fmt.Sprintf("%s/new%d", kind, g.values): fmt.Sprintf("v%d", g.values)}, Pause: 2 * interval}
	g.following = append(g.following, commit, Operation{Do: Revert})
	return o
}

func writes(p wiretap.Point) bool {
	return (&trace.Request{Wire: p.Wire, Verb: p.Verb, Kind: p.Kind, DryRun: p.DryRun}).Writes()
}

// interval is about how often the controller fetches.
const interval = 6 * time.Second

func declaredKinds() []string { return []string{"configmaps", "secrets", "serviceaccounts"} }

// points are where faults are injected.
func points() []wiretap.Point {
	var out []wiretap.Point
	for verb := range strings.FieldsSeq("get list watch create update patch delete") {
		out = append(out, wiretap.Point{Wire: trace.Kubernetes, Verb: verb})
	}
	for _, kind := range append(declaredKinds(), "syncs.poolwright.dev/status") {
		out = append(out, wiretap.Point{Wire: trace.Kubernetes, Verb: "patch", Kind: kind})
	}
	return append(out, wiretap.Point{Wire: trace.Git, Verb: "get"}, wiretap.Point{Wire: trace.Git, Verb: "post"})
}

// statuses are what a server responds that is overloaded, or in the middle of an upgrade.
func statuses(w trace.Wire) []int {
	out := []int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusTooManyRequests}
	if w == trace.Git {
		out = append(out, http.StatusUnauthorized, http.StatusForbidden)
	}
	return out
}

func pick[T any](g *Generator, from []T) T { return from[g.random.IntN(len(from))] }
