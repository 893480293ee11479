package receiver

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The keys of the Secret that spec.pullRequests.secretRef names: what signs webhooks, and
// what signed them before, while a provider still has it.
const (
	keyWebhook    = "webhookSecret"
	keyWebhookOld = "webhookSecretOld"
)

// How long the keys of a Secret are cached. A Secret without any is read sooner again: a
// webhook is being set up.
const (
	keysTTL   = 30 * time.Second
	noKeysTTL = 5 * time.Second
	// maxCached bounds the memory; there is one entry for each Sync's Secret.
	maxCached = 1000
)

// keyCache caches the keys that may sign webhooks, so that a flood of them does not become
// one of reads. It reads Secrets one by one: watching them would need the permission to list all.
type keyCache struct {
	reader    client.Reader
	namespace string
	clock     clock.PassiveClock

	// mu is found while a Secret is read: requests meanwhile wait for the same.
	mu      sync.Mutex
	entries map[string]cachedKeys
}

type cachedKeys struct {
	keys  [][]byte
	err   error
	until time.Time
}

// of returns the keys of a Secret; none where there is no such Secret or it has none.
func (c *keyCache) of(ctx context.Context, secret string) ([][]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cached, ok := c.entries[secret]; ok && c.clock.Now().Before(cached.until) {
		return cached.keys, cached.err
	}
	var found corev1.Secret
	err := client.IgnoreNotFound(c.reader.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: secret}, &found))
	if ctx.Err() != nil {
		return nil, ctx.Err() // only this sender may have gone away
	}
	out := cachedKeys{err: err, until: c.clock.Now().Add(noKeysTTL)}
	for _, key := range []string{keyWebhook, keyWebhookOld} {
		if value := found.Data[key]; err == nil && len(value) > 0 {
			out.keys = append(out.keys, value)
			out.until = c.clock.Now().Add(keysTTL)
		}
	}
	if c.entries == nil || len(c.entries) >= maxCached {
		c.entries = map[string]cachedKeys{}
	}
	c.entries[secret] = out
	return out.keys, out.err
}
