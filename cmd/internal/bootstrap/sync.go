package bootstrap

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/connect"
	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// SyncRequest is what the Sync that bootstrap makes follows. What is left
// empty is as the Sync has it already, else as the working copy has it.
type SyncRequest struct {
	// Name is the Sync's. Default: the last element of the path, or "default"
	// for the repository's root.
	Name string
	// URL is the repository's address, by https or ssh. Default: the remote origin.
	URL string
	// Branch is followed. Default: the one that is checked out.
	Branch string
	// Path is the folder in the repository. Default: the place of the folder
	// in its working copy.
	Path string
	// Secret names the Secret with the token, or with the key for ssh. Default: none.
	Secret string
	// Variables become the Sync's. Default: those that it has. Where they name a file with a Sync, that
	// Sync is the one that is made: each field of its spec, but for what the fields above set.
	Variables variables.Input

	// secrets are what the Sync's source refers to.
	secrets []string
}

// follow completes what is requested from the file of --sync-file, the live Sync and the working copy, and
// returns the Sync's spec and what a person should read about it.
func (r *SyncRequest) follow(ctx context.Context, c client.Client, namespace, root, sub string) (spec map[string]any, warnings []string, err error) {
	file, err := r.Variables.Read()
	if err != nil {
		return nil, nil, err
	}
	if r.Name, err = r.name(file, sub, namespace); err != nil {
		return nil, nil, err
	}
	live, err := connect.LiveSync(ctx, c, namespace, r.Name)
	if err != nil {
		return nil, nil, err
	}
	desired, err := r.base(file, live)
	if err != nil {
		return nil, nil, err
	}
	r.Path = cmp.Or(r.Path, filePath(file), sub)
	desired.Path = r.Path
	if desired.SourceRef == nil && live.Spec.SourceRef == nil {
		if warnings, err = r.followGit(file, &desired, live, root); err != nil {
			return nil, nil, err
		}
	}
	r.secrets = referenced(desired.Source.Git)
	missing, err := missingSecrets(ctx, c, namespace, r.secrets)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range missing {
		warnings = append(warnings, r.waitsFor(namespace, name))
	}
	if !live.DeletionTimestamp.IsZero() {
		warnings = append(warnings, fmt.Sprintf("Sync %s is being deleted: nothing of this is applied before it is gone and bootstrapped again; its Ready condition has what its deletion waits for", r.Name))
	}
	// A working copy that Git cannot compare is no reason not to install.
	if files, err := uncommitted(root, sub); err == nil && len(files) > 0 {
		warnings = append(warnings, fmt.Sprintf("%s not committed (%s): the controller follows what was pushed, and this plan shows what is here", isOrAre(len(files), "file"), plural.FirstOf(files, 3, ", ")))
	}
	r.substitute(file, live, &desired)
	spec, err = runtime.DefaultUnstructuredConverter.ToUnstructured(&desired)
	if err != nil {
		return nil, nil, fmt.Errorf("writing the Sync: %w", err)
	}
	return spec, warnings, nil
}

// followGit completes the repository that Poolwright fetches itself: what no flag sets is as in the file where that has a
// repository, else as in the live Sync, of which somebody may have changed what an earlier run had applied.
func (r *SyncRequest) followGit(file variables.File, desired *v1alpha1.SyncSpec, live *v1alpha1.Sync, root string) (warnings []string, err error) {
	git := &desired.Source.Git
	before := live.Spec.Source.Git
	if file.Sync != nil && file.Sync.Spec.Source.Git.URL != "" {
		before = *git
		before.Ref.Branch = before.Ref.FollowedBranch()
	}
	pinned := r.asBefore(before)
	if warnings, err = r.fromWorkingCopy(root, pinned); err != nil {
		return nil, err
	}
	git.URL = r.URL
	if !pinned {
		git.Ref = v1alpha1.GitRef{Branch: r.Branch}
	}
	if r.Secret != "" {
		git.SecretRef = &v1alpha1.SecretRef{Name: r.Secret}
	}
	return warnings, nil
}

// substitute puts the variables into the Sync's spec.
func (r *SyncRequest) substitute(file variables.File, live *v1alpha1.Sync, desired *v1alpha1.SyncSpec) {
	if !r.Variables.Empty() {
		live = r.Variables.Apply(live, file)
	}
	desired.Substitute, desired.SubstituteFrom = live.Spec.Substitute, live.Spec.SubstituteFrom
}

