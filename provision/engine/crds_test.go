package engine

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/poolwright/poolwright/provision/engine/crdinstall"
)

// crdServer is an API server that serves every CRD at once, and counts writes.
func crdServer(t *testing.T, writes *[]string, live ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(live...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			err := c.Get(ctx, key, o, opts...)
			if crd := o.(*apiextensionsv1.CustomResourceDefinition); err == nil {
				apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
				crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
			}
			return err
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			*writes = append(*writes, "create "+o.GetName())
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			*writes = append(*writes, "update "+o.GetName())
			return c.Update(ctx, o, opts...)
		},
	}).Build()
}

func nodePoolCRD(t *testing.T, change func(*apiextensionsv1.CustomResourceDefinition)) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crds, err := CRDs(valid())
	if err != nil {
		t.Fatal(err)
	}
	crd := crds[0]
	if crd.Name != "nodepools.karpenter.sh" {
		t.Fatalf("the first CRD is %s", crd.Name)
	}
	change(crd)
	return crd
}

func TestInstallCRDsTwiceWritesOnce(t *testing.T) {
	var writes []string
	c := crdServer(t, &writes)
	s := valid()
	s.FeatureGates["CapacityBuffer"] = true
	for range 2 {
		kept, err := InstallCRDs(t.Context(), c, s)
		if err != nil || len(kept) > 0 {
			t.Fatal(kept, err)
		}
	}
	want := []string{
		"create nodepools.karpenter.sh", "create nodeclaims.karpenter.sh", "create nodeoverlays.karpenter.sh",
		"create ec2nodeclasses.karpenter.k8s.aws", "create capacitybuffers.autoscaling.x-k8s.io",
	}
	if diff := cmp.Diff(want, writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestInstallCRDsNeverDowngrades(t *testing.T) {
	type crd = apiextensionsv1.CustomResourceDefinition
	spec := func(c *crd) map[string]apiextensionsv1.JSONSchemaProps {
		return c.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
	}
	for _, test := range []struct {
		name   string
		change func(*crd)
		// because must be in the reason; empty means that it is updated.
		because string
	}{
		{"an older one of ours is updated",
			func(c *crd) { c.Annotations[crdinstall.VersionAnnotation] = "1.2.3"; delete(spec(c), "weight") }, ""},
		{"one from a chart that lacks fields is updated",
			func(c *crd) { c.Annotations = map[string]string{"by": "chart"}; delete(spec(c), "replicas") }, ""},
		{"a newer one of ours is kept",
			func(c *crd) { c.Annotations[crdinstall.VersionAnnotation] = "1.99.0" }, "written for Karpenter 1.99.0"},
		{"an annotation that is no version is kept",
			func(c *crd) { c.Annotations[crdinstall.VersionAnnotation] = "latest" }, "no version"},
		{"one with a field of the future is kept",
			func(c *crd) {
				delete(c.Annotations, crdinstall.VersionAnnotation)
				spec(c)["warmPool"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
			}, "v1.spec.warmPool"},
		{"one that stores a version of the future is kept",
			func(c *crd) {
				v2 := *c.Spec.Versions[0].DeepCopy()
				v2.Name, v2.Storage = "v2", true
				c.Spec.Versions[0].Storage = false
				c.Spec.Versions = append(c.Spec.Versions, v2)
			}, "stores version v2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var writes []string
			c := crdServer(t, &writes, nodePoolCRD(t, test.change))
			kept, err := InstallCRDs(t.Context(), c, valid())
			if err != nil {
				t.Fatal(err)
			}
			updated := slices.Contains(writes, "update nodepools.karpenter.sh")
			if test.because == "" {
				if !updated || len(kept) > 0 {
					t.Errorf("updated %t, kept %v", updated, kept)
				}
				return
			}
			if updated || len(kept) != 1 || !strings.Contains(kept[0].Reason, test.because) {
				t.Errorf("updated %t, kept %v, want %q", updated, kept, test.because)
			}
		})
	}
}

// The schema of 1.14 named the kubelet's fields; that of 1.15 takes any.
func TestACRDThatNamesFieldsOfTheKubeletIsUpdated(t *testing.T) {
	crds, err := CRDs(valid())
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(crds, func(c *apiextensionsv1.CustomResourceDefinition) bool {
		return c.Name == "ec2nodeclasses.karpenter.k8s.aws"
	})
	if at < 0 {
		t.Fatal("there is no CRD of EC2NodeClasses")
	}
	live := crds[at]
	delete(live.Annotations, crdinstall.VersionAnnotation) // As a chart applies it.
	spec := live.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	spec.Properties["kubelet"] = apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"maxPods": {Type: "integer"}}}
	live.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
	var writes []string
	kept, err := InstallCRDs(t.Context(), crdServer(t, &writes, live), valid())
	if err != nil || len(kept) > 0 || !slices.Contains(writes, "update ec2nodeclasses.karpenter.k8s.aws") {
		t.Errorf("kept %v, wrote %v, %v", kept, writes, err)
	}
}

func TestTheCRDsAreOfTheLinkedKarpenter(t *testing.T) {
	// A test binary does not know its modules.
	text, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	provider := regexp.MustCompile(`(?m)^\tgithub\.com/aws/karpenter-provider-aws v(\S+)$`).FindStringSubmatch(string(text))
	if len(provider) != 2 || provider[1] != KarpenterVersion {
		t.Errorf("KarpenterVersion is %s, and the AWS provider that is linked %v", KarpenterVersion, provider)
	}
	if strings.Contains(string(text), "replace github.com/aws/karpenter-provider-aws ") {
		t.Error("go.mod replaces the AWS provider")
	}
	// The core may be of another patch version, where the provider's own cannot be had.
	core := regexp.MustCompile(`(?m)^replace sigs\.k8s\.io/karpenter => sigs\.k8s\.io/karpenter v(\S+)$`).FindStringSubmatch(string(text))
	if core == nil {
		core = regexp.MustCompile(`(?m)^\tsigs\.k8s\.io/karpenter v(\S+)$`).FindStringSubmatch(string(text))
	}
	if len(core) != 2 || minor(core[1]) != minor(KarpenterVersion) {
		t.Errorf("KarpenterVersion is %s, and the core that is linked %v", KarpenterVersion, core)
	}
}

// minor is the version without its last part.
func minor(version string) string { return version[:strings.LastIndex(version, ".")] }
