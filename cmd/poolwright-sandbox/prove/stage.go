package prove

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/worktree"
	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/provision/sandbox/history"
	"github.com/poolwright/poolwright/provision/sandbox/process"
	"github.com/poolwright/poolwright/provision/sandbox/wiretap"
)

// stage is one case's part of the environment, which no other case uses: namespaces, a
// repository, a Sync, a controller, and the tap on its wires.
type stage struct {
	environment *sandbox.Environment
	hand        client.Client
	product     string
	timeout     time.Duration
	// name is unique: the Sync's, and of all the rest. system is the controller's
	// namespace, apps that of the declared objects.
	name, system, apps string
	dir                string
	tap                *wiretap.Tap
	api, git           *wiretap.Listener
	tree               *worktree.Tree
	// model is what the next commit declares: Kind/name to value.
	model    map[string]string
	revision string
	life     life
}

// life is the controller's newest process.
type life struct {
	// meanwhile, if any, is done once while no process runs after a kill.
	meanwhile func(context.Context) error

	mu      sync.Mutex // protects what follows from the goroutines of the wires
	process *process.Process
	count   int
	killed  bool
	errs    []error
}

// newStage makes everything but the Sync and the controller.
func newStage(ctx context.Context, o Options, environment *sandbox.Environment, hand client.Client, name string) (_ *stage, err error) {
	s := &stage{
		environment: environment, hand: hand, product: o.Product, timeout: o.Timeout,
		name: name, system: "pw-" + name, apps: "apps-" + name, tap: wiretap.New(time.Now),
		dir: filepath.Join(environment.Dir, "prove", name),
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("preparing %s: %w", name, err), s.close(ctx))
		}
	}()
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	if err := s.tapAPI(); err != nil {
		return nil, err
	}
	s.git, err = s.tap.Listen(wiretap.Config{
		Server: environment.Git.URL(), Client: "nobody", Parse: wiretap.Forge, UID: wiretap.ForgeID,
	})
	if err != nil {
		return nil, err
	}
	if err := s.createRepository(ctx); err != nil {
		return nil, err
	}
	return s, s.createNamespaces(ctx)
}

// tapAPI puts a wire before the API server, and writes the kubeconfig that leads to it.
func (s *stage) tapAPI() error {
	cfg := s.environment.REST()
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		return err
	}
	s.api, err = s.tap.Listen(wiretap.Config{
		Server: cfg.Host, Transport: transport, Client: "nobody", Parse: wiretap.Kubernetes, UID: wiretap.KubernetesUID,
	})
	if err != nil {
		return err
	}
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["tap"] = &clientcmdapi.Cluster{Server: s.api.URL()}
	kubeconfig.Contexts["tap"] = &clientcmdapi.Context{Cluster: "tap"}
	kubeconfig.CurrentContext = "tap"
	return clientcmd.WriteToFile(*kubeconfig, s.kubeconfig())
}

func (s *stage) kubeconfig() string { return filepath.Join(s.dir, "kubeconfig") }

// repositoryName is the same in all stages; its owner is not.
const repositoryName = "nodes"

// createRepository makes the repository with an owner of its own.
func (s *stage) createRepository(ctx context.Context) error {
	owner, err := s.environment.Git.CreateUser(ctx, "team-"+s.name)
	if err != nil {
		return err
	}
	made, err := s.environment.Git.CreateRepository(ctx, owner, repositoryName, true)
	if err != nil {
		return err
	}
	token, err := s.environment.Git.CreateToken(ctx, owner, "poolwright", "write:repository")
	if err != nil {
		return err
	}
	s.tap.Plant("the token of the Git server", token, history.Git, history.Forge)
	s.tree, err = worktree.New(filepath.Join(s.dir, "worktree"), made.URL, owner.Name, token)
	return err
}

// folder is what the Sync follows.
const folder = "config"

// contents are the fields of the kinds of the model, by the value.
var contents = map[string]string{
	"ConfigMap":      "data: {value: %q}",
	"Secret":         "stringData: {value: %q}",
	"ServiceAccount": "automountServiceAccountToken: false\nsecrets: [{name: %q}]",
}

// resources are the kinds of the model as a history names them.
var resources = map[string]string{"ConfigMap": "configmaps", "Secret": "secrets", "ServiceAccount": "serviceaccounts"}

// commit makes the model what the branch declares.
func (s *stage) commit(ctx context.Context, message string) error {
	path := filepath.Join(s.tree.Dir, folder)
	if err := errors.Join(os.RemoveAll(path), os.MkdirAll(path, 0o700)); err != nil {
		return err
	}
	event := history.Event{Kind: history.Committed}
	for _, key := range slices.Sorted(maps.Keys(s.model)) {
		kind, name, _ := strings.Cut(key, "/")
		text := fmt.Sprintf("apiVersion: v1\nkind: %s\nmetadata: {name: %s, namespace: %s}\n"+contents[kind]+"\n", kind, name, s.apps, s.model[key])
		if err := os.WriteFile(filepath.Join(path, strings.ToLower(kind)+"-"+name+".yaml"), []byte(text), 0o600); err != nil {
			return err
		}
		event.Declared = append(event.Declared, history.Declared{Object: s.object(kind, name), Value: s.model[key]})
	}
	id, err := s.tree.Push(ctx, message)
	if err != nil {
		return err
	}
	s.revision = "main@sha1:" + id
	event.Revision = s.revision
	s.tap.Record(event)
	return nil
}

// object is an object of the model as a history names it.
func (s *stage) object(kind, name string) history.Object {
	return history.Object{Kind: resources[kind], Namespace: s.apps, Name: name}
}

// close ends the controller and the wires, and removes what would be in the way of others.
func (s *stage) close(ctx context.Context) error {
	errs := []error{s.end()}
	for _, wire := range []*wiretap.Listener{s.api, s.git} {
		if wire != nil {
			errs = append(errs, wire.Close())
		}
	}
	return errors.Join(append(errs, s.deleteNamespaces(ctx))...)
}
