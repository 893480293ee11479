package aws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/connection"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/interruption"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/kindtest"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
	"github.com/poolwright/poolwright/reconciler/targets/targettest"
)

// bench is one test's surroundings: an emulated account, a namespace for the
// inventory, a Sync's target, and a person with the SDK.
type bench struct {
	*testing.T
	cloud  *sandboxaws.Cloud
	server *httptest.Server
	config sandboxaws.Config
	keys   kubernetes.Interface
	rest   *rest.Config
	home   string
	sync   string
	wire   *wire
	target *Target
	// hand is the person with the SDK.
	hand *resource.Clients
	mod  func(*Config)

	mu       sync.Mutex
	reported []Status
}

func (b *bench) hear(s Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reported = append(b.reported, s)
}

// status is what was reported last.
func (b *bench) status() v1alpha1.AWSStatus {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.reported) == 0 {
		b.Fatal("nothing was told")
	}
	return b.reported[len(b.reported)-1].AWS
}

// wire is the way of a Target's requests to AWS.
type wire struct {
	next kindtest.BufferedClient
	// written counts what AWS has changed so far; at the last of them the
	// process dies, where last is not 0.
	written func() int
	last    int

	mu   sync.Mutex
	sent int
	died chan struct{}
}

var errKilled = errors.New("the process was killed")

// Do lets the request have its effect; of a process that dies then, nobody
// hears the answer.
func (w *wire) Do(r *http.Request) (*http.Response, error) {
	select {
	case <-w.died:
		return nil, errKilled
	default:
	}
	w.mu.Lock()
	w.sent++
	w.mu.Unlock()
	response, err := w.next.Do(r)
	if w.last > 0 && w.written() >= w.last {
		w.die()
		return nil, errKilled
	}
	return response, err
}

func (w *wire) die() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.died:
	default:
		close(w.died)
	}
}

func (w *wire) requests() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

func newBench(t *testing.T, change func(*sandboxaws.Config), mods ...func(*Config)) *bench {
	t.Helper()
	var made sandboxaws.Config
	hand, cloud := kindtest.NewCloud(t, func(c *sandboxaws.Config) {
		if change != nil {
			change(c)
		}
		made = *c
	})
	server := httptest.NewServer(cloud)
	t.Cleanup(server.Close)
	b := &bench{T: t, cloud: cloud, server: server, config: made, hand: hand, rest: apiServer(t)}
	b.keys = kubernetes.NewForConfigOrDie(b.rest)
	ns, err := b.keys.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b.home, b.sync = ns.Name, "sync-"+ns.Name
	b.mod = func(c *Config) {
		for _, m := range mods {
			m(c)
		}
	}
	b.restart()
	return b
}

// restart drops all memory, as in a new process would.
func (b *bench) restart() *Target {
	b.Helper()
	b.wire = &wire{next: kindtest.BufferedClient{Client: b.server.Client()}, died: make(chan struct{}), written: func() int { return len(b.writes()) }}
	b.target = b.connect(b.wire)
	return b.target
}

func (b *bench) connect(w *wire) *Target {
	b.Helper()
	cfg := Config{
		REST: b.rest, Sync: b.sync, Namespace: b.home, OnStatus: b.hear,
		AWS: func(_ context.Context, region string) (sdk.Config, error) {
			cfg := kindtest.SDKConfig(b.server, region)
			cfg.HTTPClient = w
			return cfg, nil
		},
	}
	b.mod(&cfg)
	target, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	return target
}

// declare makes the declared set of a Cluster with these parts.
func (b *bench) declare(change func(*v1alpha1.ClusterSpec)) state.Set {
	b.Helper()
	return declareIn(b.T, b.config, change)
}

func declareIn(t *testing.T, config sandboxaws.Config, change func(*v1alpha1.ClusterSpec)) state.Set {
	t.Helper()
	cluster := v1alpha1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Name: "cluster"},
		Spec:       v1alpha1.ClusterSpec{Name: config.Cluster.Name, Region: config.Region, Account: config.Account},
	}
	change(&cluster.Spec)
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&cluster)
	if err != nil {
		t.Fatal(err)
	}
	return state.NewSet(state.Item{
		Key:     state.Key{Target: "kubernetes", Group: v1alpha1.GroupVersion.Group, Kind: "Cluster", Name: "cluster"},
		Version: "v1alpha1", Object: object, Origin: state.Origin{File: "cluster.yaml", Line: 1},
	})
}

