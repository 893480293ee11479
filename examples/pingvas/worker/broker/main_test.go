package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// get returns the body of a response of 200.
func get(t *testing.T, method, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s, %v: %s", method, url, response.Status, err, body)
	}
	return string(body)
}

func TestJobsAreCreatedExportedAndListed(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	web := httptest.NewServer((&broker{redis: client, queues: []string{"queue:pro", "queue:free"}}).handler())
	t.Cleanup(web.Close)
	get(t, http.MethodPost, web.URL+"/jobs?queue=queue:pro&count=2&steps=7")
	if err := client.LMove(t.Context(), "queue:pro", "unacked:a", "RIGHT", "LEFT").Err(); err != nil {
		t.Fatal(err)
	}
	server.HSet("job:1", "checkpoint", "3", "executed", "4", "worker", "a")

	metrics := get(t, http.MethodGet, web.URL+"/metrics")
	for _, want := range []string{"celery_queue_length{queue_name=\"queue:pro\"} 1\n", "celery_queue_length{queue_name=\"queue:free\"} 0\n"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the exporter has no %q:\n%s", want, metrics)
		}
	}
	var got []Job
	if err := json.Unmarshal([]byte(get(t, http.MethodGet, web.URL+"/jobs")), &got); err != nil {
		t.Fatal(err)
	}
	want := []Job{
		{ID: "1", List: "unacked:a", Queue: "queue:pro", Steps: 7, Checkpoint: 3, Executed: 4, Worker: "a"},
		{ID: "2", List: "queue:pro", Queue: "queue:pro", Steps: 7},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestAJobOfNoQueueIsRefused(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer((&broker{queues: []string{"queue:pro"}}).handler())
	t.Cleanup(web.Close)
	for _, query := range []string{"queue=queue:other&count=1&steps=1", "queue=queue:pro&count=x&steps=1", "queue=queue:pro&count=1"} {
		response, err := http.Post(web.URL+"/jobs?"+query, "", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s got %s", query, response.Status)
		}
	}
}