// parameters are the given variables, and as such the values that the Sync's SSM
// parameters have or get, in a region; none where it has no parameters. They are for
// planning: the Sync that is made names the parameters, and reads them itself.
func (b *Bootstrap) parameters(ctx context.Context, region, sub string) (variables.Input, error) {
	out, r := b.req.Sync.Variables, b.req.Sync
	file, err := out.Read()
	if err != nil {
		return variables.Input{}, err
	}
	sync := out.Apply(&v1alpha1.Sync{}, file)
	sync.Namespace = b.req.Namespace
	if sync.Name, err = r.name(file, sub, b.req.Namespace); err != nil {
		return variables.Input{}, err
	}
	found, err := connect.ParameterValues(ctx, b.direct, sync, region)
	if err != nil || len(found) == 0 {
		return variables.Input{}, err
	}
	maps.Copy(found, sync.Spec.Substitute)
	out.Values = found
	return out, nil
}

// isOrAre writes "1 file is" or "2 files are".
func isOrAre(n int, what string) string {
	if n == 1 {
		return plural.Count(n, what) + " is"
	}
	return plural.Count(n, what) + " are"
}

// asBefore fills in what no flag sets and the live Sync has. It reports whether the
// Sync is pinned to a tag or commit, and so stays.
func (r *SyncRequest) asBefore(git v1alpha1.GitSource) (pinned bool) {
	pinned = r.Branch == "" && (git.Ref.Tag != "" || git.Ref.Commit != "")
	r.URL, r.Branch = cmp.Or(r.URL, git.URL), cmp.Or(r.Branch, git.Ref.Branch)
	if r.Secret == "" && git.SecretRef != nil {
		r.Secret = git.SecretRef.Name
	}
	return pinned
}

// nameOf is the name that a folder gives to its Sync.
func nameOf(sub string) string {
	if base := path.Base(sub); base != "." && base != "/" {
		return base
	}
	return "default"
}

// fromWorkingCopy fills in what neither a flag nor the live Sync sets.
func (r *SyncRequest) fromWorkingCopy(root string, pinned bool) (warnings []string, err error) {
	copied, err := readUpstream(root)
	if err != nil && (r.URL == "" || r.Branch == "" && !pinned) {
		return nil, fmt.Errorf("%w; or pass --url and --branch", err)
	}
	if r.URL == "" {
		if copied.address == "" {
			return nil, fmt.Errorf("%s is in no clone with a remote called origin: name the repository with --url https://HOST/PATH or --url ssh://git@HOST/PATH", root)
		}
		if r.URL, err = fetchAddress(copied.address); err != nil {
			return nil, err
		}
		if warning := homeWarning(copied.address); warning != "" {
			warnings = append(warnings, warning)
		}
	}
	if r.Branch == "" && !pinned {
		if r.Branch = copied.branch; r.Branch == "" {
			return nil, fmt.Errorf("no branch is checked out in %s: name the one to follow with --branch", root)
		}
	}
	if err := r.checkSource(); err != nil {
		return nil, err
	}
	if copied.ahead && copied.branch == r.Branch {
		warnings = append(warnings, fmt.Sprintf("what is checked out is not what origin/%s was when it was last fetched: the controller follows what was pushed", r.Branch))
	}
	return warnings, nil
}

// checkGiven checks the address and the reference that flags name, or else the file of --sync-file. It connects to nothing, so
// that it comes before all that takes time. What the live Sync or the working copy has is checked once these are read.
func (r *SyncRequest) checkGiven() error {
	file, err := r.Variables.Read()
	if err != nil {
		return err
	}
	var git v1alpha1.GitSource
	if file.Sync != nil && file.Sync.Spec.Source.Git.URL != "" {
		git = file.Sync.Spec.Source.Git
	}
	field := "--sync-file " + r.Variables.SyncFile + ": spec.source.git."
	switch {
	case r.URL != "":
		err = checkAddress("--url", r.URL)
	case git.URL != "":
		err = checkAddress(field+"url", git.URL)
	}
	switch {
	case err != nil:
		return err
	case r.Branch != "":
		return checkRef("--branch", v1alpha1.GitRef{Branch: r.Branch})
	}
	return checkRef(field+"ref", git.Ref)
}

// checkSource checks that the controller can follow the address and the branch, by the Secret that there is.
func (r *SyncRequest) checkSource() error {
	if err := checkAddress("the repository's address", r.URL); err != nil {
		return err
	}
	if isSSH(r.URL) && r.Secret == "" {
		return fmt.Errorf("the repository is fetched by ssh, which needs a Secret with the keys identity and known_hosts: name it with --secret, or fetch by https with --url %s", overHTTPS(r.URL))
	}
	return checkRef("the branch to follow", v1alpha1.GitRef{Branch: r.Branch})
}

// declaresItself reports whether a Sync applies its own object, because the repository
// that it follows declares it.
func declaresItself(ctx context.Context, c client.Client, namespace, name string) (bool, error) {
	live, err := connect.LiveSync(ctx, c, namespace, name)
	if err != nil {
		return false, err
	}
	return live.Labels[v1alpha1.SyncLabel] == kubernetes.LabelValue(name), nil
}