// disableRule disables one of the cluster's rules, as a person does, and returns its name.
func (b *bench) disableRule(i int) string {
	b.Helper()
	rule := interruption.RuleNames(b.config.Cluster.Name)[i]
	if _, err := b.hand.Events.DisableRule(b.Context(), &eventbridge.DisableRuleInput{Name: &rule}); err != nil {
		b.Fatal(err)
	}
	return rule
}

func (b *bench) want(declared state.Set) state.Set {
	b.Helper()
	return targettest.Desired(b, b.target, declared)
}

func (b *bench) plan(declared state.Set) plan.Plan {
	b.Helper()
	return targettest.Plan(b, b.target, declared)
}

// apply makes the changes that nothing holds, wave by wave, and returns the
// errors by key. An error ends it, as a stopped run does.
func (b *bench) apply(ctx context.Context, p plan.Plan) map[string]error {
	b.Helper()
	errs := map[string]error{}
	var todo []plan.Change
	for _, c := range p.Changes {
		if c.Admitted() {
			todo = append(todo, c)
		}
	}
	if len(todo) > 0 {
		if err := b.target.Begin(ctx, todo); err != nil {
			b.alive(ctx, err)
			return errs
		}
	}
	for i, c := range todo {
		if ctx.Err() != nil {
			return errs
		}
		one, cancel := context.WithTimeout(ctx, time.Minute)
		if err := b.target.Apply(one, c); err != nil {
			errs[c.Key.String()] = err
			cancel()
			continue
		}
		cancel()
		if c.Action != plan.Delete && (i+1 == len(todo) || todo[i+1].Wave() != c.Wave()) {
			wait, cancel := context.WithTimeout(ctx, time.Minute)
			if _, err := b.target.Ready(wait, []state.Key{c.Key}); err != nil {
				b.alive(ctx, err)
			}
			cancel()
		}
	}
	if ctx.Err() == nil {
		if err := b.target.End(ctx); err != nil {
			b.alive(ctx, err)
		}
	}
	return errs
}

// alive fails for an error of a process that lives.
func (b *bench) alive(ctx context.Context, err error) {
	b.Helper()
	if ctx.Err() == nil {
		b.Fatal(err)
	}
}

// reconcile plans and applies, and fails on any error.
func (b *bench) reconcile(declared state.Set) plan.Plan {
	b.Helper()
	p := b.plan(declared)
	for k, err := range b.apply(b.Context(), p) {
		b.Fatalf("%s: %v", k, err)
	}
	return p
}

// converged fails unless nothing differs, now and for a new process.
func (b *bench) converged(declared state.Set) {
	b.Helper()
	for range 2 {
		if p := b.plan(declared); !p.Empty() {
			b.Fatalf("still differs:\n%s", show(p))
		}
		b.restart()
	}
}

// show writes a plan, one line a field.
func show(p plan.Plan) string {
	var out []string
	for _, c := range p.Changes {
		line := fmt.Sprintf("%s %s", c.Action, c.Key)
		if !c.Admitted() {
			line += " (" + c.Hold.String() + ")"
		}
		out = append(out, line)
		for _, f := range c.Fields {
			out = append(out, fmt.Sprintf("  %s: %v -> %v", f.Path, f.Before, f.After))
		}
	}
	for _, u := range p.Unknown {
		out = append(out, fmt.Sprintf("unknown %s: %s", u.Key, u.Reason))
	}
	return strings.Join(out, "\n")
}

// writes are the operations so far that change something.
func (b *bench) writes() []string {
	var out []string
	for _, c := range b.cloud.Calls() {
		if !connection.IsRead(c.Operation) {
			out = append(out, c.Service+":"+c.Operation)
		}
	}
	return out
}

// fault injects a fault and returns what ends it.
func (b *bench) fault(f sandboxaws.Fault) func() {
	b.Helper()
	end, err := b.cloud.Inject(f)
	if err != nil {
		b.Fatal(err)
	}
	return end
}
