package pluginlife_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/pluginlife"
)

var (
	morning = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	timing  = pluginlife.Timing{Start: time.Second, Retry: 30 * time.Second, BackOff: 10 * time.Second, Restart: 100 * time.Millisecond}
)

// fixture is a plugin on a machine with four GPUs, each in ten shares.
type fixture struct {
	t       *testing.T
	life    *pluginlife.Life
	now     time.Time
	crashes int
	missing int
	failure *pluginlife.Failure
	starts  int
}

func newFixture(t *testing.T, timing pluginlife.Timing) *fixture {
	return &fixture{t: t, life: pluginlife.Begin(timing, morning), now: morning}
}

// until lets time pass up to a moment after the start, stepping whenever the life
// asks for it.
func (p *fixture) until(after time.Duration) {
	p.t.Helper()
	end := morning.Add(after)
	for range 10_000 {
		next, due := p.life.Step(p.now, pluginlife.Facts{Missing: p.missing, Crashes: p.crashes, Start: func() (pluginlife.Advertised, *pluginlife.Failure) {
			p.starts++
			return pluginlife.Advertised{GPUs: 4 - p.missing, PerGPU: map[string]int{"nvidia.com/gpu": 10}}, p.failure
		}})
		if !due || next.After(end) {
			p.now = end
			return
		}
		if next.Before(p.now) {
			next = p.now // what is overdue is done at once
		}
		p.now = next
	}
	p.t.Fatal("it never comes to rest")
}

// is compares what it serves and its container's state.
func (p *fixture) is(why, want string) {
	p.t.Helper()
	p.until(p.now.Sub(morning))
	got := "nothing"
	if offer, healthy, ok := p.life.Offer(); ok {
		each := offer.PerGPU["nvidia.com/gpu"]
		got = fmt.Sprintf("%d/%d", healthy*each, offer.GPUs*each)
	}
	c := p.life.Container()
	got += []string{", running", ", exited", ", backing off " + c.Wait.String()}[c.State] + fmt.Sprintf(", restarts %d", c.Restarts)
	if got != want {
		p.t.Errorf("%s (after %s): got %q, want %q", why, p.now.Sub(morning), got, want)
	}
}

func (p *fixture) at(after time.Duration, why, want string) {
	p.t.Helper()
	p.until(after)
	p.is(why, want)
}

var broken = pluginlife.Failure{Why: "no driver", Code: 1, Log: "no libnvidia-ml.so.1", Daemon: true}

func TestAPluginThatCannotStartIsStartedAgainLessAndLessOften(t *testing.T) {
	p := newFixture(t, timing)
	p.failure = &broken
	p.at(900*time.Millisecond, "it starts", "nothing, running, restarts 0")
	p.at(time.Second, "it ends", "nothing, exited, restarts 0")
	p.at(1100*time.Millisecond, "the first restart does not wait", "nothing, running, restarts 1")
	p.at(2100*time.Millisecond, "the second does", "nothing, backing off 10s, restarts 1")
	p.at(12*time.Second, "still", "nothing, backing off 10s, restarts 1")
	p.at(12100*time.Millisecond, "it runs for a moment, and looks ready", "nothing, running, restarts 2")
	p.at(14*time.Second, "and longer", "nothing, backing off 20s, restarts 2")
	p.at(time.Hour, "to no more than five minutes", "nothing, backing off 5m0s, restarts 16")
	last := p.life.Container().Last
	if last.Code != 1 || last.Log != broken.Log || !last.Daemon || last.Finished.Sub(last.Started) != time.Second {
		t.Errorf("its last end: %+v", last)
	}
	if p.life.Complaint() != "no driver" {
		t.Errorf("it complains of %q", p.life.Complaint())
	}
	p.failure = nil
	p.at(time.Hour+5*time.Minute+time.Second, "the cause is gone: the next restart serves", "40/40, running, restarts 17")
	if p.life.Complaint() != "" {
		t.Errorf("it serves and complains of %q", p.life.Complaint())
	}
	p.failure = &broken
	p.at(2*time.Hour, "it does not ask again while it serves", "40/40, running, restarts 17")
	p.crashes = 1
	p.is("after ten quiet minutes", "nothing, exited, restarts 17")
	p.at(2*time.Hour+1100*time.Millisecond, "the back-off began anew", "nothing, backing off 10s, restarts 18")
}

