package e2e

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// forgeSecret is the Secret that the Sync names for pull requests.
func (p *pulls) forgeSecret(token string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "forge", Namespace: engineSystem}, StringData: map[string]string{"token": token},
	}
}

// hasARevokedToken: the forge refuses the token, and then serves another.
func (p *pulls) hasARevokedToken() {
	for _, now := range []struct{ token, reason string }{{"0123456789abcdef0123456789abcdef01234567", "Unauthorized"}, {p.bot.Token, ""}} {
		if err := p.hand.Update(p.Context(), p.forgeSecret(now.token)); err != nil {
			p.Fatal(err)
		}
		p.eventually(fmt.Sprintf("the reason of pull requests is %q", now.reason), func() error {
			sync, err := p.sync()
			if err != nil {
				return err
			}
			if got := sync.Status.PullRequests; got == nil || got.Reason != now.reason {
				return fmt.Errorf("it is %+v", got)
			}
			return nil
		})
		if now.reason != "" {
			p.awaitSeries(p.eventually, p.metrics, "PoolwrightForgeErrors")
		}
	}
}
