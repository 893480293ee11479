package aws

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"

	sandbox "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

// life is one kind with one declaration, in an emulated account.
type life struct {
	*testing.T
	kind
	c     *clients
	cloud *sandbox.Cloud
	scope scope
}

// at once makes an account in which nothing takes time.
func atOnce(more func(*sandbox.Config)) func(*sandbox.Config) {
	return func(cfg *sandbox.Config) {
		cfg.Delays.Visible, cfg.Delays.Update = 0, 0
		if more != nil {
			more(cfg)
		}
	}
}

func newLife(t *testing.T, k kind, change func(*sandbox.Config), spec v1alpha1.ClusterSpec) *life {
	t.Helper()
	c, cloud := newCloud(t, atOnce(change))
	return &life{T: t, kind: k, c: c, cloud: cloud, scope: defaulted(c, spec)}
}

func defaulted(c *clients, spec v1alpha1.ClusterSpec) scope {
	s := declared(c, spec)
	s.spec = withDefaults(s.spec)
	return s
}

func (l *life) wanted() []state.Item { return l.want(l.scope) }

// declare changes the declaration.
func (l *life) declare(change func(*v1alpha1.ClusterSpec)) {
	l.scope.spec = *l.scope.spec.DeepCopy()
	change(&l.scope.spec)
	l.scope.spec = withDefaults(l.scope.spec)
}

// look reads all wanted things.
func (l *life) look() map[state.Key]liveResource {
	var keys []state.Key
	for _, item := range l.wanted() {
		keys = append(keys, item.Key)
	}
	return l.read(l.Context(), l.c, keys)
}

// see reads one thing that must be there.
func (l *life) see(item state.Item) liveResource {
	l.Helper()
	seen := l.read(l.Context(), l.c, []state.Key{item.Key})[item.Key]
	if seen.err != nil {
		l.Fatalf("%s: %v", item.Key, seen.err)
	}
	return seen
}

// differences are the wanted things that are not as wanted.
func (l *life) differences() []string {
	l.Helper()
	seen := l.look()
	var out []string
	for _, item := range l.wanted() {
		if err := seen[item.Key].err; err != nil {
			l.Fatalf("%s: %v", item.Key, err)
		}
		if !satisfies(item, seen[item.Key]) {
			out = append(out, item.Key.Name)
		}
	}
	return out
}

// correct is what the framework does: it reads each thing and writes what is
// not as wanted.
func (l *life) correct(ctx context.Context, c *clients) error {
	for _, item := range l.wanted() {
		live := l.read(ctx, c, []state.Key{item.Key})[item.Key]
		if live.err != nil {
			return live.err
		}
		if satisfies(item, live) {
			continue
		}
		if err := l.write(ctx, c, item, live); err != nil {
			return err
		}
	}
	return nil
}

// settle corrects, and checks that everything is then as wanted, and that a
// second look sends nothing but reads.
func (l *life) settle() {
	l.Helper()
	if err := l.correct(l.Context(), l.c); err != nil {
		l.Fatal(err)
	}
	seen := l.look()
	for _, item := range l.wanted() {
		if diff := cmp.Diff(item.Object, project(item.Object, seen[item.Key].object)); diff != "" {
			l.Errorf("%s after its correction (-wanted +live):\n%s", item.Key, diff)
		}
		if seen[item.Key].uid == "" {
			l.Errorf("%s has no identity", item.Key)
		}
	}
	before := len(l.cloud.Calls())
	if err := l.correct(l.Context(), l.c); err != nil {
		l.Fatal(err)
	}
	for _, call := range l.cloud.Calls()[before:] {
		if !reads(call.Operation) {
			l.Errorf("with nothing to do it sent %s", call.Operation)
		}
	}
}

// calls lists the operations since the n-th call, with how often.
func (l *life) calls(n int) map[string]int {
	out := map[string]int{}
	for _, call := range l.cloud.Calls()[n:] {
		out[call.Operation]++
	}
	return out
}

// broken breaks one thing by hand, checks that it is observed, and has it put
// right.
func (l *life) broken(how string, by func()) {
	l.Helper()
	if bad := l.differences(); len(bad) > 0 {
		l.Fatalf("before %s: %v differ", how, bad)
	}
	by()
	if len(l.differences()) == 0 {
		l.Errorf("%s: nothing is seen of it", how)
	}
	l.settle()
}

