package wire

import (
	"context"
	"sync"
	"time"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/aws"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
)

// glancing are worlds that are asked about many steps from one base: what was observed a
// moment ago is not observed again.
func glancing(sky, earth targets.Target, at *sighting) []reconciler.World {
	return []reconciler.World{
		{Name: aws.Name, Target: &glance{Target: sky, lasts: time.Minute, sighting: at}},
		{Name: kubernetes.Name, Target: &glance{Target: earth, lasts: 5 * time.Second, sighting: at}},
	}
}

// sighting is when the oldest of what one report tells was looked at.
type sighting struct {
	mu sync.Mutex
	at time.Time
}

// begin starts a new report.
func (s *sighting) begin(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = now
}

// note adds something that was looked at then.
func (s *sighting) note(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.Before(s.at) {
		s.at = at
	}
}

func (s *sighting) oldest() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

// glance remembers for a while what was observed of the same wishes. A hundred pull
// requests into one branch have one base, and most ask for the same of AWS.
type glance struct {
	targets.Target
	lasts time.Duration
	*sighting

	mu   sync.Mutex
	seen map[string]glimpse
}

// maxGlimpses is how many of these are remembered: that of the base, and of what the
// last heads ask for.
const maxGlimpses = 8

type glimpse struct {
	at  time.Time
	set state.Set
}

// Observe implements targets.Target.
func (g *glance) Observe(ctx context.Context, wanted state.Set) (state.Set, error) {
	key, now := state.Hash(wanted.Items()), time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if found, ok := g.seen[key]; ok && now.Sub(found.at) < g.lasts {
		g.note(found.at)
		return found.set, nil
	}
	set, err := g.Target.Observe(ctx, wanted)
	if err != nil {
		return set, err
	}
	fresh := map[string]glimpse{key: {now, set}}
	for k, old := range g.seen {
		if now.Sub(old.at) < g.lasts {
			fresh[k] = old
		}
	}
	for len(fresh) > maxGlimpses {
		oldest := ""
		for k, old := range fresh {
			if oldest == "" || old.at.Before(fresh[oldest].at) {
				oldest = k
			}
		}
		delete(fresh, oldest)
	}
	g.seen = fresh
	return set, nil
}
