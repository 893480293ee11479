package v1alpha1

import "cmp"

// Source is where manifests come from.
type Source struct {
	// Git is a Git repository.
	Git GitSource `json:"git"`
}

// GitProvider is how requests to a repository are authenticated.
type GitProvider string

// The values of GitProvider, which are those of Flux's GitRepository.
const (
	// GitProviderGeneric is by what the Secret has.
	GitProviderGeneric GitProvider = "generic"
	// GitProviderGitHub is by a GitHub App.
	GitProviderGitHub GitProvider = "github"
)

// CrossNamespaceSourceReference names a source of Flux, as in Flux's own kinds.
type CrossNamespaceSourceReference struct {
	// APIVersion of the source. Default source.toolkit.fluxcd.io/v1.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern="^source\\.toolkit\\.fluxcd\\.io/v[0-9]+((alpha|beta)[0-9]+)?$"
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind of the source.
	// +kubebuilder:validation:Enum=GitRepository;OCIRepository;Bucket;ExternalArtifact
	Kind string `json:"kind"`
	// Name of the source.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
	Name string `json:"name"`
	// Namespace of the source. Default: the Sync's.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern="^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// Address is where a Sync's manifests are read: the URL of its repository, or kind, namespace and name
// of its source of Flux, as Flux writes them.
func (s *Sync) Address() string {
	if ref := s.Spec.SourceRef; ref != nil {
		return ref.Kind + "/" + cmp.Or(ref.Namespace, s.Namespace) + "/" + ref.Name
	}
	return s.Spec.Source.Git.URL
}

// GitSource is a Git repository and what to follow in it.
// +kubebuilder:validation:XValidation:rule="!self.url.startsWith('ssh://') || has(self.secretRef)",message="an ssh:// url needs secretRef: a Secret with the keys identity and known_hosts"
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || self.provider != 'github' || has(self.secretRef) && !self.url.startsWith('ssh://')",message="provider github needs an https:// url and secretRef: a Secret with the keys githubAppID, githubAppInstallationID and githubAppPrivateKey"
// +kubebuilder:validation:XValidation:rule="!has(self.proxySecretRef) || self.url.startsWith('https://')",message="proxySecretRef needs an https:// url"
// +kubebuilder:validation:XValidation:rule="!has(self.verify) || !(self.verify.mode in ['Tag', 'TagAndHEAD']) || has(self.ref) && has(self.ref.tag)",message="verify.mode Tag and TagAndHEAD need ref.tag"
// +kubebuilder:validation:XValidation:rule="!has(self.verify) || self.verify.mode != 'EveryCommit' || !has(self.ref) || !has(self.ref.commit)",message="verify.mode EveryCommit needs a branch or a tag"
type GitSource struct {
	// URL is an https:// address (http:// only to loopback), without
	// credentials, or ssh://user@host/path.
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches(r'^((https|http)://[^@\\s]+|ssh://[^@:/\\s]+@[^@\\s]+)$')",message="url must be https://host/path without credentials, or ssh://git@host/path, also in place of git@host:path"
	URL string `json:"url"`
	// Ref is the revision to follow. Default: the branch main.
	// +kubebuilder:default={branch: main}
	// +optional
	Ref GitRef `json:"ref,omitzero"`
	// FastForwardOnly follows a branch only to commits that descend from the one that
	// was followed before. Where it was moved elsewhere (a force push), the last state
	// stays applied until a commit descends from it again, or the annotation
	// poolwright.dev/confirm accepts the move. Tags and commits are followed wherever
	// they are. Default true.
	// +kubebuilder:default=true
	// +optional
	FastForwardOnly *bool `json:"fastForwardOnly,omitempty"`
	// SecretRef names a Secret in the Sync's namespace with the keys username
	// and password (a token goes into password; username may then be left
	// out) or bearerToken, and optionally ca.crt for a private certificate
	// authority, and tls.crt and tls.key for a certificate of the client. For ssh
	// its keys are identity (a private key), known_hosts, and optionally
	// password, which is the passphrase of identity.
	// +optional
	SecretRef *SecretRef `json:"secretRef,omitempty"`
	// Provider is how requests to the repository are authenticated: generic (default) by the keys of
	// SecretRef above, github by a GitHub App, with the keys githubAppID, githubAppInstallationID,
	// githubAppPrivateKey and optionally ca.crt.
	// +kubebuilder:validation:Enum=generic;github
	// +optional
	Provider GitProvider `json:"provider,omitempty"`
	// ProxySecretRef names a Secret in the Sync's namespace with the proxy by which the repository
	// is reached over https: address, and optionally username and password. Default: that of the
	// controller's environment.
	// +optional
	ProxySecretRef *SecretRef `json:"proxySecretRef,omitempty"`
	// Verify has only revisions applied that are signed. While the newest one is not, what was
	// applied stays and drift from it is corrected.
	// +optional
	Verify *GitVerification `json:"verify,omitempty"`
}

// GitRef names one thing to follow.
// +kubebuilder:validation:XValidation:rule="[has(self.branch), has(self.tag), has(self.commit)].filter(x, x).size() <= 1",message="set only one of branch, tag and commit"
type GitRef struct {
	// Branch is followed to its newest commit.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Branch string `json:"branch,omitempty"`
	// Tag is resolved at each fetch.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Tag string `json:"tag,omitempty"`
	// Commit is a full 40-digit commit id.
	// +kubebuilder:validation:Pattern="^[0-9a-f]{40}$"
	// +optional
	Commit string `json:"commit,omitempty"`
}

// FollowedBranch is the branch to follow: main where nothing is set, and empty for a tag
// or a commit.
func (r GitRef) FollowedBranch() string {
	if r == (GitRef{}) {
		return "main"
	}
	return r.Branch
}

// SecretRef names a Secret in the same namespace.
type SecretRef struct {
	// Name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}
