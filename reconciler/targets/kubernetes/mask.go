package kubernetes

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
)

// masker replaces the values of Secrets by digests under a random key: equal
// values stay equal, and without the key a digest shows nobody anything, not
// even whether a guess was right. The key is kept in a Secret beside the
// inventory, so that the next process can tell a changed Secret from a new
// revision.
type masker struct {
	client *api.Client
	ref    api.Ref

	mu     sync.Mutex
	key    []byte
	stored bool
}

var secretsResource = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

func newMasker(client *api.Client, namespace, prefix string) *masker {
	return &masker{client: client, ref: api.Ref{Resource: secretsResource, Namespace: namespace, Name: prefix + "-key"}}
}

// owns reports whether k is the Secret that holds the key.
func (m *masker) owns(k state.Key) bool {
	return isSecret(k) && k.Namespace == m.ref.Namespace && k.Name == m.ref.Name
}

// load reads the key once, or draws one where none is stored. A process that
// may not read it (a person's plan) works with a key of its own.
func (m *masker) load(ctx context.Context) error {
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

// Key is the random key, of 32 bytes, under which the values of this Sync's Secrets
// are masked. It stays the same for the life of the Sync, once something is applied.
func (w *Target) Key(ctx context.Context) ([]byte, error) {
	if err := w.mask.load(ctx); err != nil {
		return nil, err
	}
	w.mask.mu.Lock()
	defer w.mask.mu.Unlock()
	return bytes.Clone(w.mask.key), nil
}

// keep stores a key that was drawn. It is not an error when that is refused or
// another process was faster: digests of two keys differ, which costs a
// comparison at the next start.
func (m *masker) keep(ctx context.Context) {
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

// destroy deletes the stored key.
func (m *masker) destroy(ctx context.Context) error {
	live, err := m.client.Get(ctx, m.ref)
	if err == nil {
		err = m.client.Delete(ctx, m.ref, live.GetUID(), "")
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return api.Refused("deleting the key that masks secrets", err, true)
	}
	return nil
}

// hash is state.Hash under the key.
func (m *masker) hash(v any) string {
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

// secret copies a Secret with its data and annotations masked.
func (m *masker) secret(object map[string]any) map[string]any {
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

func (m *masker) values(in map[string]any) map[string]any {
	out := make(map[string]any, len(in))
	for k, v := range in {
		out[k] = "masked:" + m.hash(v)
	}
	return out
}
