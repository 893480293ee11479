package inventory

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
)

// Save writes the shards that differ from what is stored, and nothing when
// none does.
func (s *Store) Save(ctx context.Context) error {
	s.io.Lock()
	defer s.io.Unlock()
	for attempt := 0; ; attempt++ {
		err := s.save(ctx)
		if err == nil || attempt == 3 || !(apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)) {
			return api.Refused("writing the inventory", err, false)
		}
		// Somebody else wrote or deleted a shard: merge theirs, write again.
		if _, err := s.read(ctx); err != nil {
			return err
		}
		s.mu.Lock()
		s.dirty = true
		s.mu.Unlock()
	}
}

func (s *Store) save(ctx context.Context) error {
	s.mu.Lock()
	if !s.dirty {
		s.mu.Unlock()
		return nil
	}
	s.dirty = false
	records := make([]Record, 0, len(s.records))
	for _, r := range s.records {
		records = append(records, r)
	}
	s.mu.Unlock()
	contents := Encode(records, len(s.shards))
	err := s.write(ctx, contents)
	if err != nil {
		s.mu.Lock()
		s.dirty = true
		s.mu.Unlock()
		return err
	}
	s.incomplete = false
	return nil
}

// write goes from the last shard to the first: when a shard is split, the half
// that moves up is stored before the lower half loses it.
func (s *Store) write(ctx context.Context, contents []string) error {
	for len(s.shards) < len(contents) {
		s.shards = append(s.shards, shard{})
	}
	for n := len(contents) - 1; n >= 0; n-- {
		old := s.shards[n]
		if old.content == contents[n] && old.version != "" {
			continue
		}
		ref := api.Ref{Resource: configMaps, Namespace: s.location.Namespace, Name: s.name(n)}
		object := s.configMap(n, contents[n], old)
		var stored *unstructured.Unstructured
		var err error
		if old.version == "" {
			stored, err = s.client.Create(ctx, ref, object)
		} else {
			stored, err = s.client.Update(ctx, ref, object)
		}
		if err != nil {
			return err
		}
		s.shards[n] = shard{version: stored.GetResourceVersion(), uid: stored.GetUID(), content: contents[n]}
	}
	return nil
}

func (s *Store) configMap(n int, content string, old shard) map[string]any {
	metadata := map[string]any{
		"name": s.name(n), "namespace": s.location.Namespace,
		"labels": map[string]any{Label: s.location.Value, "app.kubernetes.io/managed-by": "poolwright"},
	}
	if old.version != "" {
		metadata["resourceVersion"], metadata["uid"] = old.version, string(old.uid)
	}
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": map[string]any{dataKey: content}}
}

// DeleteAll deletes the ConfigMaps and drops every record; the objects that they named
// stay.
func (s *Store) DeleteAll(ctx context.Context) error {
	s.io.Lock()
	defer s.io.Unlock()
	for n, old := range slices.Backward(s.shards) {
		ref := api.Ref{Resource: configMaps, Namespace: s.location.Namespace, Name: s.name(n)}
		if old.version == "" {
			continue
		}
		if err := s.client.Delete(ctx, ref, old.uid, ""); err != nil && !apierrors.IsNotFound(err) {
			return api.Refused(fmt.Sprintf("deleting the inventory %s", s.name(n)), err, false)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shards, s.incomplete, s.records, s.dirty = nil, false, map[state.Key]Record{}, false
	return nil
}
