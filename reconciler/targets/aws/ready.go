package aws

import (
	"context"
	"time"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/projection"
)

// How often Ready reads: soon at first, since most things are there at once.
const (
	readyPollMin = 200 * time.Millisecond
	readyPollMax = 5 * time.Second
)

// Ready implements target.Waiter: it reads until each thing is there, as desired, and
// AWS is done with it. A thing that may not be read is late at once: waiting brings no
// permission.
func (w *Target) Ready(ctx context.Context, keys []state.Key) (map[state.Key]string, error) {
	m := w.current()
	desired := m.items.Only(keys)
	late := map[state.Key]string{}
	for wait := readyPollMin; desired.Len() > 0; wait = min(2*wait, readyPollMax) {
		o := w.observation(m, desired)
		if !o.readAll(ctx) {
			return w.late(desired, late), nil
		}
		var again []state.Key
		for item := range desired.All() {
			reason, more := o.ready(item)
			delete(late, item.Key)
			if reason != "" {
				late[item.Key] = reason
			}
			if more {
				again = append(again, item.Key)
			}
		}
		desired = desired.Only(again)
		if desired.Len() == 0 || !sleep(ctx, w.cfg.Clock, wait) {
			break
		}
	}
	return late, nil
}

// late makes sure that each thing that is waited for has a reason.
func (w *Target) late(waiting state.Set, reasons map[state.Key]string) map[state.Key]string {
	for item := range waiting.All() {
		if reasons[item.Key] == "" {
			reasons[item.Key] = "AWS has not shown it yet"
		}
	}
	return reasons
}

// ready is what is missing of a thing, and whether to read again.
func (o *observation) ready(item state.Item) (reason string, again bool) {
	live, found := o.live[item.Key]
	switch {
	case live.Err != nil:
		return live.Err.Error(), !awserr.Denied(live.Err)
	case !found || live.Object == nil:
		return "AWS has not shown it yet", true
	case !projection.Satisfied(item, live):
		return "AWS does not show the change yet", true
	case live.Pending != "":
		return live.Pending, true
	}
	return "", false
}
