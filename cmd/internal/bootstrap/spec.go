package bootstrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// name is what the Sync is called: as it is requested, as the file has it, or as the folder is.
func (r *SyncRequest) name(file variables.File, sub, namespace string) (string, error) {
	name := r.Name
	if file.Sync != nil {
		name = cmp.Or(name, file.Sync.Name)
		if in := file.Sync.Namespace; in != "" && in != namespace {
			return "", fmt.Errorf("the Sync in %s is in namespace %s, and a controller in %s reconciles only those of its own: correct the file, or pass -n %s", r.Variables.SyncFile, in, namespace, in)
		}
	}
	name = cmp.Or(name, nameOf(cmp.Or(r.Path, filePath(file), sub)))
	if name == installation.Name {
		return "", fmt.Errorf("--name %s is where Poolwright records its own installation; choose another", name)
	}
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return "", fmt.Errorf("%q cannot be the name of a Sync (%s); choose one with --name", name, wrong[0])
	}
	return name, nil
}

// filePath is the folder that the Sync of a file follows; empty where there is none.
func filePath(file variables.File) string {
	if file.Sync == nil {
		return ""
	}
	return file.Sync.Spec.Path
}

// base is the spec that flags and the working copy complete: that of the file, or what an earlier run or kubectl has
// applied of the live Sync. What somebody else has set there is not repeated, and so stays that person's.
func (r *SyncRequest) base(file variables.File, live *v1alpha1.Sync) (v1alpha1.SyncSpec, error) {
	desired, err := applied(live)
	if err != nil {
		return v1alpha1.SyncSpec{}, err
	}
	if file.Sync != nil {
		own := desired
		desired = *file.Sync.Spec.DeepCopy()
		if desired.SourceRef == nil && desired.Source.Git.URL == "" {
			// A file that has only variables, such as one for poolwright plan.
			desired.SourceRef, desired.Source = own.SourceRef, own.Source
		}
	}
	artifact := desired.SourceRef != nil || desired.Source.Git.URL == "" && live.Spec.SourceRef != nil
	if artifact && (r.URL != "" || r.Branch != "" || r.Secret != "") {
		return v1alpha1.SyncSpec{}, errors.New("the Sync has spec.sourceRef, so that Flux fetches the repository: --url, --branch and --secret are for one that Poolwright fetches itself; leave them out, or name a file with spec.source.git with --sync-file")
	}
	if file.Sync != nil && live.Spec.SourceRef != nil && desired.SourceRef == nil {
		return v1alpha1.SyncSpec{}, fmt.Errorf("Sync %s follows a source of Flux, and that of %s a repository: delete the Sync first, which leaves what it applied unless its deletionPolicy is Delete", live.Name, r.Variables.SyncFile)
	}
	return desired, nil
}

// kubectl is under which name kubectl apply owns fields, unless it is run with --server-side.
const kubectl = "kubectl-client-side-apply"

// applied are the fields of a Sync's spec that bootstrap has applied and nobody has changed since, and those that
// kubectl apply has set: an apply takes these over, and deletes those that it does not repeat.
func applied(live *v1alpha1.Sync) (v1alpha1.SyncSpec, error) {
	var own v1alpha1.Sync
	live = live.DeepCopy()
	if err := csaupgrade.UpgradeManagedFields(live, sets.New(kubectl), v1alpha1.FieldManager); err != nil {
		return v1alpha1.SyncSpec{}, fmt.Errorf("reading which fields of Sync %s are kubectl's: %w", live.Name, err)
	}
	if err := managedfields.ExtractInto(live, typed.DeducedParseableType, v1alpha1.FieldManager, &own, ""); err != nil {
		return v1alpha1.SyncSpec{}, fmt.Errorf("reading which fields of Sync %s are bootstrap's: %w", live.Name, err)
	}
	return own.Spec, nil
}

// referenced are the Secrets that a source needs, each once.
func referenced(git v1alpha1.GitSource) []string {
	var names []string
	add := func(ref *v1alpha1.SecretRef) {
		if ref != nil && !slices.Contains(names, ref.Name) {
			names = append(names, ref.Name)
		}
	}
	add(git.SecretRef)
	add(git.ProxySecretRef)
	if git.Verify != nil {
		add(&git.Verify.SecretRef)
	}
	return names
}

// missingSecrets are those that are not in the namespace. What cannot be read is taken for there.
func missingSecrets(ctx context.Context, c client.Client, namespace string, names []string) (missing []string, err error) {
	for _, name := range names {
		err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &corev1.Secret{})
		if apierrors.IsNotFound(err) {
			missing = append(missing, name)
			continue
		}
		if err != nil && !apierrors.IsForbidden(err) {
			return nil, fmt.Errorf("reading Secret %s: %w", name, err)
		}
	}
	return missing, nil
}

// waitsFor is what a Sync of which a Secret is missing needs.
func (r *SyncRequest) waitsFor(namespace, name string) string {
	text := fmt.Sprintf("Secret %s is not in namespace %s yet: the Sync waits for it", name, namespace)
	if name != r.Secret {
		return text
	}
	content := "--from-literal=password=TOKEN"
	if isSSH(r.URL) {
		content = "--from-file=identity=PRIVATE_KEY_FILE --from-file=known_hosts=KNOWN_HOSTS_FILE"
	}
	return fmt.Sprintf("%s; make it with: kubectl -n %s create secret generic %s %s", text, namespace, name, content)
}

// WaitsFor is what the Sync waits for before it can follow the repository, or is
// empty. What cannot be read is taken for there.
func (b *Bootstrap) WaitsFor(ctx context.Context) string {
	missing, err := missingSecrets(ctx, b.direct, b.req.Namespace, b.req.Sync.secrets)
	if err != nil || len(missing) == 0 {
		return ""
	}
	return b.req.Sync.waitsFor(b.req.Namespace, missing[0])
}
