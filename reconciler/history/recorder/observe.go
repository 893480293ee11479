package recorder

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/history"
)

// maxGap is how long after an observation of a node what was observed is taken to hold. Nodes are observed more often;
// what lies between two observations that are further apart was not observed.
const maxGap = time.Minute

const (
	// maxBacklog is how long before its first observation a NodeClaim is accounted for. It is longer than a cluster is
	// without a leader.
	maxBacklog = time.Hour
	// maxStep is how much is accounted for at once, such as after a step of the clock.
	maxStep = 7 * 24 * time.Hour
)

// maxPods is how many pods a NodeClaim has the names of.
const maxPods = 3

// Observation is what was observed of one NodeClaim at a time.
type Observation struct {
	// NodeClaim has what its object has: names, times, reason and price. What is only accounted for here, such as USD, is
	// not read.
	history.NodeClaim
	// NodeClass is the name of its node class.
	NodeClass string
	// Drifted is when it was found to differ from its NodePool or node class; zero where it does not. DriftReason is
	// Karpenter's reason for it, such as NodePoolDrifted.
	Drifted     metav1.Time
	DriftReason string
	// Advertises is true while the node advertises its GPUs. Requested is the part of them that its pods request, from 0 to 1.
	Advertises bool
	Requested  float64
}

// openNodeClaim is a NodeClaim whose instance is not known to be terminated.
type openNodeClaim struct {
	history.NodeClaim
	// Accounted is until when it is in its own sums and those of the PoolHours.
	Accounted time.Time `json:"accounted"`
	// Terminating is when Karpenter began to terminate the instance; zero while it has not.
	Terminating time.Time `json:"terminating,omitzero"`

	// Unpriced are the seconds that are accounted for without a price.
	Unpriced float64 `json:"unpriced,omitempty"`

	// sample is what was observed last by this process; nil where nothing was.
	sample *gpuSample
}

// gpuSample is what of a node's GPUs is advertised and requested from a time on. A node that is terminating advertises no more
// than what the pods request that still run on it.
type gpuSample struct {
	at                      time.Time
	advertises, terminating bool
	requested               float64
}

// Observe takes in what was observed of NodeClaims at a time. One that is not among them was not observed, which does not
// mean that it is gone: see Gone.
func (s *State) Observe(now time.Time, observed []Observation) {
	s.now = later(s.now, now)
	for i := range observed {
		s.observe(now, &observed[i])
	}
}

func (s *State) observe(now time.Time, o *Observation) {
	if o.Launched.IsZero() {
		return // There is no instance, and nothing is paid for.
	}
	open := s.openOf(o.UID)
	if open == nil {
		return
	}
	if open.merge(o, now, s.omittedBefore) {
		s.changed = true
	}
	s.reprice(open, o)
	s.explain(&open.NodeClaim, o)
	end := now
	if !o.Terminated.IsZero() {
		end = later(earlier(o.Terminated.Time, now), open.Accounted)
	}
	s.account(open, end)
	open.sample = &gpuSample{at: now, advertises: o.Advertises, terminating: !o.Deleted.IsZero(), requested: min(max(o.Requested, 0), 1)}
	if !o.Terminated.IsZero() {
		s.close(open, end, false)
	}
}

// openOf is the open NodeClaim with a UID, which is a new one where there was none. It is nil for one that was terminated.
func (s *State) openOf(uid string) *openNodeClaim {
	if open := s.open[uid]; open != nil {
		return open
	}
	at := slices.IndexFunc(s.closed, func(c history.NodeClaim) bool { return c.UID == uid })
	switch {
	case at >= 0 && !s.closed[at].TerminationUnobserved:
		return nil
	case at >= 0:
		// It was missing from what was read, and is there all the same.
		open := &openNodeClaim{NodeClaim: s.closed[at], Accounted: s.closed[at].Terminated.Time}
		open.mend()
		open.Terminated, open.TerminationUnobserved = metav1.Time{}, false
		s.closed, s.changed = slices.Delete(s.closed, at, at+1), true
		s.open[uid] = open
		return open
	}
	open := &openNodeClaim{}
	s.open[uid], s.changed = open, true
	return open
}

