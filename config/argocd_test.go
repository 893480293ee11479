package config_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// argoCD are the keys of argocd-cm that a file has.
func argoCD(t *testing.T, file string) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("argocd", file))
	if err != nil {
		t.Fatal(err)
	}
	return decode[corev1.ConfigMap](t, string(raw)).Data
}

// Argo CD's own argocd-cm has no namespace, which a kustomization sets; that of others has one.
func TestTheComponentsForArgoCDAddTheirKeysAndChangeNoOther(t *testing.T) {
	links, confirm := argoCD(t, "links/argocd-cm.yaml"), argoCD(t, "confirm/argocd-cm.yaml")
	if !strings.Contains(links["resource.links"], `resource.spec.source.git.url startsWith "https://"`) {
		t.Error("the link of a repository that is fetched by ssh leads nowhere")
	}
	for name, test := range map[string]struct{ metadata, components string }{
		"without a namespace": {"{name: argocd-cm}", "[argocd]"},
		"with a namespace":    {"{name: argocd-cm, namespace: argocd}", "[argocd]"},
		"with links":          {"{name: argocd-cm}", "[argocd, argocd/links]"},
		"with confirm":        {"{name: argocd-cm}", "[argocd, argocd/confirm]"},
	} {
		t.Run(name, func(t *testing.T) {
			overlay := t.TempDir()
			if err := os.CopyFS(filepath.Join(overlay, "argocd"), os.DirFS("argocd")); err != nil {
				t.Fatal(err)
			}
			for file, content := range map[string]string{
				"base.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: " + test.metadata + "\ndata: {url: https://argocd.example.com}\n---\n" +
					"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-rbac-cm}\ndata: {policy.csv: x}\n",
				"kustomization.yaml": "namespace: argocd\nresources: [base.yaml]\ncomponents: " + test.components + "\n",
			} {
				if err := os.WriteFile(filepath.Join(overlay, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want := maps.Clone(argoCD(t, "argocd-cm.yaml"))
			want["url"] = "https://argocd.example.com"
			if strings.Contains(test.components, "links") {
				maps.Copy(want, links)
			}
			if strings.Contains(test.components, "confirm") {
				maps.Copy(want, confirm)
			}
			for _, object := range kustomized(t, overlay).Resources() {
				got := decode[corev1.ConfigMap](t, object.MustYaml())
				if got.Name != "argocd-cm" {
					want = map[string]string{"policy.csv": "x"}
				}
				if diff := cmp.Diff(want, got.Data); diff != "" {
					t.Errorf("%s (-want +got):\n%s", got.Name, diff)
				}
			}
		})
	}
}

// Who has action/* in Argo CD's RBAC has each action, so that the one which confirms deletions is asked for by name.
func TestOnlyTheComponentConfirmHasTheActionThatConfirmsDeletions(t *testing.T) {
	const key = "resource.customizations.actions.poolwright.dev_Sync"
	without, with := argoCD(t, "argocd-cm.yaml"), argoCD(t, "confirm/argocd-cm.yaml")
	for name, value := range without {
		if strings.Contains(value, "poolwright.dev/confirm") || strings.Contains(value, `["confirm"]`) {
			t.Errorf("%s confirms:\n%s", name, value)
		}
	}
	// The rest of the component is the same text: lines of its own are in one place of the discovery, and the definition is last.
	added, _, found := strings.Cut(without[key], "  return actions\n")
	rest, whole := strings.CutPrefix(with[key], added)
	_, rest, ends := strings.Cut(rest, "  return actions\n")
	if !found || !whole || !ends || len(with) != 1 || !strings.HasPrefix(rest, strings.TrimPrefix(without[key], added+"  return actions\n")) || !strings.Contains(rest, "poolwright.dev/confirm") {
		t.Errorf("the actions with confirm are not the others and confirm:\n%s", with[key])
	}
}

func TestTheValuesForTheChartOfArgoCDAreTheKeysOfTheComponent(t *testing.T) {
	for _, folder := range []string{"", "confirm/"} {
		values, err := yaml.Marshal(map[string]any{"configs": map[string]any{"cm": argoCD(t, folder+"argocd-cm.yaml")}})
		if err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, "argocd/"+folder+"values.yaml", "# For the chart argo-cd: what argocd-cm.yaml has, from which a test makes it.\n"+string(values))
	}
}

// argoCDSource is a source of an Application.
type argoCDSource struct {
	RepoURL, Chart, Path string
	Helm                 struct {
		SkipCRDs     bool `json:"skipCrds"`
		ValuesObject map[string]any
	}
	Kustomize map[string]any
}

// The example's kustomization is what the Application and the ApplicationSet apply beside the chart, the latter with a patch.
func TestTheExamplesForArgoCDApplyASyncThatOutlivesThem(t *testing.T) {
	var application struct {
		Metadata struct{ Finalizers []string }
		Spec     struct{ Sources []argoCDSource }
	}
	var set struct {
		Spec struct {
			SyncPolicy struct{ PreserveResourcesOnDeletion bool }
			Template   struct {
				Spec struct{ Sources []argoCDSource }
			}
		}
	}
	for file, into := range map[string]any{"application.yaml": &application, "applicationset.yaml": &set} {
		raw, err := os.ReadFile(filepath.Join("argocd", "examples", file))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(raw, into); err != nil {
			t.Fatal(err)
		}
	}
	if len(application.Metadata.Finalizers) > 0 || !set.Spec.SyncPolicy.PreserveResourcesOnDeletion {
		t.Error("an Application that is deleted takes the controller along")
	}
	patched := map[string]any{"resources": []string{"poolwright"}}
	for _, sources := range [][]argoCDSource{application.Spec.Sources, set.Spec.Template.Spec.Sources} {
		if len(sources) != 2 || !sources[0].Helm.SkipCRDs || sources[1].Path != "poolwright" {
			t.Errorf("the sources are %+v", sources)
			continue
		}
		maps.Copy(patched, sources[1].Kustomize)
	}
	overlay := t.TempDir()
	if err := os.CopyFS(overlay, os.DirFS(filepath.Join("argocd", "examples"))); err != nil {
		t.Fatal(err)
	}
	raw, err := yaml.Marshal(patched)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	for folder, path := range map[string]string{filepath.Join(overlay, "poolwright"): "clusters/dev", overlay: "clusters/{{.name}}"} {
		objects := kustomized(t, folder).Resources()
		if len(objects) != 1 {
			t.Fatalf("%d objects", len(objects))
		}
		sync := decode[v1alpha1.Sync](t, objects[0].MustYaml())
		options := strings.Split(sync.Annotations["argocd.argoproj.io/sync-options"], ",")
		for _, option := range []string{"SkipDryRunOnMissingResource=true", "Prune=false", "Delete=false"} {
			if !slices.Contains(options, option) {
				t.Errorf("the Sync has the options %v, without %s", options, option)
			}
		}
		if sync.Spec.Path != path || sync.Namespace != "poolwright-system" {
			t.Errorf("the Sync follows %s in %s", sync.Spec.Path, sync.Namespace)
		}
	}
}
