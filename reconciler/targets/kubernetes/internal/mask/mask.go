// Package mask replaces the values of Secrets by digests under a random key of one Sync, so
// that what is compared, planned and shown holds none of them.
//
// It refuses to mask without a key: Load comes first. Start reading at Masker.
package mask

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
)

// Masker replaces the values of Secrets by digests under a random key: equal
// values stay equal, and without the key nothing can be concluded from a digest, not
// even by trying values. The key is kept in a Secret beside the
// inventory, so that the next process can distinguish a changed Secret from a new
// revision. It is safe for concurrent use.
type Masker struct {
	client *api.Client
	ref    api.Ref

	mu     sync.Mutex
	key    []byte
	stored bool
}

var secretsResource = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// New makes a Masker whose key is in the Secret "<prefix>-key" of a namespace. It sends no request.
func New(client *api.Client, namespace, prefix string) *Masker {
	return &Masker{client: client, ref: api.Ref{Resource: secretsResource, Namespace: namespace, Name: prefix + "-key"}}
}

// WithKey makes a Masker with a key of 32 bytes that is stored nowhere: of it only Hash and
// Secret may be called.
func WithKey(key []byte) *Masker { return &Masker{key: key} }

// Owns reports whether k is the Secret that holds the key.
func (m *Masker) Owns(k state.Key) bool {
	return kinds.IsSecret(k) && k.Namespace == m.ref.Namespace && k.Name == m.ref.Name
}

// Load reads the key once, or draws one where none is stored. A process that
// may not read it (a person's plan) works with a key of its own.
func (m *Masker) Load(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.key != nil {
		return nil
	}
	live, err := m.client.Get(ctx, m.ref)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return api.Refused("reading the key that masks secrets", err, true)
	}
	if err == nil {
		text, _, _ := unstructured.NestedString(live.Object, "data", "key")
		if key, err := base64.StdEncoding.DecodeString(text); err == nil && len(key) == 32 {
			m.key, m.stored = key, true
			return nil
		}
	}
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return fmt.Errorf("drawing a key to mask secrets with: %w", err)
	}
	m.key = key
	return nil
}

// LoadFor loads the key where Secrets are among what is desired or recorded.
func (m *Masker) LoadFor(ctx context.Context, desired []state.Item, recorded []inventory.Record) error {
	for _, item := range desired {
		if kinds.IsSecret(item.Key) {
			return m.Load(ctx)
		}
	}
	for _, r := range recorded {
		if kinds.IsSecret(r.Key) {
			return m.Load(ctx)
		}
	}
	return nil
}

// Key is the random key, of 32 bytes, once it is loaded.
func (m *Masker) Key() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bytes.Clone(m.key)
}

// Keep stores a key that was drawn. It is not an error when that is refused or
// another process was faster: digests of two keys differ, which costs a
// comparison at the next start.
func (m *Masker) Keep(ctx context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stored || m.key == nil {
		return
	}
	m.stored = true
	_, _ = m.client.Apply(ctx, m.ref, map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{
			"name": m.ref.Name, "namespace": m.ref.Namespace,
			"labels": map[string]any{"app.kubernetes.io/managed-by": "poolwright"},
		},
		"type": "Opaque", "data": map[string]any{"key": base64.StdEncoding.EncodeToString(m.key)},
	}, api.ApplyOptions{Force: true})
}

// DeleteKey deletes the stored key.
func (m *Masker) DeleteKey(ctx context.Context) error {
	live, err := m.client.Get(ctx, m.ref)
	if err == nil {
		err = m.client.Delete(ctx, m.ref, live.GetUID(), "")
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return api.Refused("deleting the key that masks secrets", err, true)
	}
	return nil
}

// Hash is state.Hash under the key.
func (m *Masker) Hash(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		b = fmt.Appendf(nil, "%#v", v)
	}
	m.mu.Lock()
	key := m.key
	m.mu.Unlock()
	mac := hmac.New(sha256.New, key)
	mac.Write(b)
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// Secret copies a Secret with its data and annotations masked.
func (m *Masker) Secret(object map[string]any) map[string]any {
	out := maps.Clone(object)
	for _, field := range []string{"data", "stringData"} {
		if data, ok := out[field].(map[string]any); ok {
			out[field] = m.values(data)
		}
	}
	metadata, _ := out["metadata"].(map[string]any)
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		metadata["annotations"] = m.values(annotations)
		out["metadata"] = metadata
	}
	return out
}

func (m *Masker) values(in map[string]any) map[string]any {
	out := make(map[string]any, len(in))
	for k, v := range in {
		out[k] = "masked:" + m.Hash(v)
	}
	return out
}