// merge takes over what was observed, and reports whether anything is new that is worth a write. What was known stays
// where nothing is observed any more.
func (n *openNodeClaim) merge(o *Observation, now, omittedBefore time.Time) bool {
	before := n.NodeClaim
	if n.UID == "" {
		n.UID, n.Name, n.Created, n.Accounted = o.UID, o.Name, o.Created, later(o.Launched.Time, omittedBefore)
		if now.Sub(n.Accounted) > maxBacklog {
			n.Accounted = now
		}
		if n.Accounted.After(o.Launched.Time) {
			n.AccountedFrom = metav1.NewTime(n.Accounted)
		}
	}
	for _, field := range []struct {
		to   *string
		from string
	}{
		{&n.Node, o.Node}, {&n.NodePool, o.NodePool}, {&n.InstanceType, o.InstanceType}, {&n.CapacityType, o.CapacityType}, {&n.Zone, o.Zone},
	} {
		if field.from != "" {
			*field.to = field.from
		}
	}
	for _, field := range []struct{ to, from *metav1.Time }{
		{&n.Launched, &o.Launched}, {&n.Registered, &o.Registered}, {&n.Initialized, &o.Initialized}, {&n.Deleted, &o.Deleted},
	} {
		if field.to.IsZero() {
			*field.to = *field.from
		}
	}
	n.mergeCauses(o)
	return before.Launched.IsZero() || before.Deleted.IsZero() && !n.Deleted.IsZero() || before.Reason != n.Reason
}

// mergeCauses takes over GPUs, pods and reason.
func (n *openNodeClaim) mergeCauses(o *Observation) {
	n.GPUs = max(n.GPUs, o.GPUs)
	for _, pod := range o.Pods {
		if len(n.Pods) < maxPods && !slices.Contains(n.Pods, pod) {
			n.Pods = append(slices.Clip(n.Pods), pod)
		}
	}
	if o.Reason != "" && (n.Reason == "" || n.Reason == history.ReasonDeleted) {
		n.Reason, n.Message = o.Reason, o.Message
	}
}

// explain finds the revision whose change had the NodeClaim replaced: the last one that changed its NodePool or node class after
// it was created, and before it was found to differ.
func (s *State) explain(n *history.NodeClaim, o *Observation) {
	if n.Revision != "" {
		return
	}
	switch {
	case !o.Drifted.IsZero():
		objects := map[string][]string{
			"NodePoolDrifted":  {nodePoolPrefix + n.NodePool},
			"NodeClassDrifted": {nodeClassPrefix + o.NodeClass},
		}[o.DriftReason]
		if objects == nil { // Such as of requirements, or of the AMIs that a class selects.
			objects = []string{nodePoolPrefix + n.NodePool, nodeClassPrefix + o.NodeClass}
		}
		n.Revision = s.lastChange(objects, n.Created.Time, o.Drifted.Time)
	case n.Reason == history.ReasonNodePoolDeleted:
		n.Revision = s.lastChange([]string{nodePoolPrefix + n.NodePool}, n.Created.Time, n.Deleted.Time)
	}
	if n.Revision != "" {
		s.changed = true
	}
}

// The names of objects by which nodes drift, up to the object's name.
const (
	nodePoolPrefix  = "NodePool.karpenter.sh/"
	nodeClassPrefix = "EC2NodeClass.karpenter.k8s.aws/"
)

// clockSkew is how much later than what follows from it a change may be recorded: times of conditions have whole seconds, and
// an apply is recorded when it has ended.
const clockSkew = 2 * time.Minute

// lastChange is the revision that changed one of the objects last, between two times.
func (s *State) lastChange(objects []string, from, to time.Time) string {
	var last changedObject
	for _, c := range s.changes {
		if slices.Contains(objects, c.Object) && c.Time.After(from) && !c.Time.After(to.Add(clockSkew)) && c.Time.After(last.Time.Time) {
			last = c
		}
	}
	return last.Revision
}

// Terminating records that the instance of a NodeClaim is about to be terminated. The record must be written before that is
// done: where the process ends in between, and the NodeClaim with it, the next one has the end from here.
func (s *State) Terminating(now time.Time, o Observation) {
	s.observe(now, &o)
	if open := s.open[o.UID]; open != nil && open.Terminating.IsZero() {
		open.Terminating, s.changed = now, true
	}
}

// Gone takes in that there is no NodeClaim with a UID any more, although its termination was not observed.
func (s *State) Gone(uid string) {
	open := s.open[uid]
	if open == nil {
		return
	}
	if !open.Terminating.IsZero() {
		end := later(open.Terminating, open.Accounted)
		s.account(open, end)
		s.close(open, end, false)
		return
	}
	if open.Reason == "" {
		open.Reason = history.ReasonUnknown
	}
	s.close(open, open.Accounted, true)
}

// minBilled is the shortest time that EC2 charges an instance for.
const minBilled = time.Minute

