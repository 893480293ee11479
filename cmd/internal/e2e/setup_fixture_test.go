package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/setups"
	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/provision/sandbox/nodes"
	"github.com/poolwright/poolwright/provision/sandbox/sandboxtest"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// setupSuite is the environment of one reference set-up, with its example brought in as
// a user does: pushed, bootstrapped, reconciled. It is a gpuSuite, so pools can be
// given faults and objects be filmed; git.name is the Sync's name.
type setupSuite struct {
	gpuSuite
	of      setups.Setup
	account account
	// made are the workloads.
	made *[]client.Object
	// reclaimed are instances that EC2 has taken back.
	reclaimed map[string]bool
	// history is every state of every NodeClaim.
	history *recording
	// metrics is where the controller shows its own.
	metrics string
}

// applyExample returns when the example is applied, AWS holds what its Cluster
// declares, the engine runs and all pools can be launched from. The sandbox is fast, unless
// a change has other delays.
func applyExample(t *testing.T, name string, changes ...func(*sandbox.Config)) setupSuite {
	t.Helper()
	of, err := setups.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return applySetup(t, of, pushExample(t, of, "setup-"+of.Name), changes...)
}

// applySetup is applyExample for the folder of an example that is in a repository.
func applySetup(t *testing.T, of setups.Setup, from *gitLoop, changes ...func(*sandbox.Config)) setupSuite {
	t.Helper()
	config := of.SandboxConfig()
	config.WithoutGit = true // the other environment's serves
	config.AWS.Delays.Fleet, config.AWS.Delays.Running, config.AWS.Delays.Shutdown = 500*time.Millisecond, time.Second, time.Second
	config.Nodes = nodes.Delays{Join: 500 * time.Millisecond, NodeGone: time.Second}
	for _, change := range changes {
		change(&config)
	}
	machines := &gpuMachines{}
	config.Fault, config.Notify = machines.fault, machines.notify
	begin := time.Now()
	started := sandboxtest.Start(t, config)
	s := setupSuite{
		gpuSuite: gpuSuite{engineSuite: engineSuite{newFixture(t, started), &engineFixture{aws: config.AWS}}, gpuMachines: machines},
		of:       of, account: newAccount(started.Endpoint(), config.AWS.Region), made: &[]client.Object{}, reclaimed: map[string]bool{},
		metrics: freeAddress(t),
	}
	t.Cleanup(func() {
		if s.now != nil && t.Failed() {
			t.Log(logTail(s.now.Log()))
		}
	})
	t.Logf("the sandbox of %s runs after %s", of.Cluster, since(begin))
	s.git = from
	s.bootstraps()
	s.runs("--metrics-addr=" + s.metrics)
	s.applied()
	t.Logf("it is applied after %s", since(begin))
	s.engineRuns()
	s.hasAWS()
	s.history = s.record(&karpv1.NodeClaimList{})
	t.Logf("it is ready after %s", since(begin))
	return s
}

// pushExample makes the example the first commit of a repository of a new user.
func pushExample(t *testing.T, of setups.Setup, user string) *gitLoop {
	t.Helper()
	owner, err := sharedEnv.Git.CreateUser(t.Context(), user)
	if err != nil {
		t.Fatal(err)
	}
	made, err := sharedEnv.Git.CreateRepository(t.Context(), owner, "nodes", true)
	if err != nil {
		t.Fatal(err)
	}
	token, err := sharedEnv.Git.CreateToken(t.Context(), owner, "poolwright", "write:repository")
	if err != nil {
		t.Fatal(err)
	}
	r := newRepo(t, made.URL, owner.Name, token, "live")
	if err := os.CopyFS(r.dir, os.DirFS(exampleOf(of))); err != nil {
		t.Fatal(err)
	}
	r.commit("Add the node pools")
	return &gitLoop{name: path.Base(of.Path), owner: owner, repo: r}
}

// exampleOf is a set-up's folder.
func exampleOf(of setups.Setup) string { return filepath.Join("..", "..", "..", "examples", of.Name) }

func (s setupSuite) example() string { return exampleOf(s.of) }

// bootstraps runs the command of a user's first day, with the repository's token
// where it tells to put it.
func (s setupSuite) bootstraps() {
	s.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "git", Namespace: engineSystem},
		StringData: map[string]string{"username": s.git.owner.Name, "password": s.git.repo.token},
	}
	for _, object := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: engineSystem}}, secret} {
		if err := s.hand.Create(s.Context(), object); err != nil {
			s.Fatal(err)
		}
	}
	// The kubelets are simulated, so the pods of the Deployment do nothing: the
	// controller that works is started beside the environment.
	args := []string{"bootstrap", s.of.Path, "--image=registry.example.com/poolwright:1", "--secret=git", "--branch=live", "--wait=false", "--yes"}
	if s.of.SyncFile != "" {
		args = append(args, "--sync-file="+s.of.SyncFile)
	}
	typed(s.T, s.Environment, s.git.repo.dir, args...).expect(s.T, 0)
}

// applied waits until the Sync is ready at the newest commit.
func (s setupSuite) applied() {
	s.Helper()
	s.eventually("the Sync is ready", func() error {
		sync, err := s.sync()
		if err != nil {
			return err
		}
		return isReady(sync, s.git.repo.revision())
	})
}

// edits replaces texts in a file of the example, where they must be, and returns
// when the commit is applied. The texts are pairs: before, after.
func (s setupSuite) edits(message, file string, texts ...string) {
	s.Helper()
	s.git.repo.replace(file, texts...)
	s.git.repo.commit(message)
	s.requests()
	s.applied()
}

