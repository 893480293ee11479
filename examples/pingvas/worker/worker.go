package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// defaultLease is how long a worker keeps its job after it last renewed its lease.
	defaultLease = 30 * time.Second
	// idle is how long a worker waits that finds no job.
	idle = 500 * time.Millisecond
	// saving bounds the requests that have to be made when ctx is over. A pod has 110 s from SIGTERM to SIGKILL.
	saving = 20 * time.Second
)

// Keys of Redis. A job is in exactly one list: that of its queue, that of the worker that executes it, that of finished jobs, or that of
// those whose hash is missing or malformed, which no worker can execute.
const (
	finished  = "finished"
	failed    = "failed"
	unacked   = "unacked:" // and the name of the worker
	leases    = "worker:"  // and the name of the worker; expires
	jobPrefix = "job:"     // and the job's id: a hash
)

// Fields of a job.
const (
	jobQueue      = "queue"      // where it was created, and is given back to
	jobSteps      = "steps"      // of how many steps it consists
	jobCheckpoint = "checkpoint" // how many of them need not be executed again
	jobExecuted   = "executed"   // how many were executed in all: more than jobSteps where some were repeated
	jobWorker     = "worker"     // which worker executed the last of them
)

// move takes the job ARGV[1] out of the list KEYS[1] and appends it to KEYS[2], where it is the next to be taken. It saves the checkpoint
// ARGV[2] in the hash KEYS[3] unless that is empty. It does nothing, and returns 0, where the job is not in the first list any more.
var move = redis.NewScript(`
if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 0 then return 0 end
if ARGV[2] ~= '' then redis.call('HSET', KEYS[3], 'checkpoint', ARGV[2]) end
redis.call('RPUSH', KEYS[2], ARGV[1])
return 1`)

// count counts an executed step of the job ARGV[1], whose hash is KEYS[2], by the worker ARGV[2]. It does nothing, and returns 0, where
// KEYS[1], the list of that worker, does not have the job any more.
var count = redis.NewScript(`
if redis.call('LINDEX', KEYS[1], 0) ~= ARGV[1] then return 0 end
redis.call('HINCRBY', KEYS[2], 'executed', 1)
redis.call('HSET', KEYS[2], 'worker', ARGV[2])
return 1`)

// worker executes jobs, one at a time.
type worker struct {
	redis *redis.Client
	// name is that of its pod. A container that is started again in the same pod goes on with the job that it had.
	name   string
	queues []string
	lease  time.Duration
	wait   func(context.Context, time.Duration)
	step   time.Duration
}

// takenJob is one that this worker has.
type takenJob struct {
	id, queue         string
	steps, checkpoint int
}

// run executes jobs until ctx ends, and then gives back the one that it has. What must not be half done is requested without regard to ctx.
func (w *worker) run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := w.renew(ctx); err != nil {
			return err
		}
		next, err := w.take(ctx)
		if err != nil {
			return err
		}
		if next == nil {
			if err := w.reclaim(ctx); err != nil {
				return err
			}
			w.wait(ctx, idle)
			continue
		}
		if err := w.execute(ctx, next); err != nil {
			return err
		}
	}
	return nil
}

// unending is a context for requests that are finished even when ctx is over: whether a request that was cancelled was carried out is
// unknown, and a job could stay in the list of a worker that has ended.
func unending(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), saving)
}

// renew has the worker keep its job for another lease.
func (w *worker) renew(ctx context.Context) error {
	ctx, cancel := unending(ctx)
	defer cancel()
	if err := w.redis.Set(ctx, leases+w.name, time.Now().Unix(), w.lease).Err(); err != nil {
		return fmt.Errorf("renewing the lease: %w", err)
	}
	return nil
}

// take returns the job that this worker has already, else the next of the first queue that has one, or nil.
func (w *worker) take(ctx context.Context) (*takenJob, error) {
	ctx, cancel := unending(ctx)
	defer cancel()
	id, err := w.redis.LIndex(ctx, unacked+w.name, 0).Result()
	for _, queue := range w.queues {
		if !errors.Is(err, redis.Nil) {
			break
		}
		id, err = w.redis.LMove(ctx, queue, unacked+w.name, "RIGHT", "LEFT").Result()
	}
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("taking a job: %w", err)
	}
	fields := w.redis.HMGet(ctx, jobPrefix+id, jobQueue, jobSteps, jobCheckpoint)
	if err := fields.Err(); err != nil {
		return nil, fmt.Errorf("reading job %s: %w", id, err)
	}
	var values struct {
		Queue      string `redis:"queue"`
		Steps      int    `redis:"steps"`
		Checkpoint int    `redis:"checkpoint"`
	}
	if err := fields.Scan(&values); err != nil || values.Queue == "" {
		if err := w.fail(ctx, unacked+w.name, id, err); err != nil {
			return nil, err
		}
		return w.take(ctx)
	}
	return &takenJob{id: id, queue: values.Queue, steps: values.Steps, checkpoint: values.Checkpoint}, nil
}

