package inventory

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
)

// Label marks the ConfigMaps of an inventory with the Sync's label value.
const Label = "poolwright.dev/inventory"

// dataKey is the ConfigMaps' only key.
const dataKey = "records.json"

// Location is where an inventory is stored.
type Location struct {
	// Target is put into the records' keys.
	Target string
	// Namespace holds the ConfigMaps.
	Namespace string
	// Prefix starts their names, "-<n>" ends them.
	Prefix string
	// Value is the value of Label.
	Value string
	// ReadOnly is true for who never writes the inventory: memory then holds what
	// the ConfigMaps name, and nothing else.
	ReadOnly bool
}

// TruncateName cuts a name to at most n characters, keeping it unique by a hash, for
// where names end up in others: of ConfigMaps, in labels.
func TruncateName(name string, n int) string {
	if len(name) <= n {
		return name
	}
	return name[:n-9] + "-" + state.Hash(name)[:8]
}

// Store is one inventory: the records in memory and their ConfigMaps. It is
// safe for concurrent use; Load and Save exclude each other.
type Store struct {
	client   *api.Client
	location Location

	io     sync.Mutex // held while loading or saving
	shards []shard
	// incomplete reports that a shard was missing or unreadable, and nothing has been
	// written since: whoever was informed may have failed to search by labels.
	incomplete bool

	mu      sync.RWMutex
	records map[state.Key]Record
	// sorted are the keys of records in their order; nil where one came or went since.
	sorted []state.Key
	dirty  bool
}

// shard is one ConfigMap as it was last read.
type shard struct {
	version string
	uid     types.UID
	content string
}

// NewStore makes an empty Store; Load fills it.
func NewStore(client *api.Client, place Location) *Store {
	return &Store{client: client, location: place, records: map[state.Key]Record{}}
}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// Load reads the ConfigMaps and merges what they name into memory. Complete is
// false when there are none, one is missing or one cannot be read: then there
// may be objects of ours that only their labels identify.
func (s *Store) Load(ctx context.Context) (complete bool, err error) {
	s.io.Lock()
	defer s.io.Unlock()
	if s.unmoved(ctx) {
		return !s.incomplete, nil
	}
	return s.read(ctx)
}

// unmoved reports whether the ConfigMaps are certainly as they were last read,
// by their metadata alone.
func (s *Store) unmoved(ctx context.Context) bool {
	if len(s.shards) == 0 && !s.incomplete {
		return false // They were never read.
	}
	count, unmoved := 0, true
	err := s.client.Names(ctx, s.all(), s.selector(), "", func(o *metav1.PartialObjectMetadata) {
		if n, ok := s.number(o.Name); ok {
			count++
			unmoved = unmoved && n < len(s.shards) && s.shards[n].version == o.ResourceVersion
		}
	})
	return err == nil && unmoved && count == len(s.shards)
}

func (s *Store) all() api.Ref     { return api.Ref{Resource: configMaps, Namespace: s.location.Namespace} }
func (s *Store) selector() string { return Label + "=" + s.location.Value }

func (s *Store) read(ctx context.Context) (complete bool, err error) {
	found := map[int]shard{}
	_, err = s.client.List(ctx, s.all(), s.selector(), func(o *unstructured.Unstructured) {
		if n, ok := s.number(o.GetName()); ok {
			content, _, _ := unstructured.NestedString(o.Object, "data", dataKey)
			found[n] = shard{version: o.GetResourceVersion(), uid: o.GetUID(), content: content}
		}
	})
	if err != nil {
		return false, api.Refused("reading the inventory", err, false)
	}
	return s.adopt(found)
}

// adopt takes over what was found.
func (s *Store) adopt(found map[int]shard) (complete bool, err error) {
	size, base := len(s.shards), s.observed()
	complete = true
	if s.location.ReadOnly {
		s.mu.Lock()
		clear(s.records)
		s.sorted = nil
		s.mu.Unlock()
	}
	for n, sh := range found {
		size = max(size, n+1)
		if n < len(s.shards) && s.shards[n].version == sh.version && !s.location.ReadOnly {
			continue // It has been read.
		}
		records, of, err := Decode(s.location.Target, sh.content)
		if _, foreign := errors.AsType[*FormatError](err); foreign {
			return false, state.Fail(state.Stalled, "InventoryFormat", err)
		}
		complete = complete && err == nil
		size = max(size, of)
		s.merge(records, base)
	}
	shards := make([]shard, size)
	for n, sh := range found {
		shards[n] = sh
	}
	complete = complete && !s.incomplete && size > 0 && len(found) == size
	s.incomplete = !complete
	if !complete {
		s.mu.Lock()
		s.dirty = s.dirty || len(s.records) > 0
		s.mu.Unlock()
	}
	s.shards = shards
	return complete, nil
}

