package main

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// fixture is a Redis with jobs.
type fixture struct {
	*testing.T
	server *miniredis.Miniredis
	redis  *redis.Client
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	return fixture{t, server, client}
}

// jobs puts jobs of so many steps into a queue.
func (f fixture) jobs(queue string, steps int, ids ...string) {
	f.Helper()
	for _, id := range ids {
		f.server.HSet(jobPrefix+id, jobQueue, queue, jobSteps, strconv.Itoa(steps))
		if _, err := f.server.Lpush(queue, id); err != nil {
			f.Fatal(err)
		}
	}
}

// list is what a list has, nil for none.
func (f fixture) list(key string) []string {
	f.Helper()
	if !f.server.Exists(key) {
		return nil
	}
	ids, err := f.server.List(key)
	if err != nil {
		f.Fatal(err)
	}
	return ids
}

func (f fixture) hasList(key string, want ...string) {
	f.Helper()
	if got := f.list(key); !slices.Equal(got, want) {
		f.Errorf("%s has %v, want %v", key, got, want)
	}
}

func (f fixture) hasFields(id, checkpoint, executed string) {
	f.Helper()
	got := [2]string{f.server.HGet(jobPrefix+id, jobCheckpoint), f.server.HGet(jobPrefix+id, jobExecuted)}
	if want := [2]string{checkpoint, executed}; got != want {
		f.Errorf("job %s has checkpoint and executed %v, want %v", id, got, want)
	}
}

// worker is one whose steps take no time, and that is terminated, or killed, in its nth wait. No n ends it where no job is left.
func (f fixture) worker(name string, n int, queues ...string) (w *worker, ctx context.Context) {
	ctx, cancel := context.WithCancel(f.Context())
	f.Cleanup(cancel)
	waits := 0
	return &worker{redis: f.redis, name: name, queues: queues, lease: defaultLease, step: time.Second, wait: func(_ context.Context, d time.Duration) {
		waits++
		if waits == n || n == 0 && d == idle {
			cancel()
		}
	}}, ctx
}

// runs has a worker run until it is terminated.
func (f fixture) runs(name string, n int, queues ...string) {
	f.Helper()
	w, ctx := f.worker(name, n, queues...)
	if err := w.run(ctx); err != nil {
		f.Fatal(err)
	}
}

func TestAWorkerThatIsTerminatedSavesACheckpointAndGivesItsJobBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.jobs("queue:pro", 5, "1", "2")
	f.runs("a", 4, "queue:pro")
	f.hasList(unacked + "a")
	f.hasList("queue:pro", "2", "1") // The right end is taken first.
	f.hasFields("1", "3", "3")

	f.runs("b", 0, "queue:pro")
	f.hasList(finished, "1", "2")
	f.hasList("queue:pro")
	// No step was executed twice.
	f.hasFields("1", "5", "5")
	f.hasFields("2", "5", "5")
}

func TestAWorkerThatIsTerminatedBeforeItTakesAJobTakesNone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.jobs("queue:pro", 5, "1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w, _ := f.worker("a", 0, "queue:pro")
	if err := w.run(ctx); err != nil {
		t.Fatal(err)
	}
	f.hasList("queue:pro", "1")
}

// A request that is cancelled may have been carried out: the job would be in the list of a worker that has ended.
func TestATerminationDuringTheRequestForAJobLosesNone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.jobs("queue:pro", 5, "1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w, _ := f.worker("a", 0, "queue:pro")
	taken, err := w.take(ctx)
	if err != nil || taken == nil {
		t.Fatalf("got %v, %v", taken, err)
	}
	if err := w.execute(ctx, taken); err != nil {
		t.Fatal(err)
	}
	f.hasList("queue:pro", "1")
	f.hasList(unacked + "a")
}

func TestQueuesAreServedInTheirOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.jobs("queue:free", 1, "1")
	f.jobs("queue:pro", 1, "2", "3")
	f.runs("a", 0, "queue:pro", "queue:starter", "queue:free")
	f.hasList(finished, "2", "3", "1")
}

func TestAContainerThatIsStartedAgainInItsPodGoesOnWithItsJob(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.jobs("queue:pro", 5, "1")
	w, ctx := f.worker("a", 0, "queue:pro")
	if taken, err := w.take(ctx); err != nil || taken == nil {
		t.Fatalf("got %v, %v", taken, err)
	}
	f.runs("a", 0, "queue:free")
	f.hasList(finished, "1")
}

