package recorder

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/history"
)

// document is what is written of a State, or of what was taken out of one.
type document struct {
	Time    time.Time       `json:"time,omitzero"`
	Open    []openNodeClaim `json:"open,omitempty"`
	Changes []changedObject `json:"changes,omitempty"`
	history.History
}

// maxDecoded bounds the bytes of what is read, in case that another wrote it.
const maxDecoded = 64 << 20

// encode compresses documents: those of several calls may follow each other.
func encode(d document) ([]byte, error) {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
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
		var d document
		err := decoder.Decode(&d)
		if err == io.EOF { //nolint:errorlint // A Decoder returns it as it is.
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("decoding the history: %w", err)
		}
		out = append(out, d)
	}
}

// Encode is the State as bytes.
func (s *State) Encode() ([]byte, error) {
	d := document{Time: s.now, Changes: s.changes, History: history.History{
		NodeClaims: s.closed, Applies: s.applies, Drift: s.drift, PullRequests: s.pulls,
	}}
	for _, uid := range s.Open() {
		d.Open = append(d.Open, *s.open[uid])
	}
	for _, h := range s.hours {
		d.PoolHours = append(d.PoolHours, *h)
	}
	sortHours(d.PoolHours)
	return encode(d)
}

// Encoded records that what Encode returned was written.
func (s *State) Encoded() { s.changed = false }

// Decode is the State that Encode returned; without content an empty one.
func Decode(content []byte, added Added) (*State, error) {
	s := NewState(added)
	documents, err := decode(content)
	if err != nil {
		return nil, err
	}
	for _, d := range documents {
		s.now, s.changes = later(s.now, d.Time), d.Changes
		s.closed, s.applies, s.drift, s.pulls = d.NodeClaims, d.Applies, d.Drift, d.PullRequests
		for _, n := range d.Open {
			s.open[n.UID] = &n
		}
		for _, h := range d.PoolHours {
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
				out.Time = metav1.NewTime(d.Time)
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
		out.PullRequests[i].Happened = happened(out, out.PullRequests[i])
	}
	return out, nil
}

func sortHours(hours []history.PoolHour) {
	slices.SortFunc(hours, func(a, b history.PoolHour) int {
		return cmp.Or(a.Hour.Compare(b.Hour.Time), strings.Compare(a.NodePool, b.NodePool))
	})
}

// happened counts the nodes that were replaced or removed for a pull request.
func happened(h history.History, p history.PullRequest) history.NodeChanges {
	var out history.NodeChanges
	for _, n := range h.NodeClaims {
		if p.Commit == "" || n.Terminated.IsZero() || !strings.HasSuffix(n.Revision, p.Commit) {
			continue
		}
		if n.Reason == history.ReasonNodePoolDeleted {
			out.Removed++
		} else {
			out.Replaced++
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
		m.hours.put(hourKey{h.NodePool, h.Hour.Unix()}, h)
	}
}

// unique has the last value of each key.
type unique[K comparable, V any] struct {
	at   map[K]int
	list []V
}

func (u *unique[K, V]) put(key K, value V) {
	if u.at == nil {
		u.at = map[K]int{}
	}
	if at, known := u.at[key]; known {
		u.list[at] = value
		return
	}
	u.at[key] = len(u.list)
	u.list = append(u.list, value)
}

func (u *unique[K, V]) all() []V { return u.list }
