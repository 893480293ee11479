package child

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/declared/substitute"
)

const (
	cluster133 = "apiVersion: poolwright.dev/v1alpha1\nkind: Cluster\nmetadata: {name: c}\nspec: {name: dev, account: \"123456789012\", region: eu-west-1, version: \"1.33\"}\n"
	oldClass   = "apiVersion: karpenter.k8s.aws/v1beta1\nkind: EC2NodeClass\nmetadata: {name: gpu}\n" +
		"spec: {amiFamily: AL2, role: r, subnetSelectorTerms: [{id: subnet-1}], securityGroupSelectorTerms: [{id: sg-1}]}\n"
	newPool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: gpu}\n" +
		"spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}, requirements: [{key: kubernetes.io/os, operator: In, values: [linux]}]}}}\n"
)

func TestNotesOfAChildNameOldAPIs(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"in one line a file, and one for each thing that needs a person": {
			map[string]string{"class.yaml": oldClass, "cluster.yaml": cluster133},
			[]string{
				"gpus/class.yaml:1: an old API of Karpenter, followed as v1 with 4 defaults made explicit and 2 lossless changes; `poolwright convert gpus` shows them, and with --write writes them",
				"gpus/class.yaml:4: Warning: needs a person: EC2NodeClass/gpu: alias al2@latest is refused at Kubernetes 1.33: there are no images of Amazon Linux 2 from 1.33 on; choose al2023@latest or bottlerocket@latest",
			},
		},
		"and where nothing is old, nothing": {map[string]string{"pool.yaml": newPool, "cluster.yaml": cluster133}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tree := fstest.MapFS{}
			for file, text := range c.files {
				tree["gpus/"+file] = &fstest.MapFile{Data: []byte(text)}
			}
			loaded, err := (&Runner{}).Load(t.Context(), tree, "gpus", substitute.Values{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, n := range loaded.Notes {
				got = append(got, n.Origin.String()+": "+warned(n))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}