// close moves an open NodeClaim to the closed ones, with what EC2 charges of its first minute whether it ran or not.
func (s *State) close(n *openNodeClaim, end time.Time, atLatest bool) {
	if left := minBilled - end.Sub(n.Launched.Time); left > 0 && left <= minBilled && n.USDPerHour != nil && n.AccountedFrom.IsZero() {
		usd := history.States{Paid: *n.USDPerHour * left.Hours()}
		total, hour := valueOf(n.USD)+usd.Paid, s.hour(n.NodePool, end)
		n.USD, hour.USD = &total, hour.USD.Plus(usd)
		if s.addFunc != nil {
			s.addFunc(n.NodePool, n.CapacityType, history.States{}, usd)
		}
	}
	n.Terminated, n.TerminationUnobserved = metav1.NewTime(end), atLatest
	if n.Deleted.IsZero() {
		n.Deleted = n.Terminated
	}
	if n.Reason == "" {
		n.Reason = history.ReasonDeleted
	}
	delete(s.open, n.UID)
	s.closed, s.changed = latest(append(s.closed, n.NodeClaim), maxClosed), true
}

// account adds the time of an open NodeClaim from where it is accounted for to an end, hour by hour: a week at most.
func (s *State) account(n *openNodeClaim, end time.Time) {
	n.Accounted = later(n.Accounted, end.Add(-maxStep))
	for from := n.Accounted; from.Before(end); {
		to := from.Truncate(time.Hour).Add(time.Hour)
		for _, boundary := range []time.Time{end, n.Initialized.Time} {
			if boundary.After(from) && boundary.Before(to) {
				to = boundary
			}
		}
		s.add(n, from, to)
		from = to
	}
	n.Accounted = later(n.Accounted, end)
}

// add adds the time between two instants of one hour, between which the node was either initialized or not.
func (s *State) add(n *openNodeClaim, from, to time.Time) {
	seconds := to.Sub(from).Seconds()
	gpus := history.States{Paid: seconds * float64(n.GPUs)}
	switch ready := !n.Initialized.IsZero() && !from.Before(n.Initialized.Time); {
	case !ready:
	case n.sample == nil || to.Sub(n.sample.at) > maxGap:
		gpus.Unobserved = gpus.Paid
	case n.sample.advertises || n.sample.terminating:
		gpus.Requested = gpus.Paid * n.sample.requested
		gpus.Allocatable = gpus.Paid
		if n.sample.terminating {
			gpus.Allocatable = gpus.Requested
		}
		gpus.Idle = gpus.Allocatable - gpus.Requested
	}
	n.GPUSeconds = n.GPUSeconds.Plus(gpus)
	hour := s.hour(n.NodePool, from)
	hour.NodeSeconds += seconds
	hour.GPUSeconds = hour.GPUSeconds.Plus(gpus)
	var usd history.States
	if n.USDPerHour == nil {
		hour.UnpricedSeconds += seconds
		n.Unpriced += seconds
	} else {
		perSecond := *n.USDPerHour / time.Hour.Seconds()
		if n.GPUs > 0 {
			usd = gpus.Times(perSecond / float64(n.GPUs))
		}
		usd.Paid = seconds * perSecond
		hour.USD, hour.Approximate = hour.USD.Plus(usd), hour.Approximate || n.PriceBasis.Approximate()
		total := valueOf(n.USD) + usd.Paid
		n.USD = &total
	}
	if s.addFunc != nil {
		s.addFunc(n.NodePool, n.CapacityType, gpus, usd)
	}
}

// hour is the PoolHour of a pool at a time.
func (s *State) hour(pool string, at time.Time) *history.PoolHour {
	key := hourKey{pool, at.UTC().Truncate(time.Hour).Unix()}
	found := s.hours[key]
	if found == nil {
		s.boundHours()
		found = &history.PoolHour{NodePool: pool, Hour: metav1.NewTime(time.Unix(key.hour, 0).UTC())}
		s.hours[key] = found
	}
	return found
}

// boundHours deletes the oldest tenth of the hours where there are as many as may be kept: they could not be archived.
func (s *State) boundHours() {
	if len(s.hours) < maxHours {
		return
	}
	keys := slices.SortedFunc(maps.Keys(s.hours), func(a, b hourKey) int {
		return cmp.Or(cmp.Compare(a.hour, b.hour), strings.Compare(a.pool, b.pool))
	})
	for _, key := range keys[:maxHours/10] {
		delete(s.hours, key)
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// valueOf is a number that may be absent.
func valueOf(number *float64) float64 {
	if number == nil {
		return 0
	}
	return *number
}