func TestACrashTakesTheDevicesAndBringsThemBack(t *testing.T) {
	p := newFixture(t, timing)
	p.crashes = 2
	p.at(1999*time.Millisecond, "it registers", "40/40, running, restarts 0")
	p.at(2*time.Second, "it crashes a moment later", "nothing, exited, restarts 0")
	p.at(3100*time.Millisecond, "it registers again", "40/40, running, restarts 1")
	p.at(4100*time.Millisecond, "it crashes a second time", "nothing, backing off 10s, restarts 1")
	p.at(time.Minute, "and no more", "40/40, running, restarts 2")
	if texts := p.life.Container().Last.Log; !strings.HasPrefix(texts, "panic") || strings.Contains(texts, "config") {
		t.Errorf("log tail %q", texts)
	}
	p.crashes = 0
	p.is("the fault goes", "40/40, running, restarts 2")
	p.crashes = 1
	p.is("another comes", "nothing, backing off 20s, restarts 2")
	p.crashes = -1
	p.at(5*time.Minute, "it stays", "nothing, backing off 2m40s, restarts 5")
}

func TestAGPUThatFellOffTheBusStaysUnhealthyUntilTheNextStart(t *testing.T) {
	p := newFixture(t, timing)
	p.at(time.Minute, "all are there", "40/40, running, restarts 0")
	p.missing = 1
	p.is("one is gone", "30/40, running, restarts 0")
	p.missing = 3
	p.is("two more are", "10/40, running, restarts 0")
	p.missing = 0
	p.is("nothing makes them healthy", "10/40, running, restarts 0")
	p.missing, p.crashes = 1, 1
	p.is("but a restart", "nothing, exited, restarts 0")
	p.at(62*time.Second, "which lists what there is", "30/30, running, restarts 1")
	p.missing = 0
	p.is("and notices no GPU that comes back", "30/30, running, restarts 1")
	p.missing = 2
	p.is("only one that goes", "20/30, running, restarts 1")
}

func TestAPluginWaitsForItsDaemonAndForNothingElse(t *testing.T) {
	p := newFixture(t, timing)
	p.failure = &pluginlife.Failure{Then: pluginlife.Retries, Why: "no daemon"}
	p.at(time.Second, "it runs on without devices", "nothing, running, restarts 0")
	p.failure = nil
	p.at(30*time.Second, "a daemon is not noticed", "nothing, running, restarts 0")
	p.at(31*time.Second, "before it tries again", "40/40, running, restarts 0")

	p = newFixture(t, timing)
	p.failure = &pluginlife.Failure{Then: pluginlife.Idles, Why: "no GPU"}
	p.at(time.Second, "it waits for ever", "nothing, running, restarts 0")
	p.failure = nil
	p.at(time.Hour, "for ever", "nothing, running, restarts 0")
	if p.starts != 1 {
		t.Errorf("it looked for devices %d times", p.starts)
	}
	p.life.Reload(p.now)
	p.at(time.Hour+time.Second, "or for the config manager's signal", "40/40, running, restarts 0")

	p = newFixture(t, timing)
	p.failure = &pluginlife.Failure{Then: pluginlife.Unknown}
	p.at(3*time.Second, "what could not be found out is no failure", "nothing, running, restarts 0")
	if p.life.Complaint() != "" {
		t.Errorf("it complains of %q", p.life.Complaint())
	}
	p.failure = nil
	p.at(3300*time.Millisecond, "and is asked again", "40/40, running, restarts 0")
}

func TestANewConfigurationIsReadByARunningPluginOnly(t *testing.T) {
	p := newFixture(t, timing)
	p.until(time.Minute)
	p.life.Reload(p.now)
	p.is("it stops serving", "nothing, running, restarts 0")
	p.failure = &broken
	p.at(61*time.Second, "a refused one ends it", "nothing, exited, restarts 0")
	p.life.Reload(p.now)
	p.is("a signal reaches no container that ended", "nothing, exited, restarts 0")
}

func TestAContainerThatIsNeverRestartedStaysEnded(t *testing.T) {
	never := timing
	never.Never = true
	p := newFixture(t, never)
	p.failure = &broken
	p.at(time.Second, "it ends", "nothing, exited, restarts 0")
	p.failure = nil
	p.at(time.Hour, "for good", "nothing, exited, restarts 0")
}

func TestWithoutDelaysAPluginStillMakesProgress(t *testing.T) {
	p := newFixture(t, pluginlife.Timing{})
	p.failure = &broken
	_, due := p.life.Step(morning, pluginlife.Facts{Start: func() (pluginlife.Advertised, *pluginlife.Failure) { return pluginlife.Advertised{}, &broken }})
	if c := p.life.Container(); !due || c.State != pluginlife.Exited {
		t.Errorf("after the first step: %+v", c)
	}
	p.failure = nil
	p.is("it recovers at once", "40/40, running, restarts 1")
}