func TestTheJobOfAWorkerThatWasKilledGoesBackWhenItsLeaseIsOver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.jobs("queue:pro", 5, "1")
	killed, ctx := f.worker("a", 0, "queue:pro")
	if err := killed.renew(ctx); err != nil {
		t.Fatal(err)
	}
	if taken, err := killed.take(ctx); err != nil || taken == nil {
		t.Fatalf("got %v, %v", taken, err)
	}

	f.runs("b", 0, "queue:pro")
	f.hasList(unacked+"a", "1") // Its lease is not over.

	f.server.FastForward(defaultLease + time.Second)
	f.runs("b", 3, "queue:pro") // One wait when it found none, and two of the job.
	f.hasList(unacked + "a")
	f.hasList("queue:pro", "1")
	f.hasFields("1", "1", "1")
}

func TestAJobThatAnotherWorkerHasNowIsNotFinishedTwice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.jobs("queue:pro", 2, "1")
	slow, ctx := f.worker("a", 0, "queue:pro")
	taken, err := slow.take(ctx) // Without a lease.
	if err != nil || taken == nil {
		t.Fatalf("got %v, %v", taken, err)
	}
	f.runs("b", 4, "queue:pro") // It reclaims the job, waits, and finishes it.
	f.hasList(finished, "1")
	if err := slow.execute(ctx, taken); err != nil {
		t.Fatal(err)
	}
	f.hasList(finished, "1")
	f.hasList("queue:pro")
}

// b executes the job after a's lease was over. a is slow, not killed.
func TestAWorkerWhoseJobWasReclaimedExecutesNoFurtherStepOfIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.jobs("queue:pro", 5, "1")
	slow, ctx := f.worker("a", 0, "queue:pro")
	taken, err := slow.take(ctx) // Without a lease.
	if err != nil || taken == nil {
		t.Fatalf("got %v, %v", taken, err)
	}
	f.runs("b", 3, "queue:pro") // It reclaims the job, executes a step, and is terminated.
	if err := slow.execute(ctx, taken); err != nil {
		t.Fatal(err)
	}
	f.hasFields("1", "1", "1")
	f.hasList("queue:pro", "1")
	if got := f.server.HGet(jobPrefix+"1", jobWorker); got != "b" {
		t.Errorf("the last step was executed by %q", got)
	}
}

func TestAJobThatCannotBeExecutedEndsNoWorker(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		// job puts the job 1 where a worker finds it.
		job func(fixture) error
	}{
		{name: "it is in a queue, and its hash is gone", job: func(f fixture) error {
			_, err := f.server.Lpush("queue:pro", "1")
			return err
		}},
		{name: "it is in a queue, and its steps are no number", job: func(f fixture) error {
			f.server.HSet(jobPrefix+"1", jobQueue, "queue:pro", jobSteps, "many")
			_, err := f.server.Lpush("queue:pro", "1")
			return err
		}},
		{name: "it is a killed worker's, and its hash is gone", job: func(f fixture) error {
			_, err := f.server.Lpush(unacked+"killed", "1")
			return err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			if err := test.job(f); err != nil {
				t.Fatal(err)
			}
			f.jobs("queue:pro", 2, "2")
			f.runs("a", 0, "queue:pro")
			f.hasList(finished, "2")
			f.hasList(failed, "1")
			f.hasList(unacked + "a")
			f.hasList(unacked + "killed")
		})
	}
}

func TestTheEnvironmentOfThePodDescribesTheWorker(t *testing.T) {
	t.Parallel()
	valid := map[string]string{"CELERY_BROKER": "redis://redis-sentinel:26379/0", "CELERY_QUEUES": "queue:pro,queue:free", "HOSTNAME": "ai-worker-0"}
	for _, test := range []struct {
		name       string
		key, value string
		fails      bool
		lease      time.Duration
	}{
		{name: "a pod of the example", lease: defaultLease},
		{name: "steps of a minute, with a lease of three", key: "STEP", value: "1m", lease: 3 * time.Minute},
		{name: "no broker", key: "CELERY_BROKER", fails: true},
		{name: "no queue", key: "CELERY_QUEUES", fails: true},
		{name: "no name", key: "HOSTNAME", fails: true},
		{name: "a step that is no duration", key: "STEP", value: "soon", fails: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w, err := fromEnvironment(func(key string) string {
				if key == test.key {
					return test.value
				}
				return valid[key]
			})
			if test.fails {
				if err == nil {
					t.Error("it was accepted")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = w.redis.Close() })
			if w.lease != test.lease || w.name != "ai-worker-0" || !slices.Equal(w.queues, []string{"queue:pro", "queue:free"}) || w.redis.Options().Addr != "redis-sentinel:26379" {
				t.Errorf("got %+v at %s", w, w.redis.Options().Addr)
			}
		})
	}
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wait(ctx, time.Hour)
	wait(t.Context(), 0)
}
