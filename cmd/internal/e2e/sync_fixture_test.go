package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/sandbox/gitserver"
	"github.com/poolwright/poolwright/provision/sandbox/process"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// syncFixture is one test's part of the environment: a namespace with a Sync and its
// controller, a namespace for what Git declares, and a repository behind a
// proxy.
type syncFixture struct {
	fixture
	// whole is the test that all subtests are parts of: processes live as long.
	whole *testing.T
	// name is unique in the environment: the Sync's, and of all the rest.
	name string
	// system is the controller's namespace, apps that of the declared objects.
	system, apps string
	owner        gitserver.Account
	git          *gitProxy
	repo         *repo
	token        string
	// hidden are the words that nothing may show.
	hidden []string
	// user is as whom controllers reach the API server, by default the
	// administrator.
	user string
	// flags are what the next controllers are started with, beside the usual.
	flags []string
	now   *controller
}

// interval is how often the Syncs here ask Git.
const interval = 5 * time.Second

// waitTimeout bounds every wait, so that what hangs fails by name. It is ten times what the
// longest wait takes on two idle cores: the machine may be busy, and a test that passes does
// not wait for it.
const waitTimeout = 10 * time.Minute

// newSyncFixture makes everything but the Sync and the controller.
func newSyncFixture(t *testing.T, name string) *syncFixture {
	t.Helper()
	return newSyncFixtureIn(newFixture(t, sharedEnv), name, "pw-"+name)
}

// newSyncFixtureIn is newSyncFixture in a sandbox and a controller's namespace there, which may exist. The repository is on the shared
// environment's Git.
func newSyncFixtureIn(f fixture, name, system string) *syncFixture {
	f.Helper()
	t, ctx := f.T, f.Context()
	s := &syncFixture{fixture: f, whole: t, name: name, system: system, apps: "apps-" + name}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.system}}
	if err := f.hand.Create(ctx, ns); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	var err error
	if s.owner, err = sharedEnv.Git.CreateUser(ctx, "team-"+name); err != nil {
		t.Fatal(err)
	}
	made, err := sharedEnv.Git.CreateRepository(ctx, s.owner, "nodes", true)
	if err != nil {
		t.Fatal(err)
	}
	if s.token, err = sharedEnv.Git.CreateToken(ctx, s.owner, "poolwright", "write:repository"); err != nil {
		t.Fatal(err)
	}
	s.hide(s.token)
	s.hide(s.owner.Name + ":" + s.token)
	s.git = newGitProxy(t)
	// The branch is not the default one, so that it can be deleted.
	s.repo = newRepo(t, made.URL, s.owner.Name, s.token, "live")
	t.Cleanup(s.logsContainNoSecret)
	return s
}

// in is the fixture of a subtest.
func (s *syncFixture) in(t *testing.T) *syncFixture {
	part := *s
	part.T = t
	return &part
}

// hide plants a word that no log, event or status may show, in any form.
func (s *syncFixture) hide(text string) {
	s.hidden = append(s.hidden, text, base64.StdEncoding.EncodeToString([]byte(text)))
}

// logsContainNoSecret reads all that the controllers ever said.
func (s *syncFixture) logsContainNoSecret() {
	logs, err := filepath.Glob(filepath.Join(s.Dir, "logs", s.name+"-*.log"))
	if err != nil || len(logs) == 0 {
		s.Errorf("no log of the controller was found: %v", err)
	}
	got := map[string]string{}
	for _, path := range logs {
		content, err := os.ReadFile(path)
		if err != nil {
			s.Error(err)
		}
		got[filepath.Base(path)] = string(content)
		if strings.Contains(string(content), "Observed a panic") || strings.Contains(string(content), "goroutine 1 [") {
			s.Errorf("the controller panicked:\n%s", process.Tail(path, 60))
		}
	}
	var events corev1.EventList
	var syncs v1alpha1.SyncList
	for _, list := range []client.ObjectList{&events, &syncs} {
		if err := s.hand.List(context.Background(), list, client.InNamespace(s.system)); err != nil {
			s.Error(err)
		}
		got[fmt.Sprintf("%T", list)] = fmt.Sprintf("%+v", list)
	}
	for where, text := range got {
		for _, part := range s.hidden {
			if strings.Contains(text, part) {
				s.Errorf("%s shows a secret that begins with %.4s", where, part)
			}
		}
	}
}

// controller is one `poolwright run` and the API server as it sees it.
type controller struct {
	*process.Process
	api *apiProxy
	// cacheDir is its --cache-dir.
	cacheDir string
	lives    int
}

// start runs the product for this stage. The newest one is s.now.
func (s *syncFixture) start() *controller {
	s.Helper()
	c := &controller{api: newAPIProxy(s.whole, s.system, s.user), cacheDir: s.whole.TempDir()}
	s.run(c)
	return c
}

