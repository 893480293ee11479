package build

// ControlPlane is etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler and kubectl, each under its own name in the built folder.
func ControlPlane() Program {
	const version = "k8s.io/component-base/version."
	return Program{
		Name:  "controlplane",
		Dir:   "provision/sandbox/controlplane",
		Links: []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"},
		// A module has no Git tag of itself: without these /version returns v0.0.0-master.
		LDFlags: "-X " + version + "gitVersion=v1.36.3 -X " + version + "gitMajor=1 -X " + version + "gitMinor=36" +
			" -X " + version + "gitTreeState=clean",
	}
}

// Forge is Gitea with its templates and translations beside it.
func Forge() Program {
	return Program{
		Name:   "forge",
		Dir:    "provision/sandbox/forge",
		Tags:   []string{"sqlite", "sqlite_unlock_notify"},
		CGO:    true, // its SQLite is the C one
		Assets: Assets{Module: "code.gitea.io/gitea", Folders: []string{"templates", "options", "public"}},
	}
}

// Reaper is the small process that cleans up after a crash of its parent.
func Reaper() Program {
	return Program{Name: "reaper", Dir: "provision/sandbox/internal/reaper"}
}
