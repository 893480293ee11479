package scaffold_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/cmd/internal/offline"
	"github.com/poolwright/poolwright/cmd/internal/scaffold"
	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// values are those of most cases.
func values() scaffold.Values {
	return scaffold.Values{
		Cluster: "dev", Region: "eu-west-1", Account: "111122223333", InstanceTypes: []string{"g4dn.xlarge", "g5.xlarge"}, MaxGPUs: 4,
		Subnets: []string{"subnet-0a000000000000001", "subnet-0a000000000000002"}, SecurityGroups: []string{"sg-0000000000000bbb2"},
	}
}

func TestWhatIsWrittenHasNoFinding(t *testing.T) {
	for name, change := range map[string]func(*scaffold.Values){
		"with subnets":                         func(*scaffold.Values) {},
		"without subnets":                      func(v *scaffold.Values) { v.Subnets, v.SecurityGroups = nil, nil },
		"instance types of arm64":              func(v *scaffold.Values) { v.InstanceTypes = []string{"g5g.xlarge"} },
		"eight GPUs a node":                    func(v *scaffold.Values) { v.InstanceTypes, v.MaxGPUs = []string{"p4d.24xlarge"}, 8 },
		"a cluster whose name YAML could read": func(v *scaffold.Values) { v.Cluster = "1234" },
		"the longest name of a cluster":        func(v *scaffold.Values) { v.Cluster = strings.Repeat("a", 100) },
		"another partition's region":           func(v *scaffold.Values) { v.Region = "us-gov-west-1" },
	} {
		t.Run(name, func(t *testing.T) {
			v := values()
			change(&v)
			folder := filepath.Join(t.TempDir(), "clusters", "dev")
			written, err := scaffold.Write(folder, v)
			if err != nil {
				t.Fatal(err)
			}
			found, err := offline.Lint(t.Context(), folder, variables.Input{})
			if err != nil {
				t.Fatal(err)
			}
			if len(found.All()) > 0 || found.Objects != 4 || len(written.Files) != 5 || len(written.Objects()) != 4 {
				t.Errorf("%d files, %v, %d objects, findings %v", len(written.Files), written.Objects(), found.Objects, found.All())
			}
		})
	}
}

func TestTheFilesReadAsTheirGolden(t *testing.T) {
	folder := t.TempDir()
	written, err := scaffold.Write(folder, values())
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range written.Files {
		content, err := os.ReadFile(file.Path)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString("== " + filepath.Base(file.Path) + "\n" + string(content))
	}
	golden.Compare(t, "testdata/files.golden", all.String())
}

func TestValuesOfWhichNoManifestCanBeMade(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*scaffold.Values)
		want   string
	}{
		"no cluster":                          {func(v *scaffold.Values) { v.Cluster = "" }, "--cluster"},
		"a cluster with a line break":         {func(v *scaffold.Values) { v.Cluster = "dev\nspec: {}" }, "--cluster"},
		"no region":                           {func(v *scaffold.Values) { v.Region = "" }, "--region"},
		"an account of eleven digits":         {func(v *scaffold.Values) { v.Account = "11112222333" }, "--account"},
		"a name in the place of a subnet":     {func(v *scaffold.Values) { v.Subnets[0] = "private" }, "--subnets"},
		"a name in the place of a group":      {func(v *scaffold.Values) { v.SecurityGroups[0] = "nodes" }, "--security-groups"},
		"subnets without security groups":     {func(v *scaffold.Values) { v.SecurityGroups = nil }, "give both or neither"},
		"no instance type":                    {func(v *scaffold.Values) { v.InstanceTypes = nil }, "--instance-types"},
		"an instance type that is not there":  {func(v *scaffold.Values) { v.InstanceTypes[0] = "g4dn.huge" }, "g4dn.huge"},
		"an instance type without GPUs":       {func(v *scaffold.Values) { v.InstanceTypes[0] = "m5.large" }, "m5.large has no GPU"},
		"a GPU of another manufacturer":       {func(v *scaffold.Values) { v.InstanceTypes[0] = "g4ad.xlarge" }, "g4ad.xlarge has no GPU of NVIDIA"},
		"more GPUs a node than in all":        {func(v *scaffold.Values) { v.InstanceTypes[0] = "g4dn.metal" }, "raise it"},
		"instance types of two architectures": {func(v *scaffold.Values) { v.InstanceTypes[1] = "g5g.xlarge" }, "different architectures"},
		"no GPU at all":                       {func(v *scaffold.Values) { v.MaxGPUs = 0 }, "--max-gpus"},
	} {
		t.Run(name, func(t *testing.T) {
			v := values()
			c.change(&v)
			folder := filepath.Join(t.TempDir(), "dev")
			_, err := scaffold.Write(folder, v)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v lacks %q", err, c.want)
			}
			if _, err := os.Stat(folder); err == nil {
				t.Error("the folder was made")
			}
		})
	}
}

func TestNoFileIsOverwritten(t *testing.T) {
	folder := t.TempDir()
	mine := filepath.Join(folder, "nodepool.yaml")
	if err := os.WriteFile(mine, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := scaffold.Write(folder, values()); err == nil || !strings.Contains(err.Error(), mine) {
		t.Errorf("%v does not name the file", err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(mine)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("mine", string(content)); diff != "" || len(entries) != 1 {
		t.Errorf("%d files; %s", len(entries), diff)
	}
}