// merge takes over what the ConfigMaps have and memory does not: records that it does
// not have, and those that somebody else has written since memory and ConfigMaps were
// the same, such as bootstrap beside a running controller. Where both have changed one,
// memory counts, for it is about to be written.
func (s *Store) merge(records []Record, base map[state.Key]Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range records {
		old, known := s.records[r.Key]
		was, stored := base[r.Key]
		if !known || (old.Fingerprint.UID == "" && r.Fingerprint.UID != "") || (stored && same(old, was) && !same(r, was)) {
			s.insert(r)
		}
	}
}

// insert keeps a record. The lock is held.
func (s *Store) insert(r Record) {
	if _, known := s.records[r.Key]; !known {
		s.sorted = nil
	}
	s.records[r.Key] = r
}

// same reports whether two records would be stored alike, but for the Generation: a
// restart need not have the newest.
func same(a, b Record) bool {
	a.Fingerprint.ResourceVersion, b.Fingerprint.ResourceVersion = "", ""
	a.Fingerprint.Generation, b.Fingerprint.Generation = 0, 0
	allowed := a.Allowed.Equal(b.Allowed)
	a.Allowed, b.Allowed = nil, nil
	return allowed && a == b
}

// observed are the records of the shards as they were last read.
func (s *Store) observed() map[state.Key]Record {
	out := map[state.Key]Record{}
	for _, sh := range s.shards {
		records, _, err := Decode(s.location.Target, sh.content)
		if err != nil {
			continue // It was never taken over.
		}
		for _, r := range records {
			out[r.Key] = r
		}
	}
	return out
}

func (s *Store) name(n int) string { return s.location.Prefix + "-" + strconv.Itoa(n) }

func (s *Store) number(name string) (int, bool) {
	rest, ok := strings.CutPrefix(name, s.location.Prefix+"-")
	n, err := strconv.Atoi(rest)
	return n, ok && err == nil && n >= 0 && n < maxShards && strconv.Itoa(n) == rest
}

// reserved are the names of all Syncs' inventories, of whichever target.
var reserved = regexp.MustCompile(`-inventory(-[a-z]+)?-[0-9]+$`)

// Reserved reports whether an object in the namespace of inventories is, or would be
// read as, a part of any Sync's: who could write one could make of a guarded deletion
// one that was allowed before.
func Reserved(namespace string, k state.Key, labels map[string]any) bool {
	_, labelled := labels[Label]
	return k.Kind == "ConfigMap" && k.Group == "" && k.Namespace == namespace && (labelled || reserved.MatchString(k.Name))
}

// Get returns what is known of one object.
func (s *Store) Get(k state.Key) (Record, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	r, ok := s.records[k]
	return r, ok
}

// Put keeps a record. What a restart would not need does not make the ConfigMaps stale.
// A store that is ReadOnly takes no record of what is new.
func (s *Store) Put(r Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.records[r.Key]
	if s.location.ReadOnly && !known {
		return
	}
	s.insert(r)
	if !known || !same(old, r) {
		s.dirty = true
	}
}

// Remove drops a record. A store that is ReadOnly keeps it.
func (s *Store) Remove(k state.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.records[k]; known && !s.location.ReadOnly {
		delete(s.records, k)
		s.sorted, s.dirty = nil, true
	}
}

// RevokeApprovals drops how far the deletion of things was allowed that are desired again, or whose
// deletion was given up: when one is to be deleted again, that is another deletion, whether
// or not anything was written to it.
func (s *Store) RevokeApprovals(no func(state.Key) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, r := range s.records {
		if r.Allowed != nil && no(k) {
			r.Allowed = nil
			s.records[k], s.dirty = r, true
		}
	}
}

// Deleting loads the store, and lists the keys whose deletion was allowed and has not ended.
func (s *Store) Deleting(ctx context.Context) ([]state.Key, error) {
	if _, err := s.Load(ctx); err != nil {
		return nil, err
	}
	var out []state.Key
	for _, r := range s.Records() {
		if r.Allowed != nil {
			out = append(out, r.Key)
		}
	}
	return out, nil
}

// Records lists everything that is known, sorted by key.
func (s *Store) Records() []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sorted == nil {
		s.sorted = slices.SortedFunc(maps.Keys(s.records), state.Key.Compare)
	}
	out := make([]Record, len(s.sorted))
	for i, k := range s.sorted {
		out[i] = s.records[k]
	}
	return out
}

// Current counts the records of a kind in a version, and those of them that name the version of the
// object that was observed last: those that were read from the ConfigMaps do not.
func (s *Store) Current(group, kind, version string) (current, all int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for k, r := range s.records {
		if k.Group != group || k.Kind != kind || r.Version != version {
			continue
		}
		all++
		if r.Fingerprint.ResourceVersion != "" {
			current++
		}
	}
	return current, all
}