// run starts a process for a controller, again after the last one died.
func (s *syncFixture) run(c *controller) {
	s.Helper()
	c.lives++
	log := fmt.Sprintf("%s-%s-%d", s.name, filepath.Base(c.cacheDir), c.lives)
	var err error
	c.Process, err = s.Environment.Run(log, binary, append([]string{"run",
		"--namespace=" + s.system, "--kubeconfig=" + c.api.kubeconfig, "--cache-dir=" + c.cacheDir, "--metrics-addr=0", "--health-addr=0"}, s.flags...)...)
	if err != nil {
		s.Fatal(err)
	}
	p := c.Process
	s.whole.Cleanup(func() {
		if err := p.Kill(); err != nil {
			s.whole.Error(err)
		}
	})
	s.now = c
}

// deleteLease takes the lease from a controller that was killed, so that the next
// one need not wait until it expires.
func (s *syncFixture) deleteLease() {
	s.Helper()
	err := s.hand.DeleteAllOf(s.Context(), leaseObject(), client.InNamespace(s.system))
	if err != nil {
		s.Fatal(err)
	}
}

// follow creates the Sync, with the credentials beside it.
func (s *syncFixture) follow(mods ...func(*v1alpha1.Sync)) {
	s.Helper()
	s.credentials(s.token)
	s.syncNamed(s.name, mods...)
}

func (s *syncFixture) syncNamed(name string, mods ...func(*v1alpha1.Sync)) {
	s.Helper()
	sync := s.spelled(name, mods...)
	// The controller brings the kind.
	s.eventually("the Sync is accepted", func() error {
		err := s.hand.Create(s.Context(), sync.DeepCopy())
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// spelled is a Sync that follows the stage's repository.
func (s *syncFixture) spelled(name string, mods ...func(*v1alpha1.Sync)) *v1alpha1.Sync {
	sync := &v1alpha1.Sync{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.system},
		Spec: v1alpha1.SyncSpec{
			Source: v1alpha1.Source{Git: v1alpha1.GitSource{
				URL:       s.git.url() + "/" + s.owner.Name + "/nodes.git",
				Ref:       v1alpha1.GitRef{Branch: s.repo.branch},
				SecretRef: &v1alpha1.SecretRef{Name: "git"},
			}},
			Path: "config", Interval: metav1.Duration{Duration: interval},
		},
	}
	for _, mod := range mods {
		mod(sync)
	}
	return sync
}

// credentials writes the Secret that the Sync names.
func (s *syncFixture) credentials(password string) {
	s.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "git", Namespace: s.system}}
	err := s.hand.Delete(s.Context(), secret)
	if client.IgnoreNotFound(err) != nil {
		s.Fatal(err)
	}
	secret.ResourceVersion = ""
	secret.StringData = map[string]string{"username": s.owner.Name, "password": password}
	if err := s.hand.Create(s.Context(), secret); err != nil {
		s.Fatal(err)
	}
}

// eventually polls until check returns nil. It gives up after patience, or when
// the controller or the environment has ended.
func (s *syncFixture) eventually(what string, check func() error) {
	s.Helper()
	newest := func() *process.Process {
		if s.now == nil {
			return nil
		}
		return s.now.Process
	}
	s.waitUntil(newest, 25*time.Millisecond, waitTimeout, what, check)
}

// sync reads the Sync.
func (s *syncFixture) sync() *v1alpha1.Sync {
	s.Helper()
	sync, err := s.read(s.name)
	if err != nil {
		s.Fatal(err)
	}
	return sync
}

func (s *syncFixture) read(name string) (*v1alpha1.Sync, error) {
	var sync v1alpha1.Sync
	err := s.hand.Get(s.Context(), client.ObjectKey{Namespace: s.system, Name: name}, &sync)
	return &sync, err
}

// change edits the Sync, as kubectl edit does.
func (s *syncFixture) change(edit func(*v1alpha1.Sync)) {
	s.Helper()
	sync := s.sync()
	before := sync.DeepCopy()
	edit(sync)
	if err := s.hand.Patch(s.Context(), sync, client.MergeFrom(before)); err != nil {
		s.Fatal(err)
	}
}

// dropCredentials deletes the Secret that the Sync names.
func (s *syncFixture) dropCredentials() {
	s.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "git", Namespace: s.system}}
	if err := s.hand.Delete(s.Context(), secret); err != nil {
		s.Fatal(err)
	}
}

// recreate replaces the repository by one of the same name without any commit.
func (s *syncFixture) recreate() {
	s.Helper()
	if err := s.Git.Call(s.Context(), s.owner, http.MethodDelete, "/repos/"+s.owner.Name+"/nodes", nil, nil); err != nil {
		s.Fatal(err)
	}
	if _, err := s.Git.CreateRepository(s.Context(), s.owner, "nodes", true); err != nil {
		s.Fatal(err)
	}
}

func more(now, before int) error {
	if now <= before {
		return fmt.Errorf("still %d", now)
	}
	return nil
}
