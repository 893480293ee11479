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
	dropped   = "dropped"
)

// Start sends what is queued until ctx ends; what is left then is dropped, since a process that ends must not wait. It
// implements manager.Runnable.
func (n *Notifier) Start(ctx context.Context) error {
	defer n.sender.CloseIdleConnections()
	left := 0
	for ctx.Err() == nil {
		event, ok := n.queue.take()
		if !ok {
			select {
			case <-ctx.Done():
			case <-n.queue.arrived:
			}
			continue
		}
		result := n.deliver(ctx, event)
		if result == dropped {
			left++
			continue
		}
		n.results.WithLabelValues(result).Inc()
	}
	if left += n.queue.end(); left > 0 {
		n.results.WithLabelValues(dropped).Add(float64(left))
		n.log.Info("The process ends before all events are sent", "events", left)
	}
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: only a leader has events, and its last ones should be sent.
func (n *Notifier) NeedLeaderElection() bool { return false }

// deliver sends an event, again where another attempt can help and it is not too old. It returns dropped where ctx ends before.
func (n *Notifier) deliver(ctx context.Context, event eventv1.Event) (result string) {
	body, err := json.Marshal(event)
	if err != nil {
		n.log.Error(err, "Writing an event failed", "sync", event.InvolvedObject.Name, "reason", event.Reason)
		return failed
	}
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		result, again, err := n.sender.post(ctx, n.address, body)
		if err != nil && ctx.Err() != nil {
			return dropped
		}
		n.logOutage(event, err)
		if !again || n.clock.Since(event.Timestamp.Time) >= keptFor {
			return result
		}
		select {
		case <-ctx.Done():
			return dropped
		case <-n.clock.After(wait):
		}
	}
}

// logOutage logs the first failure of each outage, and its end.
func (n *Notifier) logOutage(event eventv1.Event, err error) {
	switch {
	case err != nil && !n.outage:
		n.log.Error(err, "Sending an event failed; those that are not sent in the end are counted by poolwright_notifications_total", "sync", event.InvolvedObject.Name, "reason", event.Reason)
	case err == nil && n.outage:
		n.log.Info("Events are sent again")
	}
	n.outage = err != nil
}

// sender makes the requests.
type sender struct{ *http.Client }

// newSender makes one that follows no redirect: the address is what the operator named. A proxy gets nothing in clear: an address of
// a Service with a dot at its end is matched by no NO_PROXY.
func newSender() sender {
	return sender{&http.Client{
		Timeout:       requestTimeout,
		Transport:     &http.Transport{Proxy: proxyForTLS, MaxConnsPerHost: 1},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// proxyForTLS is the proxy of the environment for an https address, to which it only forwards, and none for another.
func proxyForTLS(request *http.Request) (*url.URL, error) {
	if request.URL.Scheme != "https" {
		return nil, nil
	}
	return http.ProxyFromEnvironment(request)
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
