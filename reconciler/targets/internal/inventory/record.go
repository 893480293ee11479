// Package inventory records, over restarts, which objects are ours and how we left
// them: in memory, and in ConfigMaps that are split before they can outgrow etcd's
// limit.
//
// It refuses to lose or invent anything: a shard that cannot be read is
// reported and never read as "nothing is ours", and names are written before
// the objects that they name. Start reading at Store.
package inventory

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/targets/internal/fields"
)

// Record is what is known of one object. A Record without UID is an intent:
// the object may have been created, or not. Its JSON form is without Key and Version, which a
// line has in their place.
type Record struct {
	// Key names the object.
	Key state.Key `json:"-"`
	// Version is the API version in which it was applied ("v1").
	Version string `json:"-"`
	// Fingerprint is how we left it.
	fields.Fingerprint
	// Desired is the hash of what Git declared when we last applied it.
	Desired string `json:"desired,omitempty"`
	// FromLabel is true for an object that is identified only by its label, because the
	// inventory that recorded it is gone.
	FromLabel bool `json:"rebuilt,omitempty"`
	// Scope is what else the target needs to find the thing again; empty in a cluster.
	Scope string `json:"scope,omitempty"`
	// Wave, Policy and Reserved are what the deletion of the object needs of a
	// declaration that is gone: its place in the order of work, what was to
	// become of it, and whether only an operator may write it. All are zero in
	// a cluster.
	Wave     int    `json:"wave,omitempty"`
	Policy   string `json:"policy,omitempty"`
	Reserved bool   `json:"reserved,omitempty"`
	// Allowed is how far the deletion of this incarnation was allowed when it was
	// about to be sent; nil where it never was. It took the place of "leaving", a mark without any
	// data that earlier releases wrote, also for deletions that were never sent: it allows nothing.
	Allowed *loss.Approval `json:"allowed,omitempty"`
}

// line is a Record as it is stored.
type line struct {
	subject
	Record
}

// subject names the object. Its target is that of the inventory.
type subject struct {
	Group     string `json:"group,omitempty"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// document is one shard's content.
type document[R any] struct {
	Format int `json:"format"`
	// Shards is how many shards there were when this one was written: the
	// last of them could be missing, which cannot be found by their names alone.
	Shards  int `json:"shards"`
	Records []R `json:"records"`
}

// format is the version of the stored form.
const format = 1

// limit is the size in bytes above which a shard is split; etcd refuses
// objects of 1.5 MiB, and a shard is also read and written whole.
const limit = 400 << 10

// Encode writes records as shards, as many as a power of two, each record in the shard
// that its key alone decides. atLeast keeps a number of shards that was reached before,
// so that one object more or less does not move all the others.
func Encode(records []Record, atLeast int) []string {
	sorted := slices.Clone(records)
	slices.SortFunc(sorted, func(a, b Record) int { return a.Key.Compare(b.Key) })
	lines := make([]json.RawMessage, len(sorted))
	sums := make([]uint64, len(sorted))
	for i, r := range sorted {
		lines[i], sums[i] = encode(line{subjectOf(r), r}), sum(r.Key)
	}
	n := max(1, atLeast)
	for n < maxShards && largest(sums, lines, n) > limit {
		n *= 2
	}
	docs := make([]document[json.RawMessage], n)
	for i := range docs {
		docs[i] = document[json.RawMessage]{Format: format, Shards: n, Records: []json.RawMessage{}}
	}
	for i := range lines {
		d := &docs[sums[i]%uint64(n)]
		d.Records = append(d.Records, lines[i])
	}
	out := make([]string, n)
	for i, d := range docs {
		out[i] = string(encode(d))
	}
	return out
}

// maxShards is enough for more objects than a cluster can hold.
const maxShards = 1 << 12

// largest is about how many bytes the largest of n shards would have.
func largest(sums []uint64, lines []json.RawMessage, n int) int {
	sizes := make([]int, n)
	for i := range lines {
		sizes[sums[i]%uint64(n)] += len(lines[i]) + 1
	}
	return slices.Max(sizes) + 64
}

func subjectOf(r Record) subject {
	return subject{Group: r.Key.Group, Version: r.Version, Kind: r.Key.Kind, Namespace: r.Key.Namespace, Name: r.Key.Name}
}

// encode marshals what always can be: strings, numbers, and what was
// marshalled before.
func encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return b
}

// sum decides a record's shard: it is sum modulo the number of shards, so that
// going from n to 2n a record stays or moves up by n.
func sum(k state.Key) uint64 {
	h := fnv.New64a()
	for _, part := range []string{k.Group, k.Kind, k.Namespace, k.Name} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	s := h.Sum64()
	return s ^ s>>32 // The low bits alone of FNV are weak.
}

// Decode reads one shard, and how many there were when it was written.
// Anything that it cannot read completely is an error.
func Decode(targetName, text string) (records []Record, shards int, err error) {
	var d document[line]
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return nil, 0, fmt.Errorf("reading inventory: %w", err)
	}
	if d.Format != format {
		return nil, 0, &FormatError{Format: d.Format}
	}
	if d.Shards < 0 || d.Shards > maxShards {
		return nil, 0, fmt.Errorf("reading inventory: there cannot be %d shards", d.Shards)
	}
	out := make([]Record, 0, len(d.Records))
	for i, l := range d.Records {
		of, r := l.subject, l.Record
		if of.Kind == "" || of.Name == "" || of.Version == "" {
			return nil, 0, fmt.Errorf("reading inventory: record %d has no kind, version or name", i)
		}
		r.Key, r.Version = state.Key{Target: targetName, Group: of.Group, Kind: of.Kind, Namespace: of.Namespace, Name: of.Name}, of.Version
		out = append(out, r)
	}
	return out, d.Shards, nil
}

// FormatError reports that a newer Poolwright wrote the inventory.
type FormatError struct{ Format int }

// Error names the format.
func (e *FormatError) Error() string {
	return fmt.Sprintf("reading inventory: format %d was written by another release; this one reads %d: run that release again, or delete the inventory's ConfigMaps to rebuild it from labels", e.Format, format)
}
