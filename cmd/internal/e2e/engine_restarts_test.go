package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/provision/sandbox/gitserver"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// killedInALaunch: SIGKILL when EC2 has launched and its answer is still on its
// way, so that nobody knows of the instance. Git is down meanwhile, and stays so.
func (s engineSuite) killedInALaunch() {
	git := s.followGit("killed")
	const pool = "afterwards"
	s.addPool(pool, []string{onDemand}, "m5.2xlarge")
	s.setConsolidation("1h")
	ctx, stop := context.WithCancel(s.Context())
	defer stop()
	events := s.AWS.Watch(ctx)
	s.inject(sandboxaws.Fault{Service: "ec2", Operation: "CreateFleet", Match: gpuPool, Delay: time.Minute, Times: 1})
	s.addPod(gpuPool)
	lost := s.awaits(events, gpuPool, sandboxaws.Pending)
	heldBefore := len(s.logged("The engine is held"))
	if err := s.now.Kill(); err != nil {
		s.Fatal(err)
	}
	claims, err := s.claims(gpuPool)
	if err != nil || len(claims) != 1 || claims[0].Status.ProviderID != "" {
		s.Fatalf("the kill was not in between: %v, %+v", err, claims)
	}
	git.proxy.down()

	begin := time.Now()
	s.start()
	s.eventually("there is one instance, which is the NodeClaim's", func() error {
		_, err := s.nodeWithPod(gpuPool)
		return err
	})
	s.Logf("one instance per NodeClaim %s after the restart", since(begin))
	if len(s.terminations(lost.ID)) != 1 {
		s.Errorf("%v, of which nobody knew, was ended by %v", lost, s.terminations(lost.ID))
	}
	s.engineRuns()
	c, err := s.cluster()
	if err != nil {
		s.Fatal(err)
	}
	if meta.IsStatusConditionTrue(c.Status.Conditions, "EngineBlocked") || len(s.logged("The engine is held")) > heldBefore {
		s.Errorf("the engine was held: %+v", c.Status.Conditions)
	}
	s.claimsAreUnique()

	s.addPod(pool)
	s.waitForNodeWithPod(pool)
	s.eventually("Git is missed", func() error { return git.isReady(s, metav1.ConditionFalse, "SourceUnavailable") })
	git.proxy.up()
	s.eventually("the Sync is ready again", func() error { return git.isReady(s, metav1.ConditionTrue, "") })
}

// awaits returns the pool's next instance that enters a state.
func (s engineSuite) awaits(events <-chan sandboxaws.Event, pool string, state sandboxaws.State) sandboxaws.Instance {
	s.Helper()
	late := time.After(waitTimeout)
	for {
		select {
		case e := <-events:
			if e.Kind == state && e.Instance.Tags[karpv1.NodePoolLabelKey] == pool {
				return e.Instance
			}
		case <-late:
			s.Fatalf("no instance of pool %s was %s within %s", pool, state, waitTimeout)
		}
	}
}

// standbyTakesOver: two replicas run, and one acts. It is killed when EC2 has
// begun to end an empty node's instance, that of the step before, and its answer
// is still on its way.
func (s engineSuite) standbyTakesOver() {
	const pool, kind = "two", "m5ad.2xlarge"
	leader := s.now
	waiting := len(s.logged("Attempting to acquire leader lease"))
	s.startReplica("poolwright-standby")
	s.eventually("the standby waits for the lease", func() error {
		return more(len(s.logged("Attempting to acquire leader lease")), waiting)
	})
	s.addPool(pool, []string{onDemand}, kind)
	s.addPod(pool)
	s.waitForNodeWithPod(pool)
	if tried := s.fleets(kind); len(tried) != 1 {
		s.Errorf("two replicas launched %d times: %v", len(tried), tried)
	}

	empty := s.waitForNodeWithPod(gpuPool)
	ctx, stop := context.WithCancel(s.Context())
	defer stop()
	events := s.AWS.Watch(ctx)
	s.inject(sandboxaws.Fault{Service: "ec2", Operation: "TerminateInstances", Match: empty.ID, Delay: time.Minute, Times: 1})
	s.setConsolidation("5s")
	s.dropPod(gpuPool)
	s.awaits(events, gpuPool, sandboxaws.ShuttingDown)
	if err := leader.Kill(); err != nil {
		s.Fatal(err)
	}
	killed := time.Now()
	s.eventually("nothing is left of the pool", func() error {
		claims, err := s.claims(gpuPool)
		if err == nil && len(claims) > 0 {
			err = fmt.Errorf("%d NodeClaims", len(claims))
		}
		return err
	})
	s.Logf("the standby had finished %s after the kill", since(killed))
}

