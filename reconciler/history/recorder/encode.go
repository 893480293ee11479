package recorder

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/history"
)

// document is what is written of a State, or of what was taken out of one.
type document struct {
	// Version is that of the format.
	Version int             `json:"version,omitempty"`
	Time    time.Time       `json:"time,omitzero"`
	Open    []openNodeClaim `json:"open,omitempty"`
	Changes []changedObject `json:"changes,omitempty"`
	history.History
}

// formatVersion is the version that is written. A newer one is not read, so that nothing is written over it.
const formatVersion = 1

// MaxBytes is how many bytes a State has at most: a ConfigMap may have 1 MiB.
const MaxBytes = 900 << 10

// maxDecoded bounds the bytes of what is read, in case that another wrote it.
const maxDecoded = 64 << 20

// encode compresses documents: those of several calls may follow each other.
func encode(d document) ([]byte, error) {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	d.Version = formatVersion
	if err := json.NewEncoder(zip).Encode(d); err != nil {
		return nil, fmt.Errorf("encoding the history: %w", err)
	}
	if err := zip.Close(); err != nil {
		return nil, fmt.Errorf("compressing the history: %w", err)
	}
	return out.Bytes(), nil
}

// decode reads the documents that follow each other.
func decode(content []byte) ([]document, error) {
	if len(content) == 0 {
		return nil, nil
	}
	unzip, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("decompressing the history: %w", err)
	}
	var out []document
	decoder := json.NewDecoder(io.LimitReader(unzip, maxDecoded))
	for {
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		var d document
		if err == nil {
			err = d.unmarshal(raw)
		}
		if err != nil {
			return nil, fmt.Errorf("decoding the history: %w", err)
		}
		if d.Version > formatVersion {
			return nil, fmt.Errorf("the history has version %d of a newer release, this one reads up to %d", d.Version, formatVersion)
		}
		out = append(out, d)
	}
}

// unmarshal reads the document, and what earlier releases wrote by another key: terminatedLatest.
func (d *document) unmarshal(raw []byte) error {
	if err := json.Unmarshal(raw, d); err != nil || !bytes.Contains(raw, []byte(`"terminatedLatest"`)) {
		return err
	}
	var former struct {
		NodeClaims []struct {
			TerminatedLatest bool `json:"terminatedLatest"`
		} `json:"nodeClaims"`
	}
	if err := json.Unmarshal(raw, &former); err != nil {
		return err
	}
	for i, n := range former.NodeClaims {
		if n.TerminatedLatest {
			d.NodeClaims[i].TerminationUnobserved = true
		}
	}
	return nil
}

// Encode is the State as bytes: MaxBytes at most. What does not fit is omitted, and stays in the State: of the NodeClaims that run
// those that were created last, of all else what is oldest, which is archived before long.
func (s *State) Encode() ([]byte, error) {
	whole := document{Time: s.now, Changes: s.changes, History: history.History{
		NodeClaims: s.closed, Applies: s.applies, Drift: s.drift, PullRequests: s.pulls,
	}}
	for _, uid := range s.Open() {
		whole.Open = append(whole.Open, s.open[uid].rounded())
	}
	slices.SortStableFunc(whole.Open, func(a, b openNodeClaim) int { return a.Created.Compare(b.Created.Time) })
	for _, h := range s.hours {
		whole.PoolHours = append(whole.PoolHours, *h)
	}
	sortHours(whole.PoolHours)
	d := whole
	for {
		d.Omitted = len(whole.Open) - len(d.Open)
		content, err := encode(d)
		if err != nil || len(content) <= MaxBytes {
			return content, err
		}
		d = d.part(0.95 * MaxBytes / float64(len(content)))
	}
}