// mortal is a client of the same account whose n-th request, and all after it,
// find the process dead: late of them have had their effect.
func (l *life) mortal(n int64, late bool) *clients {
	o := l.c.sqs.Options()
	var sent atomic.Int64
	return newClients(sdk.Config{
		Region: l.c.place.Region, BaseEndpoint: o.BaseEndpoint, RetryMaxAttempts: 1, Credentials: o.Credentials,
		HTTPClient: doing(func(r *http.Request) (*http.Response, error) {
			turn := sent.Add(1)
			if turn > n || turn == n && !late {
				return nil, errDead
			}
			answer, err := o.HTTPClient.Do(r)
			if err == nil && turn == n {
				_ = answer.Body.Close()
				return nil, errDead
			}
			return answer, err
		}),
	}, l.c.place, l.c.clock)
}

var errDead = errors.New("the process is dead")

type doing func(*http.Request) (*http.Response, error)

func (d doing) Do(r *http.Request) (*http.Response, error) { return d(r) }

// survives kills the correction at each of its requests, before and after its
// effect, and has the next life put everything right. make sets up a life in
// which there is something to do.
func survives(t *testing.T, set func(t *testing.T) *life) {
	t.Helper()
	for n := int64(1); ; n++ {
		ended := false
		for _, late := range []bool{false, true} {
			l := set(t)
			err := l.correct(t.Context(), l.mortal(n, late))
			if err != nil && !errors.Is(err, errDead) {
				t.Fatalf("killed at request %d: %v", n, err)
			}
			ended = err == nil
			l.settle()
		}
		if ended {
			if n < 3 {
				t.Fatalf("there was nothing to kill: all was done in %d requests", n-1)
			}
			return
		}
		if n > 100 {
			t.Fatal("it never ends")
		}
	}
}

// removed removes all wanted things, twice, and checks that they are gone.
func (l *life) removed() {
	l.Helper()
	for _, item := range l.wanted() {
		live := l.see(item)
		for range 2 {
			if err := l.remove(l.Context(), l.c, item.Key, live); err != nil {
				l.Fatalf("removing %s: %v", item.Key, err)
			}
		}
		if l.see(item).object != nil {
			l.Errorf("%s is still there", item.Key)
		}
	}
}

// asks checks which operations one look costs.
func (l *life) asks(want map[string]int) {
	l.Helper()
	before := len(l.cloud.Calls())
	l.look()
	if diff := cmp.Diff(want, l.calls(before)); diff != "" {
		l.Errorf("one look (-want +got):\n%s", diff)
	}
}

// denied makes one operation fail, and checks that every thing that it reports of
// is unknown: neither there nor gone.
func (l *life) denied(service string, operations ...string) {
	l.Helper()
	for _, op := range operations {
		stop, err := l.cloud.Inject(sandbox.Fault{Service: service, Operation: op, Code: "AccessDenied", Status: http.StatusForbidden, Message: "User is not authorized to perform: x:" + op})
		if err != nil {
			l.Fatal(err)
		}
		seen := l.look()
		stop()
		for _, item := range l.wanted() {
			s := seen[item.Key]
			if s.err == nil || s.object != nil {
				l.Errorf("with %s denied, %s is %v, not unknown", op, item.Key, s.object)
				continue
			}
			if !denied(s.err) {
				l.Errorf("with %s denied, %s says %v", op, item.Key, s.err)
			}
		}
	}
}