const restarting = "Restarting to follow the Cluster object"

// settingsChange: two edits in a row are one restart, ten seconds after the
// second; the nodes and their pods notice nothing. Settings that cannot work are
// reported, and those before go on.
func (s engineSuite) settingsChange() {
	const pool, later = "untouched", "undeterred"
	s.addPool(pool, []string{onDemand}, "r5a.xlarge")
	s.addPool(later, []string{onDemand}, "r5.2xlarge")
	s.addPod(pool)
	s.waitForNodeWithPod(pool)
	before, pid, earlier := s.plainPod(pool), s.now.PID(), s.logged(restarting)
	restarts := func() []string {
		return slices.DeleteFunc(s.logged(restarting), func(line string) bool { return slices.Contains(earlier, line) })
	}

	s.engineSet(`{"batchMaxDuration":"9s"}`)
	edited := time.Now()
	s.engineSet(`{"batchMaxDuration":"8s"}`)
	s.engineRuns()
	s.Logf("the engine ran again %s after the last edit", since(edited))
	once := restarts()
	if len(once) != 1 {
		s.Fatalf("there were the restarts %v", once)
	}
	// The log's times end with milliseconds.
	if rest := s.loggedAt(once[0]).Sub(edited); rest < 10*time.Second-time.Millisecond {
		s.Errorf("the settings had only %s to rest", rest)
	}
	if s.now.PID() != pid {
		s.Error("it is another process")
	}

	defer s.engineSet(`{"batchIdleDuration":"100ms"}`) // whatever comes of it
	// What the API server itself can refuse does not come this far.
	s.engineSet(`{"batchIdleDuration":"5ms"}`)
	s.eventually("the settings are refused", func() error { return s.isReady("InvalidSettings", metav1.ConditionFalse) })
	c, err := s.cluster()
	if err != nil {
		s.Fatal(err)
	}
	if message := meta.FindStatusCondition(c.Status.Conditions, "Ready").Message; !strings.Contains(message, "spec.engine.batchIdleDuration is 5ms") || !strings.Contains(message, "10ms") {
		s.Errorf("the message does not say what to do: %s", message)
	}
	s.addPod(later)
	s.waitForNodeWithPod(later)
	s.engineSet(`{"batchIdleDuration":"100ms"}`)
	s.engineRuns()
	if all := restarts(); len(all) != 1 {
		s.Errorf("there were the restarts %v in all", all)
	}
	if after := s.plainPod(pool); after != before {
		s.Errorf("before %s, after %s", before, after)
	}
}

// plainPod names a pool's incarnations: NodeClaim, instance, pod.
func (s engineSuite) plainPod(pool string) string {
	s.Helper()
	instance, err := s.nodeWithPod(pool)
	if err != nil {
		s.Fatal(err)
	}
	claims, err := s.claims(pool)
	if err != nil {
		s.Fatal(err)
	}
	pods, err := s.pods(pool)
	if err != nil {
		s.Fatal(err)
	}
	restarts := int32(0)
	for _, c := range pods[0].Status.ContainerStatuses {
		restarts += c.RestartCount
	}
	return fmt.Sprintf("NodeClaim %s, %s, pod %s with %d restarts", claims[0].UID, instance.ID, pods[0].UID, restarts)
}

// loggedAt is a log line's time.
func (s engineSuite) loggedAt(line string) time.Time {
	s.Helper()
	var got struct{ TS string }
	if err := json.Unmarshal([]byte(line), &got); err != nil {
		s.Fatal(err)
	}
	at, err := time.Parse("2006-01-02T15:04:05.000Z0700", got.TS)
	if err != nil {
		s.Fatal(err)
	}
	return at
}

