package benchmark

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision/sandbox/process"
)

// Flux is its source-controller and kustomize-controller with their default settings. A repository is a
// GitRepository, and each of its kustomizations a Kustomization.
type Flux struct {
	Environment *Environment
	// Dir has the binaries source-controller and kustomize-controller, and their CRDs in the folder crds.
	Dir string
	// Namespace is where it runs.
	Namespace string

	processes []*process.Process
	metrics   []string
	runs      int
	installed bool
	// applied is the commit that each repository was observed to be applied at.
	applied map[string]string
}

// The kinds of Flux that are made.
var (
	gitRepositories = schema.GroupVersionKind{Group: "source.toolkit.fluxcd.io", Version: "v1", Kind: "GitRepository"}
	kustomizations  = schema.GroupVersionKind{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Kind: "Kustomization"}
)

// repositoryLabel has the name of the repository on its Kustomizations.
const repositoryLabel = "benchmark.example.com/repository"

// System is Flux as it is measured.
func (f *Flux) System() System { return System{Name: "Flux", Processes: f, Reconciler: f} }

// install makes the namespace and the CRDs, once.
func (f *Flux) install(ctx context.Context) error {
	if f.installed {
		return nil
	}
	admin := f.Environment.Admin
	if err := admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.Namespace}}); err != nil {
		return fmt.Errorf("making Flux's namespace: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(f.Dir, "crds", "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("finding Flux's CRDs in %s: %w", f.Dir, errors.Join(err, os.ErrNotExist))
	}
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading a CRD of Flux: %w", err)
		}
		var crd unstructured.Unstructured
		if err := yaml.Unmarshal(content, &crd.Object); err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		if err := admin.Create(ctx, &crd); err != nil {
			return fmt.Errorf("making %s: %w", crd.GetName(), err)
		}
	}
	f.installed, f.applied = true, map[string]string{}
	return f.Environment.await(ctx, "Flux's kinds are served", func() error {
		for _, kind := range []schema.GroupVersionKind{gitRepositories, kustomizations} {
			if err := admin.List(ctx, listOf(kind), client.InNamespace(f.Namespace)); err != nil {
				return err
			}
		}
		return nil
	})
}

func listOf(kind schema.GroupVersionKind) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return list
}

// Start implements Processes.
func (f *Flux) Start(ctx context.Context) error {
	if err := f.install(ctx); err != nil {
		return err
	}
	f.runs++
	storage, err := freeAddress(ctx)
	if err != nil {
		return err
	}
	dir := filepath.Join(f.Environment.Dir, "flux", fmt.Sprint(f.runs))
	if err := os.MkdirAll(filepath.Join(dir, "tmp"), 0o700); err != nil {
		return fmt.Errorf("making Flux's folder: %w", err)
	}
	f.metrics, f.processes = nil, nil
	for name, more := range map[string][]string{
		"source-controller":    {"--storage-path=" + dir, "--storage-addr=" + storage, "--storage-adv-addr=" + storage},
		"kustomize-controller": nil,
	} {
		metrics, err := freeAddress(ctx)
		if err != nil {
			return err
		}
		arguments := append([]string{"RUNTIME_NAMESPACE=" + f.Namespace, "TMPDIR=" + filepath.Join(dir, "tmp"), "HOME=" + dir, filepath.Join(f.Dir, name),
			"--watch-all-namespaces", "--metrics-addr=" + metrics, "--health-addr=127.0.0.1:0", "--events-addr=", "--log-level=info"}, more...)
		running, err := f.Environment.Run(fmt.Sprintf("%s-%d", name, f.runs), "/usr/bin/env", arguments...)
		if err != nil {
			return fmt.Errorf("starting %s: %w", name, err)
		}
		f.processes, f.metrics = append(f.processes, running), append(f.metrics, metrics)
	}
	return f.Environment.await(ctx, "Flux serves its metrics", func() error {
		_, err := f.Requests(ctx)
		return err
	})
}