// part is a part of the document, from 0 to 1. PoolHours are left whole while there is anything else: they have the sums.
func (d document) part(factor float64) document {
	of := func(n int) int { return int(float64(n) * factor) }
	if len(d.Open)+len(d.NodeClaims)+len(d.Applies)+len(d.Drift)+len(d.PullRequests) == 0 {
		d.PoolHours = latest(d.PoolHours, of(len(d.PoolHours)))
		d.Changes = latest(d.Changes, of(len(d.Changes)))
	}
	d.Open = first(d.Open, of(len(d.Open)))
	d.NodeClaims = latest(d.NodeClaims, of(len(d.NodeClaims)))
	d.Applies, d.Drift = latest(d.Applies, of(len(d.Applies))), latest(d.Drift, of(len(d.Drift)))
	d.PullRequests = latest(d.PullRequests, of(len(d.PullRequests)))
	return d
}

// rounded is the NodeClaim with sums of milliseconds and of millionths of a dollar, which are written in fewer bytes.
func (n *openNodeClaim) rounded() openNodeClaim {
	out := *n
	out.Unpriced, out.GPUSeconds = round(n.Unpriced, 1e3), history.States{
		Paid: round(n.GPUSeconds.Paid, 1e3), Allocatable: round(n.GPUSeconds.Allocatable, 1e3), Requested: round(n.GPUSeconds.Requested, 1e3),
		Idle: round(n.GPUSeconds.Idle, 1e3), Unobserved: round(n.GPUSeconds.Unobserved, 1e3),
	}
	if n.USD != nil {
		usd := round(*n.USD, 1e6)
		out.USD = &usd
	}
	return out
}

func round(n, parts float64) float64 { return math.Round(n*parts) / parts }

// mend completes what somebody else has written, so that it can be accounted for and written again.
func (n *openNodeClaim) mend() {
	if n.USDPerHour != nil && (*n.USDPerHour < 0 || *n.USDPerHour > maxUSDPerHour) {
		n.USDPerHour, n.PriceBasis, n.USD = nil, "", nil
	}
	if n.USDPerHour != nil {
		usd := finite(valueOf(n.USD))
		n.USD = &usd
	}
	n.GPUs = min(max(n.GPUs, 0), maxGPUs)
	n.GPUSeconds, n.Unpriced = finiteStates(n.GPUSeconds), finite(n.Unpriced)
}

const (
	// maxUSDPerHour and maxGPUs are more than any instance has, and maxSum more than what any number of them adds up to.
	maxUSDPerHour, maxGPUs = 1e6, 1e6
	maxSum                 = 1e15
)

// finite is a sum that can be added to.
func finite(n float64) float64 {
	if math.Abs(n) <= maxSum {
		return n
	}
	return 0
}

func finiteStates(s history.States) history.States {
	return history.States{Paid: finite(s.Paid), Allocatable: finite(s.Allocatable), Requested: finite(s.Requested), Idle: finite(s.Idle), Unobserved: finite(s.Unobserved)}
}

// Encoded records that what Encode returned was written.
func (s *State) Encoded() { s.changed = false }

// Decode is the State that Encode returned; without content an empty one.
func Decode(content []byte, add AddFunc) (*State, error) {
	s := NewState(add)
	documents, err := decode(content)
	if err != nil {
		return nil, err
	}
	for _, d := range documents {
		s.now, s.changes = later(s.now, d.Time), d.Changes
		s.closed, s.applies, s.drift, s.pulls = d.NodeClaims, d.Applies, d.Drift, d.PullRequests
		if d.Omitted > 0 {
			s.omittedBefore = d.Time
		}
		for _, n := range d.Open {
			if n.UID == "" {
				continue
			}
			n.mend()
			s.open[n.UID] = &n
		}
		for _, h := range d.PoolHours {
			h.NodeSeconds, h.UnpricedSeconds = finite(h.NodeSeconds), finite(h.UnpricedSeconds)
			h.GPUSeconds, h.USD = finiteStates(h.GPUSeconds), finiteStates(h.USD)
			s.hours[hourKey{h.NodePool, h.Hour.Unix()}] = &h
		}
	}
	return s, nil
}

