package notification

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	eventv1 "github.com/fluxcd/pkg/apis/event/v1"
)

// The results of an event, as the metric has them. A duplicate is one that the receiver has had within the last minutes.
const (
	sent      = "sent"
	duplicate = "duplicate"
	failed    = "failed"
)

// Start sends what is queued until ctx ends; what is left then is dropped, since a process that ends must not wait. It
// implements manager.Runnable.
func (n *Notifier) Start(ctx context.Context) error {
	defer n.sender.CloseIdleConnections()
	reachable := true
	for {
		select {
		case <-ctx.Done():
			return nil
		case event := <-n.queue:
			result, err := n.deliver(ctx, event)
			if ctx.Err() != nil {
				return nil
			}
			n.results.WithLabelValues(result).Inc()
			if err != nil && reachable { // Once for each outage.
				n.log.Error(err, "Sending an event failed; further failures are counted by poolwright_notifications_total", "sync", event.InvolvedObject.Name, "reason", event.Reason)
			}
			if err == nil && !reachable {
				n.log.Info("Events are sent again")
			}
			reachable = err == nil
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: only a leader has events, and its last ones should be sent.
func (n *Notifier) NeedLeaderElection() bool { return false }

// deliver sends an event, again where another attempt can help.
func (n *Notifier) deliver(ctx context.Context, event eventv1.Event) (result string, err error) {
	body, err := json.Marshal(event)
	if err != nil {
		return failed, fmt.Errorf("writing an event: %w", err)
	}
	for attempt, wait := 1, firstRetry; ; attempt, wait = attempt+1, 2*wait {
		var again bool
		result, again, err = n.sender.post(ctx, n.address, body)
		if !again || attempt == attempts {
			return result, err
		}
		select {
		case <-ctx.Done():
			return result, err
		case <-n.clock.After(wait):
		}
	}
}

// sender makes the requests.
type sender struct{ *http.Client }

// newSender makes one that follows no redirect: the address is what the operator named.
func newSender() sender {
	return sender{&http.Client{
		Timeout:       requestTimeout,
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxConnsPerHost: 1},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// post makes one request, and reports whether another may help.
func (s sender) post(ctx context.Context, address string, body []byte) (result string, again bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return failed, false, withoutAddress(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := s.Do(request)
	if err != nil {
		return failed, true, withoutAddress(err)
	}
	defer response.Body.Close()
	const enough = 4 << 10 // So that the connection can be used again, whatever the receiver writes.
	if _, err := io.CopyN(io.Discard, response.Body, enough); err != nil && !errors.Is(err, io.EOF) {
		return failed, true, withoutAddress(err)
	}
	switch code := response.StatusCode; {
	case code < http.StatusMultipleChoices:
		return sent, false, nil
	case code == http.StatusTooManyRequests:
		return duplicate, false, nil
	default:
		return failed, code >= http.StatusInternalServerError, fmt.Errorf("the receiver of events responded with %s", response.Status)
	}
}

// withoutAddress is an error of package http without the address, whose query may hold a token.
func withoutAddress(err error) error {
	if in, ok := errors.AsType[*url.Error](err); ok {
		err = in.Err
	}
	return fmt.Errorf("sending an event: %w", err)
}