// replace edits a file of the working copy.
func (r *repo) replace(file string, texts ...string) {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, file))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(texts); i += 2 {
		if !bytes.Contains(text, []byte(texts[i])) {
			r.t.Fatalf("%s does not say %q", file, texts[i])
		}
		text = bytes.ReplaceAll(text, []byte(texts[i]), []byte(texts[i+1]))
	}
	r.write(file, string(text))
}

// hasAWS looks in AWS for what the Cluster declares, and was not there before, and
// waits until its status says that all of it is.
func (s setupSuite) hasAWS() {
	s.Helper()
	var spec v1alpha1.ClusterSpec
	s.eventually("AWS is as declared", func() error {
		cluster, err := s.cluster()
		if err != nil {
			return err
		}
		spec = cluster.Spec
		if !meta.IsStatusConditionTrue(cluster.Status.Conditions, "AWSInSync") {
			return fmt.Errorf("the Cluster says %+v, of AWS %+v", cluster.Status.Conditions, cluster.Status.AWS)
		}
		return nil
	})
	var missing []error
	if role := spec.NodeRole; role != nil {
		_, err := s.account.iam.GetRole(s.Context(), &iam.GetRoleInput{RoleName: &role.Name})
		missing = append(missing, err)
		if role.InstanceProfile != "" {
			_, err := s.account.iam.GetInstanceProfile(s.Context(), &iam.GetInstanceProfileInput{InstanceProfileName: &role.InstanceProfile})
			missing = append(missing, err)
		}
	}
	if queue := spec.InterruptionQueue; queue != nil {
		name := queue.Name
		if name == "" {
			name = spec.Name
		}
		_, err := s.account.sqs.GetQueueUrl(s.Context(), &sqs.GetQueueUrlInput{QueueName: &name})
		missing = append(missing, err)
	}
	if d := spec.Discovery; d != nil {
		want := slices.Concat(d.Subnets, d.SecurityGroups)
		slices.Sort(want)
		if got := s.discovered(d.Key, d.Value, spec.Name); !slices.Equal(got, want) {
			missing = append(missing, fmt.Errorf("the discovery tag is on %v, not on %v", got, want))
		}
	}
	if err := errors.Join(missing...); err != nil {
		s.Errorf("AWS lacks what the Cluster declares: %v", err)
	}
}

// discovered are the subnets and security groups that carry the discovery tag.
func (s setupSuite) discovered(key, value, cluster string) (ids []string) {
	s.Helper()
	if key == "" {
		key = "karpenter.sh/discovery"
	}
	if value == "" {
		value = cluster
	}
	out, err := s.account.ec2.DescribeSubnets(s.Context(), &ec2.DescribeSubnetsInput{})
	if err != nil {
		s.Fatal(err)
	}
	groups, err := s.account.ec2.DescribeSecurityGroups(s.Context(), &ec2.DescribeSecurityGroupsInput{})
	if err != nil {
		s.Fatal(err)
	}
	for _, o := range out.Subnets {
		for _, tag := range o.Tags {
			if *tag.Key == key && *tag.Value == value {
				ids = append(ids, *o.SubnetId)
			}
		}
	}
	for _, o := range groups.SecurityGroups {
		for _, tag := range o.Tags {
			if *tag.Key == key && *tag.Value == value {
				ids = append(ids, *o.GroupId)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// creates makes the objects of a file of the example, as kubectl apply does, and
// returns the first. Changes are made to each of them before.
func (s setupSuite) creates(file string, changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(s.example(), file))
	if err != nil {
		s.Fatal(err)
	}
	var all []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			s.Fatal(err)
		}
		for _, change := range changes {
			change(object)
		}
		s.makes(object)
		all = append(all, object)
	}
	if len(all) == 0 {
		s.Fatalf("%s holds no object", file)
	}
	return all[0]
}

// makes creates a workload, which zero deletes, and leaves the object as it is. The default service account of
// a new namespace may not be there at once.
func (s setupSuite) makes(object client.Object) {
	s.Helper()
	s.eventually("there is "+object.GetName(), func() error {
		return s.hand.Create(s.Context(), object.DeepCopyObject().(client.Object))
	})
	*s.made = append(*s.made, object)
}

// zero deletes the workloads and waits until nothing is left that Karpenter made.
func (s setupSuite) zero() {
	s.Helper()
	begin := time.Now()
	for _, object := range *s.made {
		if err := s.hand.Delete(s.Context(), object, client.PropagationPolicy(metav1.DeletePropagationBackground)); client.IgnoreNotFound(err) != nil {
			s.Fatal(err)
		}
	}
	*s.made = nil
	s.until("there is no node of Karpenter's", func() error {
		var claims karpv1.NodeClaimList
		var list corev1.NodeList
		if err := errors.Join(s.hand.List(s.Context(), &claims), s.hand.List(s.Context(), &list, client.HasLabels{karpv1.NodePoolLabelKey})); err != nil {
			return err
		}
		living := map[string]string{}
		for _, i := range s.AWS.Instances() {
			if pool := i.Tags[karpv1.NodePoolLabelKey]; pool != "" && !over(i.State) {
				living[i.ID] = pool
			}
		}
		if len(claims.Items)+len(list.Items)+len(living) > 0 {
			return fmt.Errorf("there are %d NodeClaims, %d nodes, instances %v", len(claims.Items), len(list.Items), slices.Sorted(maps.Keys(living)))
		}
		return nil
	})
	s.Logf("zero came %s after the workloads went", since(begin))
}