// fail moves a job whose hash is missing, or malformed as why has it, from a list to that of failed ones: it would end every worker that
// takes it.
func (w *worker) fail(ctx context.Context, list, id string, why error) error {
	if err := move.Run(ctx, w.redis, []string{list, failed, jobPrefix + id}, id, "").Err(); err != nil {
		return fmt.Errorf("moving job %s to %s: %w", id, failed, err)
	}
	slog.Error("the job cannot be executed", "job", id, "from", list, "to", failed, "error", why)
	return nil
}

// execute executes the steps of a job that its checkpoint leaves. When ctx ends, it saves the checkpoint and gives the job back. It ends
// without the rest where another worker reclaimed the job after this one's lease was over.
func (w *worker) execute(ctx context.Context, j *takenJob) error {
	slog.Info("executes", "job", j.id, "from", j.checkpoint, "of", j.steps)
	for j.checkpoint < j.steps {
		w.wait(ctx, w.step)
		if ctx.Err() != nil {
			return w.hand(ctx, j, j.queue)
		}
		if ours, err := w.executed(ctx, j); err != nil || !ours {
			return err
		}
	}
	return w.hand(ctx, j, finished)
}

// executed counts a step, and returns whether the job is still this worker's.
func (w *worker) executed(ctx context.Context, j *takenJob) (ours bool, err error) {
	if err := w.renew(ctx); err != nil {
		return false, err
	}
	ctx, cancel := unending(ctx)
	defer cancel()
	counted, err := count.Run(ctx, w.redis, []string{unacked + w.name, jobPrefix + j.id}, j.id, w.name).Int()
	if err != nil {
		return false, fmt.Errorf("counting a step of job %s: %w", j.id, err)
	}
	if counted == 0 {
		slog.Warn("another worker has reclaimed the job", "job", j.id, "after", j.checkpoint, "of", j.steps)
		return false, nil
	}
	j.checkpoint++
	return true, nil
}

// hand moves the job with its checkpoint to the list of finished ones, or back to its queue.
func (w *worker) hand(ctx context.Context, j *takenJob, to string) error {
	ctx, cancel := unending(ctx)
	defer cancel()
	moved, err := move.Run(ctx, w.redis, []string{unacked + w.name, to, jobPrefix + j.id}, j.id, j.checkpoint).Int()
	if err != nil {
		return fmt.Errorf("moving job %s to %s: %w", j.id, to, err)
	}
	slog.Info("moved", "job", j.id, "to", to, "checkpoint", j.checkpoint, "of", j.steps, "was ours", moved == 1)
	return nil
}

// reclaim gives the jobs of workers whose lease is over back to their queues: they were killed before they could.
func (w *worker) reclaim(ctx context.Context) error {
	ctx, cancel := unending(ctx)
	defer cancel()
	lists := w.redis.Scan(ctx, 0, unacked+"*", 0).Iterator()
	for lists.Next(ctx) {
		name := strings.TrimPrefix(lists.Val(), unacked)
		alive, err := w.redis.Exists(ctx, leases+name).Result()
		if err != nil {
			return fmt.Errorf("reading the lease of %s: %w", name, err)
		}
		if alive == 1 {
			continue
		}
		ids, err := w.redis.LRange(ctx, lists.Val(), 0, -1).Result()
		if err != nil {
			return fmt.Errorf("reading the jobs of %s: %w", name, err)
		}
		for _, id := range ids {
			if err := w.giveBack(ctx, lists.Val(), id); err != nil {
				return err
			}
		}
	}
	if err := lists.Err(); err != nil {
		return fmt.Errorf("listing the jobs of other workers: %w", err)
	}
	return nil
}

// giveBack moves a job from the list of another worker to its queue.
func (w *worker) giveBack(ctx context.Context, list, id string) error {
	queue, err := w.redis.HGet(ctx, jobPrefix+id, jobQueue).Result()
	if errors.Is(err, redis.Nil) {
		return w.fail(ctx, list, id, err)
	}
	if err != nil {
		return fmt.Errorf("reading the queue of job %s: %w", id, err)
	}
	if err := move.Run(ctx, w.redis, []string{list, queue, jobPrefix + id}, id, "").Err(); err != nil {
		return fmt.Errorf("giving job %s of %s back: %w", id, list, err)
	}
	slog.Info("reclaimed", "job", id, "of", list)
	return nil
}