// autoModeHolds: EKS runs nodes itself, so the engine must not. Whatever else
// the controller does goes on, and the engine comes back by itself.
func (s engineSuite) autoModeHolds() {
	const pool = "held"
	s.addPool(pool, []string{onDemand}, "m5a.2xlarge")
	git := s.followGit("held")
	if err := s.now.Stop(s.Context()); err != nil {
		s.Fatal(err)
	}
	s.setAutoMode(true)
	s.start()
	s.eventually("the engine is held", func() error { return s.isReady("AutoModeEnabled", metav1.ConditionFalse) })
	c, err := s.cluster()
	if err != nil {
		s.Fatal(err)
	}
	held := meta.FindStatusCondition(c.Status.Conditions, "EngineBlocked")
	if held == nil || held.Status != metav1.ConditionTrue || held.Reason != "AutoModeEnabled" || !strings.Contains(held.Message, "Auto Mode") || !strings.Contains(held.Message, ": ") {
		s.Errorf("EngineBlocked is %+v", held)
	} else {
		s.Logf("EngineBlocked says: %s", held.Message)
	}
	s.addPod(pool)
	git.push(s, "v2")
	if claims, err := s.claims(pool); err != nil || len(claims) > 0 {
		s.Errorf("a held engine made %+v, %v", claims, err)
	}
	s.setAutoMode(false)
	opened := time.Now()
	s.engineRuns()
	s.Logf("the engine ran %s after Auto Mode was off", since(opened))
	s.waitForNodeWithPod(pool)
}

func (s engineSuite) setAutoMode(on bool) {
	s.Helper()
	cluster, rest := s.aws.Cluster, s.REST()
	cluster.Endpoint, cluster.CA, cluster.AutoMode = rest.Host, rest.CAData, on
	if err := s.AWS.SetCluster(cluster); err != nil {
		s.Fatal(err)
	}
}

// gitLoop is a Sync in the engine's environment. Its repository is in the other one.
type gitLoop struct {
	name  string
	owner gitserver.Account
	repo  *repo
	proxy *gitProxy
}

// followGit makes a repository with one ConfigMap, and a Sync that follows it.
func (s engineSuite) followGit(name string) *gitLoop {
	s.Helper()
	ctx := s.Context()
	owner, err := sharedEnv.Git.CreateUser(ctx, "engine-"+name)
	if err != nil {
		s.Fatal(err)
	}
	made, err := sharedEnv.Git.CreateRepository(ctx, owner, "nodes", true)
	if err != nil {
		s.Fatal(err)
	}
	token, err := sharedEnv.Git.CreateToken(ctx, owner, "poolwright", "write:repository")
	if err != nil {
		s.Fatal(err)
	}
	g := &gitLoop{name: name, owner: owner, repo: newRepo(s.T, made.URL, owner.Name, token, "live"), proxy: newGitProxy(s.T)}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: engineSystem},
		StringData: map[string]string{"username": owner.Name, "password": token},
	}
	sync := &v1alpha1.Sync{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: engineSystem},
		Spec: v1alpha1.SyncSpec{
			Source: v1alpha1.Source{Git: v1alpha1.GitSource{
				URL: g.proxy.url() + "/" + owner.Name + "/nodes.git",
				Ref: v1alpha1.GitRef{Branch: g.repo.branch}, SecretRef: &v1alpha1.SecretRef{Name: name},
			}},
			Path: "config", Interval: metav1.Duration{Duration: interval},
		},
	}
	for _, object := range []client.Object{secret, sync} {
		if err := s.hand.Create(ctx, object); err != nil {
			s.Fatal(err)
		}
	}
	g.push(s, "v1")
	return g
}

// push commits a value and waits until it is live.
func (g *gitLoop) push(s engineSuite, value string) {
	s.Helper()
	g.repo.write("config/value.yaml", fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: default}\ndata: {value: %s}\n", g.name, value))
	g.repo.commit("Say " + value)
	s.eventually("the commit is applied", func() error {
		var live corev1.ConfigMap
		err := s.hand.Get(s.Context(), client.ObjectKey{Namespace: "default", Name: g.name}, &live)
		if err == nil && live.Data["value"] != value {
			err = fmt.Errorf("it holds %v", live.Data)
		}
		return err
	})
	s.eventually("the Sync is ready", func() error { return g.isReady(s, metav1.ConditionTrue, "") })
}

// isReady says how the Sync's condition Ready differs; no reason means any.
func (g *gitLoop) isReady(s engineSuite, status metav1.ConditionStatus, reason string) error {
	var sync v1alpha1.Sync
	if err := s.hand.Get(s.Context(), client.ObjectKey{Namespace: engineSystem, Name: g.name}, &sync); err != nil {
		return err
	}
	ready := meta.FindStatusCondition(sync.Status.Conditions, "Ready")
	if ready == nil || ready.Status != status || reason != "" && ready.Reason != reason {
		return fmt.Errorf("sync %s: Ready is %+v", g.name, ready)
	}
	return nil
}
