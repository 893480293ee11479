// Package stage is what one case of a proof runs in: namespaces, a repository and a
// controller of its own in a running sandbox, with a tap on each wire of the controller. It
// starts the controller anew where it has ended.
//
// Start reading at New.
package stage

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
	"github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/provision/sandbox/history"
	"github.com/poolwright/poolwright/provision/sandbox/wiretap"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// Config is what a stage is a part of.
type Config struct {
	Environment *sandbox.Environment
	// Admin is the client of a person who may do everything.
	Admin client.Client
	// Product is the poolwright binary.
	Product string
	// Timeout bounds each wait for the product.
	Timeout time.Duration
	// Bulk is how many ConfigMaps each commit declares beside the model, in a namespace of
	// their own; Observe requires them all.
	Bulk int
	// Account, if any, changes what the stage's AWS account has from the start.
	Account func(*aws.Config)
	// Exclusive is where no other stage runs, so that this one may have what belongs to no
	// namespace.
	Exclusive bool
	// Arguments are further ones of the controller.
	Arguments []string
}

// Stage is a part of the environment that no other case uses: namespaces, a repository, a
// Sync, a controller, and the tap on its wires.
type Stage struct {
	config Config
	// name is unique: the Sync's, and of all the rest.
	name string
	// System is the controller's namespace, Apps that of the declared objects.
	System, Apps string
	dir          string
	// Tap records what happens in the stage.
	Tap *wiretap.Tap
	// git is the wire to Git and the forge, whose address is the Sync's: all replicas use it.
	git *wiretap.Listener
	// AWS is the account of the controller, with nothing in it but what its configuration lists,
	// and aws the wire to it, which all replicas use.
	AWS *sandbox.Account
	aws *wiretap.Listener
	// initial is what the account has from the start.
	initial []history.Object
	tree    *worktree.Tree
	// Model is what the next commit declares: Kind/name to value.
	Model map[string]string
	// Cluster is the spec of the Cluster that it declares, as YAML, Declared what that needs of
	// AWS; there is none where it is empty.
	Cluster  string
	Declared []history.State
	// Configure completes the Sync before it is created.
	Configure []func(*v1alpha1.SyncSpec)
	// deleted is set once a person has deleted the Sync.
	deleted    bool
	revision   string
	pull       pullRequest
	controller controllerState
}

// controllerState is the controller's replicas.
type controllerState struct {
	// meanwhile, if any, is done once while no process runs after a kill.
	meanwhile func(context.Context) error
	// environment is what was changed around it.
	environment environment

	mu sync.Mutex // protects what follows from the goroutines of the wires
	// replica is the first one, and standby, if any, the second.
	replica
	standby *replica
	// count is how many processes there were.
	count int
	errs  []error
}

// New makes everything but the Sync and the controller.
func New(ctx context.Context, config Config, name string) (_ *Stage, err error) {
	s := &Stage{
		config: config, name: name, System: "pw-" + name, Apps: "apps-" + name, Tap: wiretap.New(time.Now),
		dir: filepath.Join(config.Environment.Dir, "prove", name),
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("preparing %s: %w", name, err), s.Close(ctx))
		}
	}()
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	s.controller.folder = s.dir
	if err := s.tapAPI(&s.controller.replica); err != nil {
		return nil, err
	}
	s.git, err = s.Tap.Listen(wiretap.Config{Server: config.Environment.Git.URL(), Client: "nobody", ClientOf: s.clientOf, Protocol: wiretap.Forge()})
	if err != nil {
		return nil, err
	}
	if err := s.tapAWS(); err != nil {
		return nil, err
	}
	if err := s.createRepository(ctx); err != nil {
		return nil, err
	}
	return s, s.createNamespaces(ctx)
}

// tapAPI puts a wire before the API server for a replica, and writes the kubeconfig that leads
// to it.
func (s *Stage) tapAPI(r *replica) error {
	if err := os.MkdirAll(r.folder, 0o700); err != nil {
		return err
	}
	cfg := s.config.Environment.REST()
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		return err
	}
	// Nodes get the CA of the engine's own connection, so that it must be the cluster's.
	certificate, err := s.config.Environment.Certificate()
	if err != nil {
		return err
	}
	r.api, err = s.Tap.Listen(wiretap.Config{Server: cfg.Host, Transport: transport, Client: "nobody", Protocol: wiretap.Kubernetes(), Certificate: &certificate})
	if err != nil {
		return err
	}
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["tap"] = &clientcmdapi.Cluster{Server: r.api.URL(), CertificateAuthorityData: cfg.CAData}
	kubeconfig.Contexts["tap"] = &clientcmdapi.Context{Cluster: "tap", AuthInfo: "admin"}
	// The tap needs no credentials; the endpoint that EKS names, to which an engine compares its
	// own, does.
	kubeconfig.AuthInfos["admin"] = &clientcmdapi.AuthInfo{ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData, Token: cfg.BearerToken}
	kubeconfig.CurrentContext = "tap"
	return clientcmd.WriteToFile(*kubeconfig, r.kubeconfig())
}