// Merge is the History of what was written: of archives, the oldest first, and last of a State. What is in several of them
// is taken from the last one: an archive is written before what is in it is taken out of the State.
func Merge(contents ...[]byte) (history.History, error) {
	var out history.History
	var m merged
	for _, content := range contents {
		documents, err := decode(content)
		if err != nil {
			return history.History{}, err
		}
		for _, d := range documents {
			m.add(d)
			if d.Time.After(out.Time.Time) {
				out.Time, out.Omitted = metav1.NewTime(d.Time), d.Omitted
			}
		}
	}
	out.NodeClaims, out.Applies, out.Drift = m.claims.all(), m.applies.all(), m.drift.all()
	out.PullRequests, out.PoolHours = m.pulls.all(), m.hours.all()
	slices.SortStableFunc(out.NodeClaims, func(a, b history.NodeClaim) int {
		return cmp.Or(a.Created.Compare(b.Created.Time), strings.Compare(a.Name, b.Name))
	})
	slices.SortStableFunc(out.Applies, func(a, b history.Apply) int { return a.Time.Compare(b.Time.Time) })
	slices.SortStableFunc(out.Drift, func(a, b history.Drift) int { return a.Time.Compare(b.Time.Time) })
	slices.SortStableFunc(out.PullRequests, func(a, b history.PullRequest) int { return a.Merged.Compare(b.Merged.Time) })
	sortHours(out.PoolHours)
	for i := range out.PullRequests {
		out.PullRequests[i].Actual = actual(out, out.PullRequests[i])
	}
	return out, nil
}

func sortHours(hours []history.PoolHour) {
	slices.SortFunc(hours, func(a, b history.PoolHour) int {
		return cmp.Or(a.Hour.Compare(b.Hour.Time), strings.Compare(a.NodePool, b.NodePool))
	})
}

// actual counts the nodes that were replaced or removed for a pull request.
func actual(h history.History, p history.PullRequest) history.NodeChanges {
	var out history.NodeChanges
	for _, n := range h.NodeClaims {
		if p.Commit == "" || n.Terminated.IsZero() || !strings.HasSuffix(n.Revision, p.Commit) {
			continue
		}
		switch n.Reason {
		case history.ReasonNodePoolDeleted:
			out.Removed++
		case history.ReasonDrifted:
			out.Replaced++
		default: // It drifted, and went because of something else.
		}
	}
	if !p.Applied.IsZero() && !p.RolledOut.IsZero() {
		seconds := p.RolledOut.Sub(p.Applied.Time).Seconds()
		out.Seconds = &seconds
	}
	return out
}

// merged are records without those that occur again later.
type merged struct {
	claims  unique[string, history.NodeClaim]
	applies unique[string, history.Apply]
	drift   unique[string, history.Drift]
	pulls   unique[string, history.PullRequest]
	hours   unique[hourKey, history.PoolHour]
}

func (m *merged) add(d document) {
	for _, n := range d.NodeClaims {
		m.claims.put(n.UID, n)
	}
	for _, n := range d.Open {
		m.claims.put(n.UID, n.NodeClaim)
	}
	for _, a := range d.Applies {
		m.applies.put(fmt.Sprint(a), a)
	}
	for _, o := range d.Drift {
		m.drift.put(fmt.Sprint(o.Sync, "\x00", o.Object, "\x00", o.Time.Unix(), "\x00", o.Fields), o)
	}
	for _, p := range d.PullRequests {
		m.pulls.put(fmt.Sprint(p.Sync, "\x00", p.Number), p)
	}
	for _, h := range d.PoolHours {
		m.hours.putUnless(hourKey{h.NodePool, h.Hour.Unix()}, h, func(was history.PoolHour) bool { return was.NodeSeconds > h.NodeSeconds })
	}
}

// unique has the last value of each key.
type unique[K comparable, V any] struct {
	at   map[K]int
	list []V
}

func (u *unique[K, V]) put(key K, value V) { u.putUnless(key, value, func(V) bool { return false }) }

// putUnless takes a value over, unless the one before is to stay: what is added to an hour long after it is a record of its own,
// and less than the hour.
func (u *unique[K, V]) putUnless(key K, value V, stays func(V) bool) {
	if u.at == nil {
		u.at = map[K]int{}
	}
	if at, known := u.at[key]; known {
		if !stays(u.list[at]) {
			u.list[at] = value
		}
		return
	}
	u.at[key] = len(u.list)
	u.list = append(u.list, value)
}

func (u *unique[K, V]) all() []V { return u.list }
