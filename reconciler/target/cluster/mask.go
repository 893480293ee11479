package cluster

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
)

// masker replaces the values of Secrets by digests under a key that never
// leaves the process: equal values stay equal, and a digest tells nobody
// anything, not even whether a guess was right.
type masker struct{ key []byte }

func newMasker() (*masker, error) {
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("making a key to mask secrets with: %w", err)
	}
	return &masker{key: key}, nil
}

// hash is state.Hash under the key.
func (m *masker) hash(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		b = fmt.Appendf(nil, "%#v", v)
	}
	mac := hmac.New(sha256.New, m.key)
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
