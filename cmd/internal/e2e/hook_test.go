package e2e

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/provision/sandbox/gitserver"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// seldom is an interval that no test waits for: what happens, happens because a
// webhook came.
const seldom = time.Hour

// hooked starts a replica that takes webhooks, with further flags, and returns where.
func (s *syncFixture) hooked(flags ...string) (c *controller, address string) {
	s.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	address = listener.Addr().String()
	if err := listener.Close(); err != nil {
		s.Fatal(err)
	}
	s.flags = append(flags, "--receiver-addr="+address)
	defer func() { s.flags = nil }()
	c = s.start()
	// Gitea sends a webhook once.
	s.eventually("webhooks are taken", func() error {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		return connection.Close()
	})
	return c, address
}

// sends has Gitea send its webhooks there, and nowhere else.
func (s *syncFixture) sends(address, secret string) {
	s.Helper()
	var known []struct{ ID int64 }
	s.call(http.MethodGet, "/hooks", nil, &known)
	for _, hook := range known {
		s.call(http.MethodDelete, fmt.Sprintf("/hooks/%d", hook.ID), nil, nil)
	}
	s.call(http.MethodPost, "/hooks", map[string]any{
		"type": "gitea", "active": true, "events": []string{"push", "pull_request", "pull_request_sync", "pull_request_comment"},
		"config": map[string]any{"url": "http://" + address + "/hook/" + s.name, "content_type": "json", "secret": secret},
	}, nil)
}

func (s *syncFixture) call(method, path string, body, result any) {
	s.Helper()
	if err := s.Git.Call(s.Context(), s.owner, method, "/repos/"+s.owner.Name+"/nodes"+path, body, result); err != nil {
		s.Fatal(err)
	}
}

// commented waits for the one comment on a pull request to say a word.
func (s *syncFixture) commented(number int, text string) {
	s.Helper()
	s.eventually(fmt.Sprintf("the comment on #%d says %q", number, text), func() error {
		var all []struct{ Body string }
		err := s.Git.Call(s.Context(), s.owner, http.MethodGet, fmt.Sprintf("/repos/%s/nodes/issues/%d/comments", s.owner.Name, number), nil, &all)
		if err != nil {
			return err
		}
		if len(all) != 1 || !strings.Contains(all[0].Body, text) {
			return fmt.Errorf("there are %v", all)
		}
		return nil
	})
}

func TestAWebhookThatAnyReplicaReceivesIsHandledByTheLeader(t *testing.T) {
	t.Parallel()
	const signs = "what signs webhooks here"
	s := newSyncFixture(t, "hooked")
	s.hide(signs)
	s.declare("v1", "a", "b")
	s.repo.commit("Begin")
	leader, _ := s.hooked()
	forge := s.forgeToken(signs)
	s.follow(func(sync *v1alpha1.Sync) {
		sync.Spec.Interval = metav1.Duration{Duration: seldom}
		sync.Spec.PullRequests = &v1alpha1.PullRequests{
			Provider: v1alpha1.ForgeGitea, SecretRef: v1alpha1.SecretRef{Name: forge}, Interval: metav1.Duration{Duration: seldom},
			URL: sharedEnv.Git.URL() + "/" + s.owner.Name + "/nodes",
		}
	})
	s.ready()
	s.eventually("the forge has got a request", func() error {
		if p := s.sync().Status.PullRequests; p == nil || p.Reason != "" {
			return fmt.Errorf("it says %+v", p)
		}
		return nil
	})
	metrics := freeAddress(s.T)
	_, address := s.hooked("--metrics-addr=" + metrics)
	s.eventually("the standby has the Sync", func() error {
		unsigned, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/hook/"+s.name, strings.NewReader("{}"))
		if err != nil {
			return err
		}
		unsigned.Header.Set("Content-Type", "application/json")
		reply, err := http.DefaultClient.Do(unsigned)
		if err != nil {
			return err
		}
		if err := reply.Body.Close(); err != nil || reply.StatusCode != http.StatusUnauthorized {
			return fmt.Errorf("it answers %s; %w", reply.Status, err)
		}
		return nil
	})
	s.sends(address, signs)

	// The standby is told, and the leader looks.
	pushed := time.Now()
	s.repo.write("config/a.yaml", s.configMap("a", "v2"))
	s.repo.commit("Change a")
	s.holds("a", "v2")
	s.awaitSeries(s.eventually, metrics, "poolwright_webhooks_total")
	t.Logf("a push was applied after %s", time.Since(pushed).Round(10*time.Millisecond))
	opened := time.Now()
	s.repo.write("config/b.yaml", s.configMap("b", "v3"))
	s.repo.commitOnly("Change b")
	s.repo.push("+refs/heads/main:refs/heads/proposal")
	made := gitserver.Repository{Owner: s.owner.Name, Name: "nodes"}
	number, err := sharedEnv.Git.CreatePullRequest(t.Context(), s.owner, made, gitserver.PullRequest{Head: "proposal", Base: s.repo.branch, Title: "Change b"})
	if err != nil {
		t.Fatal(err)
	}
	s.commented(number, `"v3"`)
	t.Logf("a pull request was commented after %s", time.Since(opened).Round(10*time.Millisecond))

	// The leader goes; who was told before leads now, and goes on.
	if err := leader.Kill(); err != nil {
		t.Fatal(err)
	}
	s.repo.write("config/b.yaml", s.configMap("b", "v4"))
	s.repo.commitOnly("Change b again")
	s.repo.push("+refs/heads/main:refs/heads/proposal")
	s.commented(number, `"v4"`)

	// Somebody who does not know the secret is nobody.
	response, err := http.Post("http://"+address+"/hook/"+s.name, "application/json", strings.NewReader(`{"number": 1}`))
	if err != nil || response.Body.Close() != nil || response.StatusCode != http.StatusUnauthorized {
		t.Errorf("unsigned: %v, %v", response, err)
	}
}

// forgeToken makes the credential for the forge and returns its Secret's name.
func (s *syncFixture) forgeToken(signs string) string {
	s.Helper()
	token, err := s.Git.CreateToken(s.Context(), s.owner, "forge", "write:issue", "write:repository", "read:user")
	if err != nil {
		s.Fatal(err)
	}
	s.hide(token)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "forge", Namespace: s.system},
		StringData: map[string]string{"token": token, "webhookSecret": signs},
	}
	if err := s.hand.Create(s.Context(), secret); err != nil {
		s.Fatal(err)
	}
	return secret.Name
}
