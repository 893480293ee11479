// Command broker is what surrounds the worker, for a machine without Redis: a Redis, an exporter of the length of its queues that
// reads them as any client does, and the service that accepts jobs. All are lost when it ends.
//
//	GET  /metrics                                     celery_queue_length by queue_name, for Prometheus
//	POST /jobs?queue=queue:pro&count=9&steps=30       creates jobs
//	GET  /jobs                                        every job, and the list that it is in
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

func main() {
	address := flag.String("redis", "127.0.0.1:6379", "the `address` of Redis")
	listen := flag.String("listen", "127.0.0.1:9808", "the `address` of the exporter and of the service that accepts jobs")
	queues := flag.String("queues", "queue:pro,queue:starter,queue:free", "the `queues` that are exported, separated by commas")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, *address, *listen, strings.Split(*queues, ",")); err != nil {
		log.Print(err)
	}
}

func run(ctx context.Context, address, listen string, queues []string) error {
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr(address); err != nil {
		return fmt.Errorf("starting Redis: %w", err)
	}
	defer server.Close()
	// Its keys expire by this clock only.
	go func() {
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-tick.C:
				server.FastForward(time.Second)
			case <-ctx.Done():
				return
			}
		}
	}()
	b := &broker{redis: redis.NewClient(&redis.Options{Addr: server.Addr()}), queues: queues}
	web := &http.Server{Addr: listen, Handler: b.handler(), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = web.Close() })
	if err := web.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}

// broker serves what is in Redis.
type broker struct {
	redis  *redis.Client
	queues []string
}

// Job is one as GET /jobs has it.
type Job struct {
	ID string `json:"id"`
	// List is the key of the list that has it, or of more than one, separated by commas; "" if none has.
	List string `json:"list"`
	// Queue, Steps, Checkpoint, Executed and Worker are the fields that the worker documents.
	Queue      string `json:"queue"`
	Steps      int    `json:"steps"`
	Checkpoint int    `json:"checkpoint"`
	Executed   int    `json:"executed"`
	Worker     string `json:"worker"`
}

func (b *broker) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", b.metrics)
	mux.HandleFunc("POST /jobs", b.create)
	mux.HandleFunc("GET /jobs", b.list)
	return mux
}

func (b *broker) metrics(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	fmt.Fprint(w, "# HELP celery_queue_length The number of jobs that wait in a queue.\n# TYPE celery_queue_length gauge\n")
	for _, queue := range b.queues {
		n, err := b.redis.LLen(r.Context(), queue).Result()
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprintf(w, "celery_queue_length{queue_name=%q} %d\n", queue, n)
	}
}

func (b *broker) create(w http.ResponseWriter, r *http.Request) {
	count, err := strconv.Atoi(r.FormValue("count"))
	steps, stepsErr := strconv.Atoi(r.FormValue("steps"))
	if err := errors.Join(err, stepsErr); err != nil || !slices.Contains(b.queues, r.FormValue("queue")) {
		http.Error(w, "count, steps and one of the queues are required", http.StatusBadRequest)
		return
	}
	for range count {
		if err := b.add(r.Context(), r.FormValue("queue"), steps); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
	}
}

// add creates a job, and then puts it into its queue.
func (b *broker) add(ctx context.Context, queue string, steps int) error {
	n, err := b.redis.Incr(ctx, "jobs").Result()
	if err != nil {
		return fmt.Errorf("numbering a job: %w", err)
	}
	id := strconv.FormatInt(n, 10)
	if err := b.redis.HSet(ctx, "job:"+id, "queue", queue, "steps", steps).Err(); err != nil {
		return fmt.Errorf("creating job %s: %w", id, err)
	}
	if err := b.redis.LPush(ctx, queue, id).Err(); err != nil {
		return fmt.Errorf("putting job %s into %s: %w", id, queue, err)
	}
	return nil
}

func (b *broker) list(w http.ResponseWriter, r *http.Request) {
	jobs, err := b.jobs(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(jobs)
}

// read returns every job's fields, and the lists, in one transaction: between two requests a job may move from one list to another.
const read = `
local out = {}
for _, key in ipairs(redis.call('KEYS', 'job:*')) do
  local lists = {}
  for _, list in ipairs(redis.call('KEYS', '*')) do
    if redis.call('TYPE', list).ok == 'list' then
      for _, id in ipairs(redis.call('LRANGE', list, 0, -1)) do
        if 'job:' .. id == key then table.insert(lists, list) end
      end
    end
  end
  table.insert(out, {string.sub(key, 5), table.concat(lists, ','), redis.call('HGETALL', key)})
end
return out`

// jobs are all of them, by id.
func (b *broker) jobs(ctx context.Context) ([]Job, error) {
	rows, err := b.redis.Eval(ctx, read, nil).Slice()
	if err != nil {
		return nil, fmt.Errorf("reading the jobs: %w", err)
	}
	jobs := []Job{}
	for _, row := range rows {
		values, _ := row.([]any)
		if len(values) != 3 {
			return nil, fmt.Errorf("reading the jobs: a row of %d values", len(values))
		}
		fields, _ := values[2].([]any)
		j := Job{ID: fmt.Sprint(values[0]), List: fmt.Sprint(values[1])}
		for i := 0; i+1 < len(fields); i += 2 {
			j.set(fmt.Sprint(fields[i]), fmt.Sprint(fields[i+1]))
		}
		jobs = append(jobs, j)
	}
	slices.SortFunc(jobs, func(x, y Job) int {
		return cmp.Or(cmp.Compare(len(x.ID), len(y.ID)), cmp.Compare(x.ID, y.ID))
	})
	return jobs, nil
}

func (j *Job) set(field, value string) {
	n, _ := strconv.Atoi(value)
	switch field {
	case "queue":
		j.Queue = value
	case "steps":
		j.Steps = n
	case "checkpoint":
		j.Checkpoint = n
	case "executed":
		j.Executed = n
	case "worker":
		j.Worker = value
	}
}
