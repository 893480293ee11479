package main

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/cli"
	basecompatibility "k8s.io/component-base/compatibility"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// reportedVersion names the environment variable with the Kubernetes version, such
// as 1.32, that kube-apiserver shows at /version; without it, its own. What it
// serves stays as it is: the API server's own --emulated-version goes back three
// minor versions only, and what clients decide by the version goes further.
const reportedVersion = "SANDBOX_KUBERNETES_VERSION"

func runAPIServer() int {
	if reported := os.Getenv(reportedVersion); reported != "" {
		if err := overrideVersion(reported); err != nil {
			fmt.Fprintf(os.Stderr, "controlplane: %v\n", err)
			return 2
		}
	}
	return cli.Run(apiserver.NewAPIServerCommand())
}

// overrideVersion replaces what is registered for the API server before it reads it.
func overrideVersion(reported string) error {
	v, err := version.ParseMajorMinor(reported)
	if err != nil {
		return fmt.Errorf("%s is %q, not of the form 1.32: %w", reportedVersion, reported, err)
	}
	registry := compatibility.DefaultComponentGlobalsRegistry
	registry.Reset()
	as := versionOverride{MutableEffectiveVersion: compatibility.DefaultBuildEffectiveVersion(), version: v}
	return registry.Register(basecompatibility.DefaultKubeComponent, as, utilfeature.DefaultMutableFeatureGate)
}

// versionOverride is the API server's version under another name.
type versionOverride struct {
	basecompatibility.MutableEffectiveVersion
	version *version.Version
}

// Info is what /version returns.
func (s versionOverride) Info() *apiversion.Info {
	info := s.MutableEffectiveVersion.Info()
	info.Major, info.Minor = fmt.Sprint(s.version.Major()), fmt.Sprint(s.version.Minor())
	info.GitVersion = fmt.Sprintf("v%s.0-eks-sandbox", s.version)
	info.EmulationMajor, info.EmulationMinor = info.Major, info.Minor
	return info
}
