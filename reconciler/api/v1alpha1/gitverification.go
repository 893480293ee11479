package v1alpha1

// GitVerification is which objects of a repository have to be signed, and by whom.
type GitVerification struct {
	// Mode is which objects have to be signed: HEAD (default) is the commit that is followed, Tag
	// the annotated tag, TagAndHEAD both, and EveryCommit each commit that leads to the one that is
	// followed and not to the one that was attempted last, those of merged branches included.
	// +kubebuilder:default=HEAD
	// +optional
	Mode GitVerificationMode `json:"mode,omitempty"`
	// SecretRef names a Secret in the Sync's namespace with the public keys: those of OpenPGP in
	// keys that end in .asc, those of ssh in keys that end in .sshpub, or in allowed_signers.
	SecretRef SecretRef `json:"secretRef"`
}

// GitVerificationMode is which objects of a repository have to be signed.
// +kubebuilder:validation:Enum=HEAD;Tag;TagAndHEAD;EveryCommit
type GitVerificationMode string

// The values of GitVerificationMode. The first three are those of Flux's GitRepository.
const (
	// GitVerificationHEAD is the commit that is followed.
	GitVerificationHEAD GitVerificationMode = "HEAD"
	// GitVerificationTag is the annotated tag that is followed.
	GitVerificationTag GitVerificationMode = "Tag"
	// GitVerificationTagAndHEAD is the tag and the commit that it leads to.
	GitVerificationTagAndHEAD GitVerificationMode = "TagAndHEAD"
	// GitVerificationEveryCommit is each commit since the one that was attempted last.
	GitVerificationEveryCommit GitVerificationMode = "EveryCommit"
)