// do fails the test when a request by hand does; use it as do(t)(answer, err).
func (l *life) do(_ any, err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// late makes one operation say once that it knows nothing of what was made a
// moment ago, and checks that the writer is then told to come again.
func (l *life) late(service, operation string) {
	l.Helper()
	_, err := l.cloud.Inject(sandbox.Fault{Service: service, Operation: operation, Code: "ResourceNotFoundException", Times: 1})
	if err != nil {
		l.Fatal(err)
	}
	if err := l.correct(l.Context(), l.c); !errors.Is(err, errNotYet) {
		l.Errorf("with %s late: %v", operation, err)
	}
	l.settle()
}

func names(items []state.Item) []string {
	var out []string
	for _, i := range items {
		out = append(out, i.Key.Name)
	}
	return out
}

func TestEveryKindOfThesePartsIsInTheTable(t *testing.T) {
	c, _ := newCloud(t, nil)
	s := defaulted(c, v1alpha1.ClusterSpec{
		Discovery:         &v1alpha1.Discovery{Subnets: []string{"subnet-1"}, SecurityGroups: []string{"sg-1"}},
		InterruptionQueue: &v1alpha1.InterruptionQueue{},
		Logging:           &v1alpha1.Logging{Types: []v1alpha1.LogType{"api"}, RetentionDays: 30},
		SystemNodeGroups:  []v1alpha1.SystemNodeGroup{{Name: "system", InstanceTypes: []string{"t3.small"}}},
		Version:           "1.33",
		Addons:            []v1alpha1.Addon{{Name: "vpc-cni"}},
	})
	seen := map[string]int{}
	for of, k := range kinds() {
		for _, item := range k.want(s) {
			if item.Key.Group != of.service || item.Key.Kind != of.kind || item.Key.Target != Name || item.Key.Namespace != s.Region {
				t.Errorf("%v wants %+v", of, item.Key)
			}
			seen[item.Key.Kind]++
		}
	}
	want := map[string]int{
		"Queue": 1, "Rule": 5, "LogGroup": 1, "Logging": 1, "Version": 1, "Addon": 1, "NodeGroup": 1, "NodeGroupHardware": 1, "SubnetTag": 1, "SecurityGroupTag": 1,
	}
	maps.DeleteFunc(seen, func(k string, _ int) bool { _, mine := want[k]; return !mine })
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for of, k := range kinds() {
		if got := k.want(defaulted(c, v1alpha1.ClusterSpec{})); len(got) > 0 {
			t.Errorf("without any part %v wants %v", of, names(got))
		}
	}
}

func TestHeldItemsNameTheCommandThatChangesThem(t *testing.T) {
	c, _ := newCloud(t, nil)
	s := defaulted(c, v1alpha1.ClusterSpec{
		Version: "1.34",
		Addons:  []v1alpha1.Addon{{Name: "vpc-cni"}, {Name: "x; rm -rf 'y'", Version: "v1"}},
		SystemNodeGroups: []v1alpha1.SystemNodeGroup{
			{Name: "system", InstanceTypes: []string{"t3.small", "m5.large"}, DiskSize: sdk.Int32(50), CapacityType: "SPOT"},
		},
	})
	for _, tt := range []struct {
		kind kind
		want []string
	}{
		{versions{}, []string{"aws eks update-cluster-version --name sandbox --kubernetes-version 1.34 --region us-east-1"}},
		{addons{}, []string{
			"aws eks update-addon --cluster-name sandbox --addon-name vpc-cni --region us-east-1",
			`aws eks update-addon --cluster-name sandbox --addon-name 'x; rm -rf '\''y'\''' --addon-version v1 --region us-east-1`,
		}},
		{nodeGroupHardwares{}, []string{
			"aws eks create-nodegroup --cluster-name sandbox --nodegroup-name NEW-NAME --node-role ROLE-ARN --subnets SUBNET-IDS --instance-types t3.small m5.large --disk-size 50 --capacity-type SPOT --region us-east-1",
			"aws eks delete-nodegroup --cluster-name sandbox --nodegroup-name system --region us-east-1",
		}},
	} {
		var all []string
		for _, item := range tt.kind.want(s) {
			if item.CompareOnly == "" {
				t.Errorf("%s is not held", item.Key)
			}
			all = append(all, item.CompareOnly)
			if err := tt.kind.write(t.Context(), c, item, liveResource{}); err == nil {
				t.Errorf("%s was written", item.Key)
			}
			if err := tt.kind.remove(t.Context(), c, item.Key, liveResource{}); err == nil {
				t.Errorf("%s was removed", item.Key)
			}
		}
		for _, w := range tt.want {
			if !slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, w) }) {
				t.Errorf("no hold of %s says %q: %s", fmt.Sprintf("%T", tt.kind), w, strings.Join(all, "\n"))
			}
		}
	}
}