// Follow implements Reconciler.
func (f *Flux) Follow(ctx context.Context, r *Repository, commit string) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: r.Namespace, Namespace: f.Namespace},
		StringData: map[string]string{"username": r.tree.User, "password": r.tree.Token},
	}
	if err := f.Environment.Admin.Create(ctx, secret); err != nil {
		return fmt.Errorf("making the Secret: %w", err)
	}
	source := f.object(gitRepositories, r.Namespace, map[string]any{
		"url": r.URL, "interval": "1h", "ref": map[string]any{"branch": branch}, "secretRef": map[string]any{"name": secret.Name},
	})
	if err := f.Environment.Admin.Create(ctx, source); err != nil {
		return fmt.Errorf("making the GitRepository: %w", err)
	}
	for _, unit := range r.units() {
		object := f.object(kustomizations, r.Namespace+"-"+unit, map[string]any{
			"interval": "1h", "prune": true, "path": "./" + Folder + "/" + unit, "deletionPolicy": "Orphan",
			"sourceRef": map[string]any{"kind": gitRepositories.Kind, "name": r.Namespace},
		})
		object.SetLabels(map[string]string{repositoryLabel: r.Namespace})
		if err := f.Environment.Admin.Create(ctx, object); err != nil {
			return fmt.Errorf("making a Kustomization: %w", err)
		}
	}
	return f.awaitApplied(ctx, r, commit, nil)
}

func (f *Flux) object(kind schema.GroupVersionKind, name string, spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(f.Namespace)
	object.SetName(name)
	return object
}

// awaitApplied returns once all Kustomizations report a commit, and the requests for a run that they were
// given.
func (f *Flux) awaitApplied(ctx context.Context, r *Repository, commit string, requests map[string]string) error {
	err := awaitAll(ctx, f.Environment, listOf(kustomizations), f.Namespace, client.MatchingLabels{repositoryLabel: r.Namespace}, len(r.units()), func(u *unstructured.Unstructured) bool {
		revision, _, _ := unstructured.NestedString(u.Object, "status", "lastAppliedRevision")
		handled, _, _ := unstructured.NestedString(u.Object, "status", "lastHandledReconcileAt")
		return revision == branch+"@sha1:"+commit && (requests == nil || handled == requests[u.GetName()]) && isReady(u)
	})
	f.applied[r.Namespace] = commit
	return err
}

// isReady reports whether an object's condition Ready is true.
func isReady(u *unstructured.Unstructured) bool {
	return hasCondition(u, fluxmeta.ReadyCondition)
}

// Request implements Reconciler. A new commit reaches the Kustomizations by their source; where there is
// none, each is required to run, as `flux reconcile kustomization --with-source` does.
func (f *Flux) Request(ctx context.Context, r *Repository, commit string) error {
	admin := f.Environment.Admin
	if _, err := request(ctx, admin, f.object(gitRepositories, r.Namespace, nil)); err != nil {
		return err
	}
	if f.applied[r.Namespace] != commit {
		return f.awaitApplied(ctx, r, commit, nil)
	}
	requests := map[string]string{}
	for _, unit := range r.units() {
		name := r.Namespace + "-" + unit
		token, err := request(ctx, admin, f.object(kustomizations, name, nil))
		if err != nil {
			return err
		}
		requests[name] = token
	}
	return f.awaitApplied(ctx, r, commit, requests)
}

// Correct implements Reconciler.
func (f *Flux) Correct(ctx context.Context, r *Repository) error {
	_, err := request(ctx, f.Environment.Admin, f.object(kustomizations, r.Namespace+"-"+r.units()[0], nil))
	return err
}

// Release implements Reconciler.
func (f *Flux) Release(ctx context.Context, r *Repository) error {
	admin := f.Environment.Admin
	for _, object := range append(f.kustomizationsOf(r), f.object(gitRepositories, r.Namespace, nil)) {
		if err := admin.Delete(ctx, object); err != nil {
			return fmt.Errorf("deleting %s: %w", object.GetName(), err)
		}
	}
	return f.Environment.await(ctx, "Flux has finalized the Kustomizations", func() error {
		left := listOf(kustomizations)
		if err := admin.List(ctx, left, client.InNamespace(f.Namespace)); err != nil {
			return err
		}
		if n := meta.LenList(left); n > 0 {
			return fmt.Errorf("%d are left", n)
		}
		return nil
	})
}

func (f *Flux) kustomizationsOf(r *Repository) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, unit := range r.units() {
		all = append(all, f.object(kustomizations, r.Namespace+"-"+unit, nil))
	}
	return all
}

// Running implements Processes.
func (f *Flux) Running() []*process.Process { return f.processes }

// Requests implements Processes.
func (f *Flux) Requests(ctx context.Context) (total int, err error) {
	for _, address := range f.metrics {
		n, err := sentRequests(ctx, address)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// Stop implements Processes.
func (f *Flux) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs []error
	for _, p := range f.processes {
		errs = append(errs, p.Stop(ctx))
	}
	f.processes = nil
	return errors.Join(errs...)
}
