package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/internal/golden"
)

const oldClass = `apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata:
  name: gpu
spec:
  amiFamily: AL2  # for now
  role: nodes
  subnetSelectorTerms: [{id: subnet-1}]
  securityGroupSelectorTerms: [{id: sg-1}]
`

const newClass = `apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata:
  name: gpu
spec:
  amiSelectorTerms:  # for now
    - alias: al2@latest
  role: nodes
  subnetSelectorTerms: [{id: subnet-1}]
  securityGroupSelectorTerms: [{id: sg-1}]
  metadataOptions:
    httpEndpoint: enabled
    httpProtocolIPv6: disabled
    httpPutResponseHopLimit: 2
    httpTokens: required
`

// folder lays files out on disk, as name, content, name, content …
func folder(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i+1 < len(files); i += 2 {
		name := filepath.Join(dir, files[i])
		if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(files[i+1]), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestConvertShowsWhatWouldChange(t *testing.T) {
	dir := folder(t, "class.yaml", oldClass, "other.txt", "karpenter")
	r := execute(t, "convert", dir)
	if r.code != exitDifferent {
		t.Errorf("exit %d", r.code)
	}
	golden.Compare(t, "testdata/convert.golden", r.out+"--- on standard error\n"+strings.ReplaceAll(r.err, dir, "DIR"))
	if got := read(t, dir, "class.yaml"); got != oldClass {
		t.Errorf("the file was changed:\n%s", got)
	}
}

func TestConvertWritesWholeFilesAndThenHasNothingToDo(t *testing.T) {
	dir := folder(t, "a/class.yaml", oldClass)
	r := execute(t, "convert", dir, "--write")
	if r.code != exitSame || !strings.Contains(r.err, "1 file changed") {
		t.Fatalf("exit %d: %s", r.code, r.err)
	}
	if diff := cmp.Diff(newClass, read(t, dir, "a/class.yaml")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	info, err := os.Stat(filepath.Join(dir, "a/class.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
		t.Errorf("mode %o", info.Mode().Perm())
	}
	entries, err := os.ReadDir(filepath.Join(dir, "a"))
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	for _, args := range [][]string{{"convert", dir}, {"convert", dir, "--write"}} {
		if r := execute(t, args...); r.code != exitSame || r.out != "" || r.err != "nothing to convert in "+dir+"\n" {
			t.Errorf("%v: exit %d: %s%s", args, r.code, r.out, r.err)
		}
	}
}

func TestConvertLeavesWhatCannotBeConvertedWithAllThatBelongsToIt(t *testing.T) {
	left := "apiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata: {name: x}\nspec: {launchTemplate: y}\n"
	pool := "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: p}\nspec: {providerRef: {name: x}}\n"
	dir := folder(t, "class.yaml", oldClass, "left.yaml", left, "pool.yaml", pool)
	r := execute(t, "convert", dir, "--write")
	want := "the rest was written; some of it cannot be converted, and because of that these files are as they were: pool.yaml"
	if r.code != exitError || !strings.Contains(r.err, want) || !strings.Contains(r.out, "left.yaml:4: manual: AWSNodeTemplate/x: Karpenter v1 takes no launch templates") {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
	}
	if read(t, dir, "class.yaml") != newClass || read(t, dir, "left.yaml") != left || read(t, dir, "pool.yaml") != pool {
		t.Error("other files were written")
	}
	if r = execute(t, "convert", dir, "--write"); r.code != exitError || !strings.Contains(r.err, "no file was written, because some of it cannot be converted") {
		t.Errorf("a second time: exit %d: %s%s", r.code, r.out, r.err)
	}
}

func TestConvertRequiresAReviewUntilItsCommentIsRemoved(t *testing.T) {
	pool := "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: p}\nspec:\n  template: {spec: {nodeClassRef: {name: x}, requirements: []}}\n  disruption: {budgets: [{nodes: \"1\"}]}\n"
	dir := folder(t, "pool.yaml", pool)
	const requests = "NodePool/p: budgets no longer hold back expiry"
	if r := execute(t, "convert", dir, "--write"); r.code != exitError || !strings.Contains(r.out, "pool.yaml:6: manual: "+requests) {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
	}
	written := read(t, dir, "pool.yaml")
	if !strings.HasPrefix(written, "# poolwright.dev/review-required: "+requests) {
		t.Errorf("written:\n%s", written)
	}
	if r := execute(t, "convert", dir, "--write"); r.code != exitError || !strings.Contains(r.out, "pool.yaml:1: manual: "+requests) || read(t, dir, "pool.yaml") != written {
		t.Errorf("a second time: exit %d: %s%s", r.code, r.out, r.err)
	}
	_, converged, _ := strings.Cut(written, "\n")
	if err := os.WriteFile(filepath.Join(dir, "pool.yaml"), []byte(converged), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := execute(t, "convert", dir); r.code != exitSame || r.out != "" {
		t.Errorf("once it is settled: exit %d: %s%s", r.code, r.out, r.err)
	}
}

func TestConvertNamesWhatAClustersVersionRefuses(t *testing.T) {
	dir := folder(t, "class.yaml", newClass)
	if r := execute(t, "convert", dir, "--kubernetes-version", "1.32"); r.code != exitSame {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
	}
	r := execute(t, "convert", dir, "--kubernetes-version", "1.33")
	if r.code != exitError || !strings.Contains(r.out, "class.yaml:7: manual: EC2NodeClass/gpu: alias al2@latest is refused at Kubernetes 1.33") {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
	}
	// It is written nevertheless: the file means what it meant.
	dir = folder(t, "class.yaml", oldClass)
	if r := execute(t, "convert", dir, "--kubernetes-version", "1.33", "--write"); r.code != exitError || read(t, dir, "class.yaml") != newClass {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
	}
}

func TestConvertInJSON(t *testing.T) {
	dir := folder(t, "class.yaml", oldClass)
	r := execute(t, "convert", dir, "-o", "json")
	var got struct {
		Written bool
		Files   []struct{ Path, Diff string }
		Changes []struct {
			File, Object, Grade, Text string
			Line                      int
		}
	}
	if err := json.Unmarshal([]byte(r.out), &got); err != nil {
		t.Fatal(err)
	}
	if r.code != exitDifferent || got.Written || len(got.Files) != 1 || !strings.HasPrefix(got.Files[0].Diff, "--- a/class.yaml\n") || len(got.Changes) != 6 {
		t.Errorf("exit %d: %+v", r.code, got)
	}
	if c := got.Changes[0]; c.File != "class.yaml" || c.Line != 1 || c.Grade != "lossless" || c.Object != "EC2NodeClass/gpu" {
		t.Errorf("%+v", c)
	}
}

func TestConvertShowsNeitherSecretsNorUserData(t *testing.T) {
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  token: hunter2\n"
	class := strings.Replace(oldClass, "  role: nodes\n", "  userData: |\n    export TOKEN=hunter2\n  role: nodes\n", 1)
	dir := folder(t, "class.yaml", secret+"---\n"+class+"---\n"+secret+"---\napiVersion: v1\nkind: List\nitems:\n- kind: Secret\n  apiVersion: v1\n  metadata: {name: x, labels: {karpenter.sh/provisioner-name: p}}\n  data: {a: hunter2}\n",
		"one.yaml", "{kind: Secret, stringData: {a: hunter2}, apiVersion: v1, metadata: {name: y, annotations: {karpenter.sh/do-not-evict: a}}}\n")
	for _, output := range []string{"text", "json"} {
		r := execute(t, "convert", dir, "-o", output)
		if strings.Contains(r.out+r.err, "hunter2") || !strings.Contains(r.out, "userData: ***") || !strings.Contains(r.out, "one.yaml") || r.code != exitDifferent {
			t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
		}
	}
}

func TestConvertFollowsNoLink(t *testing.T) {
	outside := folder(t, "class.yaml", oldClass)
	dir := folder(t, "a.yaml", "a: b\n")
	for name, to := range map[string]string{"class.yaml": filepath.Join(outside, "class.yaml"), "more": outside} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	execute(t, "convert", dir, "--write")
	if read(t, outside, "class.yaml") != oldClass {
		t.Error("a file outside of the folder was written")
	}
}

func TestErrorsOnTheCommandLineOfConvert(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"two folders":                {[]string{"convert", "a", "b"}, "convert takes one argument, the folder, and got 2: a b"},
		"an unknown output":          {[]string{"convert", ".", "-o", "markdown"}, `-o "markdown" is not one of text, json, yaml`},
		"a version that is none":     {[]string{"convert", ".", "--kubernetes-version", "v1.33.2"}, `--kubernetes-version "v1.33.2" is not a minor version, such as 1.33`},
		"a folder that is not there": {[]string{"convert", "/nowhere/at/all"}, "/nowhere/at/all"},
		"help names the exit code":   {[]string{"convert", "--no-such"}, "unknown flag"},
	} {
		t.Run(name, func(t *testing.T) {
			if r := execute(t, c.args...); r.code != exitError || !strings.Contains(r.err, c.want) || r.out != "" {
				t.Errorf("exit %d, stderr %q, stdout %q", r.code, r.err, r.out)
			}
		})
	}
	r := execute(t, "convert", "--help")
	golden.Compare(t, "testdata/help-convert.golden", r.out)
}