// tapAWS makes the stage's account, which does within moments what takes AWS seconds, and
// puts a wire before it.
func (s *Stage) tapAWS() (err error) {
	s.AWS, err = s.config.Environment.AddAccount(func(c *aws.Config) {
		c.Delays.Fleet, c.Delays.Running, c.Delays.Shutdown = 100*time.Millisecond, 300*time.Millisecond, 300*time.Millisecond
		if s.config.Account != nil {
			s.config.Account(c)
		}
	})
	if err != nil {
		return err
	}
	for _, r := range s.AWS.Resources() {
		s.initial = append(s.initial, history.Object{Kind: r.Service + "/" + r.Kind, Name: r.Name})
	}
	s.aws, err = s.Tap.Listen(wiretap.Config{Server: s.AWS.Endpoint, Client: "nobody", ClientOf: s.clientOf, Protocol: wiretap.AWS()})
	return err
}

// repositoryName is the same in all stages; its owner is not.
const repositoryName = "nodes"

// createRepository makes the repository with an owner of its own.
func (s *Stage) createRepository(ctx context.Context) error {
	owner, err := s.config.Environment.Git.CreateUser(ctx, "team-"+s.name)
	if err != nil {
		return err
	}
	made, err := s.config.Environment.Git.CreateRepository(ctx, owner, repositoryName, true)
	if err != nil {
		return err
	}
	token, err := s.config.Environment.Git.CreateToken(ctx, owner, "poolwright", "write:repository")
	if err != nil {
		return err
	}
	s.Tap.Plant("the token of the Git server", token, history.Git, history.Forge)
	s.pull = pullRequest{author: owner, repository: made}
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
var resources = map[string]string{"ConfigMap": "configmaps", "Secret": "secrets", "ServiceAccount": "serviceaccounts", "NodePool": nodePools}

// Commit makes the model what the branch declares.
func (s *Stage) Commit(ctx context.Context, message string) error {
	declared, err := s.write()
	if err != nil {
		return err
	}
	id, err := s.tree.Commit(message)
	if err != nil {
		return err
	}
	s.revision = "main@sha1:" + id
	// The controller may apply it before the push returns.
	s.Tap.Record(history.Event{Kind: history.Committed, Revision: s.revision, Declared: declared})
	return s.tree.PushCommits(ctx)
}

// declared is the model as a history names it.
func (s *Stage) declared() []history.State {
	var out []history.State
	for _, key := range slices.Sorted(maps.Keys(s.Model)) {
		kind, name, _ := strings.Cut(key, "/")
		out = append(out, history.State{Object: s.object(kind, name), Value: s.Model[key]})
	}
	if s.Cluster != "" {
		out = append(out, s.Declared...)
	}
	return out
}

// write makes the files those of the model, which it returns.
func (s *Stage) write() ([]history.State, error) {
	path := filepath.Join(s.tree.Dir, folder)
	if err := errors.Join(os.RemoveAll(path), os.MkdirAll(path, 0o700)); err != nil {
		return nil, err
	}
	for key, value := range s.Model {
		kind, name, _ := strings.Cut(key, "/")
		text := fmt.Sprintf("apiVersion: v1\nkind: %s\nmetadata: {name: %s, namespace: %s}\n"+contents[kind]+"\n", kind, name, s.Apps, value)
		if kind == nodePool.Kind {
			text = fmt.Sprintf(nodePoolText, s.poolName(name), value)
		}
		if err := os.WriteFile(filepath.Join(path, strings.ToLower(kind)+"-"+name+".yaml"), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	if s.Cluster != "" {
		text := "apiVersion: poolwright.dev/v1alpha1\nkind: Cluster\nmetadata: {name: cluster}\nspec:\n" + s.Cluster
		if err := os.WriteFile(filepath.Join(path, "cluster.yaml"), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	return s.declared(), s.writeBulk(path)
}

// Meanwhile has something done once, before the next process starts after a kill.
func (s *Stage) Meanwhile(do func(context.Context) error) { s.controller.meanwhile = do }

// object is an object of the model as a history names it.
func (s *Stage) object(kind, name string) history.Object {
	if kind == nodePool.Kind {
		return history.Object{Kind: nodePools, Name: s.poolName(name)}
	}
	return history.Object{Kind: resources[kind], Namespace: s.Apps, Name: name}
}

// Close ends the controller and the wires, and removes what would be in the way of others.
func (s *Stage) Close(ctx context.Context) error {
	errs := []error{s.End(), s.controller.environment.end(ctx)}
	for _, r := range s.replicas() {
		if r.api != nil {
			errs = append(errs, r.api.Close())
		}
	}
	for _, wire := range []*wiretap.Listener{s.git, s.aws} {
		if wire != nil {
			errs = append(errs, wire.Close())
		}
	}
	if s.AWS != nil {
		errs = append(errs, s.AWS.Close())
	}
	if s.config.Exclusive {
		errs = append(errs, s.deleteEngineObjects(ctx))
	}
	return errors.Join(append(errs, s.deletePools(ctx), s.deleteNamespaces(ctx))...)
}
