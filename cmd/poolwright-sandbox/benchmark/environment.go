package benchmark

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/worktree"
	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/provision/sandbox/gitserver"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// Environment is a sandbox in which systems are measured one after another.
type Environment struct {
	*sandbox.Environment
	// Admin is the client of a person who may do everything.
	Admin client.WithWatch
	// Timeout bounds each wait.
	Timeout time.Duration
	owner   gitserver.Account
	made    int
}

// timeout is for a busy machine: no measurement takes a tenth of it on an idle one.
const timeout = 10 * time.Minute

// NewEnvironment prepares a running sandbox: where it has a Git server, a person with repositories, and
// the kind of the custom resources.
func NewEnvironment(ctx context.Context, running *sandbox.Environment) (*Environment, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("registering kinds: %w", err)
	}
	admin, err := client.NewWithWatch(running.REST(), client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the sandbox: %w", err)
	}
	e := &Environment{Environment: running, Admin: admin, Timeout: timeout}
	if running.Git == nil {
		return e, nil
	}
	if e.owner, err = running.Git.CreateUser(ctx, "benchmark"); err != nil {
		return nil, fmt.Errorf("making the owner of the repositories: %w", err)
	}
	return e, e.createKind(ctx)
}

// createKind makes the kind of the custom resources, and waits until it is served.
func (e *Environment) createKind(ctx context.Context) error {
	preserve := true
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "examples.benchmark.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "benchmark.example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "examples", Singular: "example", Kind: "Example", ListKind: "ExampleList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object", XPreserveUnknownFields: &preserve}},
				}},
			}},
		},
	}
	if err := e.Admin.Create(ctx, crd); err != nil {
		return fmt.Errorf("making the kind of the custom resources: %w", err)
	}
	return e.await(ctx, "the kind of the custom resources is served", func() error {
		if err := e.Admin.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
			return err
		}
		for _, c := range crd.Status.Conditions {
			if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return errors.New("it is not established")
	})
}

// NewRepository makes a namespace, and a repository that declares so many objects in it. It returns the
// repository with its first commit.
func (e *Environment) NewRepository(ctx context.Context, objects int) (*Repository, string, error) {
	e.made++
	name := fmt.Sprintf("b%d", e.made)
	if err := e.Admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		return nil, "", fmt.Errorf("making the namespace: %w", err)
	}
	made, err := e.Git.CreateRepository(ctx, e.owner, name, true)
	if err != nil {
		return nil, "", fmt.Errorf("making the repository: %w", err)
	}
	dir := filepath.Join(e.Dir, "trees", name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", fmt.Errorf("making the folder of the working tree: %w", err)
	}
	tree, err := worktree.New(dir, made.URL, e.owner.Name, e.owner.Token)
	if err != nil {
		return nil, "", fmt.Errorf("making the working tree: %w", err)
	}
	r := &Repository{Repository: made, Namespace: name, Objects: objects, tree: tree}
	if err := r.write(); err != nil {
		return nil, "", err
	}
	commit, err := r.push(ctx, "Declare the objects")
	return r, commit, err
}

// await calls check every few milliseconds until it returns nil.
func (e *Environment) await(ctx context.Context, what string, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w: %w", what, context.Cause(ctx), err)
		}
	}
}
