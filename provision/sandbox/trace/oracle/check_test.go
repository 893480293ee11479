package oracle

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

var (
	a = trace.Object{Kind: "configmaps", Namespace: "apps", Name: "a"}
	b = trace.Object{Kind: "configmaps", Namespace: "apps", Name: "b"}
)

// ordered puts records in order, two seconds apart: each gets its place, and a request its end.
func ordered(steps ...any) []trace.Record {
	var out []trace.Record
	for _, s := range steps {
		r := trace.Record{N: 2*len(out) + 1}
		r.Begin = time.Unix(int64(r.N), 0)
		switch s := s.(type) {
		case trace.Event:
			r.Event = &s
		case trace.Request:
			r.Request, r.Done, r.End = &s, r.N+1, r.Begin
		}
		out = append(out, r)
	}
	return out
}

func started(client string) trace.Event {
	return trace.Event{Kind: trace.Started, Client: client}
}

func committed(objects ...trace.Object) trace.Event {
	e := trace.Event{Kind: trace.Committed}
	for _, o := range objects {
		e.Declared = append(e.Declared, trace.State{Object: o, Value: "v1"})
	}
	return e
}

func write(client, verb string, o trace.Object, uid string) trace.Request {
	return trace.Request{Wire: trace.Kubernetes, Client: client, Verb: verb, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: uid, Status: 200}
}

// historyObject is one of the ConfigMaps of the history.
var historyObject = trace.Object{Kind: historyKind, Namespace: "system", Name: "poolwright-history"}

func lease(client string) trace.Request {
	q := write(client, "update", trace.Object{Kind: "leases.coordination.k8s.io", Namespace: "system", Name: "poolwright"}, "")
	q.Holder = &client
	return q
}

// released is a lease that is given back.
func released(client string) trace.Request {
	q := lease(client)
	q.Holder = new(string)
	return q
}

// found is what a scenario observes in the end, all of it in the inventory.
func found(live ...trace.State) trace.Event {
	e := trace.Event{Kind: trace.Observed, Live: live}
	for _, l := range live {
		e.Inventory = append(e.Inventory, trace.State{Object: l.Object, UID: l.UID})
	}
	return e
}

// ended is a trace that converges to a alone.
func ended() []any {
	return []any{trace.Event{Kind: trace.Converged}, found(trace.State{Object: a, Value: "v1", UID: "uid-a"})}
}

func with(before ...any) []trace.Record { return ordered(append(before, ended()...)...) }

func comment(verb, kind, name, id string) trace.Request {
	return trace.Request{Wire: trace.Forge, Client: "c1", Verb: verb, Kind: kind, Name: name, UID: id, Status: 201}
}

func TestTheOracle(t *testing.T) {
	first := []any{started("c1"), lease("c1"), committed(a, b), write("c1", "patch", a, "uid-a"), write("c1", "patch", b, "uid-b")}
	on := func(more ...any) []trace.Record { return with(append(append([]any{}, first...), more...)...) }
	failed := write("c1", "delete", a, "uid-a")
	failed.Status = 409
	leaked := write("c1", "patch", a, "uid-a")
	leaked.Secrets = []string{"git token"}
	planted := trace.Event{Kind: trace.SecretAdded, Secret: "git token", Wires: []trace.Wire{trace.Git}}
	plugin := trace.Object{Kind: pods, Namespace: "kube-system", Name: "nvidia-device-plugin-a"}
	disruptable := trace.Event{Kind: trace.DisruptionAllowed, Object: trace.Object{Kind: pods, Namespace: plugin.Namespace}}
	broken := map[string]bool{}
	for _, c := range []struct {
		name    string
		records []trace.Record
		// want is the beginning of each violation: its rule and detail.
		want []string
	}{
		{"a deletion of what a commit removed is allowed", on(committed(a), write("c1", "delete", b, "uid-b")), nil},
		{"a deletion that failed is none", on(committed(a), write("c1", "delete", b, "uid-b"), failed), nil},
		{"a process that ends by itself",
			on(committed(a), trace.Event{Kind: trace.Ended, Client: "c1", Reason: "exit status 2"}), []string{"lives: c1 ended: exit status 2"}},
		{"what never converges", ordered(started("c1"), committed(a), trace.Event{Kind: trace.Stuck, Reason: "waited in vain"}),
			[]string{"converges: waited in vain", "converges: the trace ends before"}},
		{"an object that is not made", ordered(started("c1"), committed(a, b), found(trace.State{Object: a, Value: "v1", UID: "uid-a"})),
			[]string{`converges: configmaps apps/b: declared "v1", live not at all`}},
		{"an object that is left", ordered(started("c1"), committed(a), found(trace.State{Object: a, Value: "v1", UID: "uid-a"}, trace.State{Object: b, Value: "v1", UID: "uid-b"})),
			[]string{`converges: configmaps apps/b: declared not at all, live "v1"`, `converges: configmaps apps/b: live with UID not at all`}},
		{"what a person made, or marked to be kept, stays", ordered(started("c1"), committed(a), trace.Event{Kind: trace.ForeignCreated, Object: b, UID: "uid-b"}, trace.Event{Kind: trace.Observed,
			Live: []trace.State{{Object: a, Value: "v1", UID: "uid-a"}, {Object: b, Value: "v1", UID: "uid-b"}}, Inventory: []trace.State{{Object: a, UID: "uid-a"}}}), nil},
		{"an older content", ordered(started("c1"), committed(a), found(trace.State{Object: a, Value: "v0", UID: "uid-a"})),
			[]string{`converges: configmaps apps/a: declared "v1", live "v0"`}},
		{"an inventory with another incarnation",
			ordered(started("c1"), committed(a), trace.Event{Kind: trace.Observed, Live: []trace.State{{Object: a, Value: "v1", UID: "uid-a"}}, Inventory: []trace.State{{Object: a, UID: "uid-0"}}}),
			[]string{`converges: configmaps apps/a: live with UID "uid-a", in the inventory "uid-0"`}},
		{"a write after all is as declared", ordered(started("c1"), lease("c1"), committed(a), trace.Event{Kind: trace.Converged}, write("c1", "patch", a, "uid-a"), found(trace.State{Object: a, Value: "v1", UID: "uid-a"})),
			[]string{"idle: patch configmaps apps/a"}},
		{"a renewal after all is as declared is none", ordered(started("c1"), committed(a), trace.Event{Kind: trace.Converged}, lease("c1"), found(trace.State{Object: a, Value: "v1", UID: "uid-a"})), nil},
		{"a write of the history after all is as declared is none", ordered(started("c1"), lease("c1"), committed(a), trace.Event{Kind: trace.Converged},
			write("c1", "update", historyObject, "uid-h"), found(trace.State{Object: a, Value: "v1", UID: "uid-a"})), nil},
		{"writes of the history without pause after all is as declared", ordered(slices.Concat([]any{started("c1"), lease("c1"), committed(a), trace.Event{Kind: trace.Converged}},
			slices.Repeat([]any{write("c1", "update", historyObject, "uid-h")}, 22), []any{found(trace.State{Object: a, Value: "v1", UID: "uid-a"})})...),
			[]string{"idle: update configmaps/history system/poolwright-history, 21 times in 42s", "idle: update configmaps/history system/poolwright-history, 22 times in 44s"}},
		{"a person's write after all is as declared is none", ordered(started("c1"), committed(a), trace.Event{Kind: trace.Converged}, write("person", "patch", a, "uid-a"), found(trace.State{Object: a, Value: "v1", UID: "uid-a"})), nil},
		{"a comment after all is as declared", with(started("c1"), lease("c1"), committed(a), trace.Event{Kind: trace.Converged}, comment("post", commentsOfPull, "team/nodes#7", "1")),
			[]string{"idle: post issues/comments team/nodes#7"}},
		{"a comment after a proposal is none", with(started("c1"), lease("c1"), committed(a), trace.Event{Kind: trace.Converged}, trace.Event{Kind: trace.Proposed}, comment("post", commentsOfPull, "team/nodes#7", "1")), nil},
		{"a write after a further commit is none", ordered(started("c1"), lease("c1"), committed(b), trace.Event{Kind: trace.Converged}, committed(a), write("c1", "patch", a, "uid-a"), found(trace.State{Object: a, Value: "v1", UID: "uid-a"})), nil},
		{"a write that follows an edit by hand", on(committed(a), trace.Event{Kind: trace.Converged}, trace.Event{Kind: trace.Edited, Object: a}, write("c1", "patch", a, "uid-a")), nil},
		{"a deletion of what is declared", on(write("c1", "delete", a, "uid-a"), committed(a), write("c1", "delete", b, "uid-b")),
			[]string{"deletions: deletes configmaps apps/a (UID uid-a), which every followed commit declares"}},
		{"a deletion by an older commit that is still applied is allowed", on(committed(a), committed(a, b), write("c1", "delete", b, "uid-b"), committed(a)), nil},
		{"a deletion by an older commit that the leader follows while another process begins",
			on(committed(a), committed(a, b), started("c2"), write("c1", "delete", b, "uid-b"), committed(a)), nil},
		{"a deletion by an older commit that no process has read",
			on(committed(a), committed(a, b), trace.Event{Kind: trace.Ended, Client: "c1"}, started("c2"), lease("c2"), write("c2", "delete", b, "uid-b"), committed(a)),
			[]string{"deletions: deletes configmaps apps/b (UID uid-b), which every followed commit declares"}},
		{"a deletion of what no commit declares, where there is none", ordered(started("c1"), lease("c1"), write("c1", "create", a, "uid-a"), write("c1", "delete", a, "uid-a")), nil},
		{"a pod of a namespace whose pods may be deleted", on(committed(a), disruptable, write("c1", "delete", plugin, "uid-p")), nil},
		{"a pod of another namespace than that", on(committed(a), disruptable, write("c1", "delete", trace.Object{Kind: pods, Namespace: "apps", Name: "p"}, "uid-p")),
			[]string{"deletions: deletes pods apps/p (UID uid-p), an incarnation that the product did not make"}},
		{"all pods of a namespace whose pods may be deleted", on(committed(a), disruptable, write("c1", "deletecollection", trace.Object{Kind: pods, Namespace: "kube-system"}, "")),
			[]string{"deletions: deletes pods kube-system/ (UID ), a whole collection"}},
		{"a deletion of a kubelet's node is none of these", on(committed(a), write("c1", "delete", b, "uid-b"), write("c1", "delete", trace.Object{Kind: "nodes", Name: "n"}, "uid-n")), nil},
		{"a deletion of what an earlier release applied and a commit removed is allowed", ordered(append([]any{trace.Event{Kind: trace.AppliedBefore, UID: "uid-b"}, started("c1"), lease("c1"),
			committed(a), write("c1", "patch", a, "uid-a"), write("c1", "delete", b, "uid-b")}, ended()...)...), nil},
		{"a deletion of what an earlier release applied and is declared", ordered(append([]any{trace.Event{Kind: trace.AppliedBefore, UID: "uid-b"}, started("c1"), lease("c1"),
			committed(a, b), write("c1", "patch", a, "uid-a"), write("c1", "delete", b, "uid-b"), committed(a)}, ended()...)...),
			[]string{"deletions: deletes configmaps apps/b (UID uid-b), which every followed commit declares"}},
		{"a deletion of another incarnation", on(committed(a), trace.Event{Kind: trace.ForeignCreated, Object: b, UID: "uid-2"}, write("c1", "delete", b, "uid-2")),
			[]string{"deletions: deletes configmaps apps/b (UID uid-2), an incarnation that the product did not make"}},
		{"a deletion of what a person keeps", on(committed(a), trace.Event{Kind: trace.PruneDisabled, Object: b, UID: "uid-b"}, write("c1", "delete", b, "uid-b")),
			[]string{"deletions: deletes configmaps apps/b (UID uid-b), which a person had marked to be kept"}},
		{"a deletion with which more goes than anybody gave up", on(committed(a), trace.Event{Kind: trace.LossAdded, Object: b, UID: "uid-b"}, write("c1", "delete", b, "uid-b")),
			[]string{"deletions: deletes configmaps apps/b (UID uid-b), with which something goes that nobody confirmed"}},
		{"a deletion of a collection", on(committed(a), write("c1", "deletecollection", b, "")),
			[]string{"deletions: deletes configmaps apps/b (UID ), a whole collection"}},
		{"a write of a process that has lost the lease", with(started("c1"), started("c2"), committed(a), lease("c1"), write("c1", "patch", a, "uid-a"), lease("c2"), write("c1", "patch", a, "uid-a")),
			[]string{`leader: c1: patch configmaps apps/a while "c2" led`}},
		{"a write of a process that leads after another", with(started("c1"), started("c2"), committed(a), lease("c1"), write("c1", "patch", a, "uid-a"), lease("c2"), write("c2", "patch", a, "uid-a")), nil},
		{"a comment of a process that has lost the lease", with(started("c1"), started("c2"), committed(a), lease("c1"), write("c1", "patch", a, "uid-a"), lease("c2"), comment("post", commentsOfPull, "team/nodes#7", "1")),
			[]string{`leader: c1: post issues/comments team/nodes#7 while "c2" led`}},
		{"a write after the lease was given back", with(started("c1"), committed(a), lease("c1"), released("c1"), write("c1", "patch", a, "uid-a")),
			[]string{`leader: c1: patch configmaps apps/a while "" led`}},
		{"a write of a process that took the lease again", with(started("c1"), committed(a), lease("c1"), released("c1"), lease("c1"), write("c1", "patch", a, "uid-a")), nil},
		{"a write of who has not read yet that a person deleted the lease", with(started("c1"), started("c2"), committed(a), lease("c1"), trace.Event{Kind: trace.LeaseDeleted}, lease("c2"), write("c1", "patch", a, "uid-a")), nil},
		{"a write of who must have read by now that a person deleted the lease", with(started("c1"), started("c2"), committed(a), lease("c1"), trace.Event{Kind: trace.LeaseDeleted},
			lease("c2"), lease("c2"), lease("c2"), lease("c2"), lease("c2"), write("c1", "patch", a, "uid-a")),
			[]string{`leader: c1: patch configmaps apps/a while "c2" led`}},
		{"a write of a third process after a person deleted the lease", with(started("c1"), started("c2"), started("c3"), committed(a), lease("c1"), trace.Event{Kind: trace.LeaseDeleted}, lease("c2"), write("c3", "patch", a, "uid-a")),
			[]string{`leader: c3: patch configmaps apps/a while "c2" led`}},
		{"a write without a lease", with(started("c1"), committed(a), write("c1", "patch", a, "uid-a")),
			[]string{`leader: c1: patch configmaps apps/a while "" led`}},
		{"two comments", with(started("c1"), lease("c1"), committed(a), comment("post", commentsOfPull, "team/nodes#7", "1"), comment("post", commentsOfPull, "team/nodes#7", "2")),
			[]string{"comments: 2 comments on team/nodes#7"}},
		{"two comments of which one was deleted, and one on another", with(started("c1"), lease("c1"), committed(a), comment("post", commentsOfPull, "team/nodes#7", "1"),
			comment("post", commentsOfPull, "team/nodes#7", "2"), comment("delete", oneComment, "2", ""), comment("post", commentsOfPull, "team/nodes#8", "3")), nil},
		{"two comments that the forge made of one request", with(started("c1"), lease("c1"), committed(a), comment("post", commentsOfPull, "team/nodes#7", "1"),
			trace.Event{Kind: trace.Observed, Comments: map[string]int{"team/nodes#7": 2}}),
			[]string{"comments: team/nodes#7 has 2 comments in the end"}},
		{"a Sync is deleted with what it applied", ordered(append(slices.Clone(first), trace.Event{Kind: trace.SyncDeleted}, write("c1", "delete", a, "uid-a"), write("c1", "delete", b, "uid-b"), found())...), nil},
		{"a Sync is deleted, and what it applied stays", ordered(append(slices.Clone(first), trace.Event{Kind: trace.SyncDeleted, Declared: committed(a, b).Declared},
			trace.Event{Kind: trace.Observed, Live: []trace.State{{Object: a, Value: "v1", UID: "uid-a"}, {Object: b, Value: "v1", UID: "uid-b"}}})...), nil},
		{"a Sync is deleted, and its inventory stays", ordered(append(slices.Clone(first), trace.Event{Kind: trace.SyncDeleted, Declared: committed(a).Declared}, write("c1", "delete", b, "uid-b"),
			found(trace.State{Object: a, Value: "v1", UID: "uid-a"}))...),
			[]string{`converges: configmaps apps/a: live with UID not at all, in the inventory "uid-a"`}},
		{"a deletion although the Sync's objects are to stay", ordered(append(slices.Clone(first), trace.Event{Kind: trace.SyncDeleted, Declared: committed(a, b).Declared}, write("c1", "delete", b, "uid-b"),
			trace.Event{Kind: trace.Observed, Live: []trace.State{{Object: a, Value: "v1", UID: "uid-a"}}})...),
			[]string{`converges: configmaps apps/b: declared "v1", live not at all`, "deletions: deletes configmaps apps/b (UID uid-b), which every followed commit declares"}},
		{"a secret on a wire that is not its own", with(planted, started("c1"), committed(a), lease("c1"), leaked),
			[]string{"secrets: git token is in a request: patch configmaps on kubernetes"}},
		{"a secret on its own wire", with(planted, started("c1"), committed(a), trace.Request{Wire: trace.Git, Client: "c1", Verb: "post", Kind: "git-upload-pack", Secrets: []string{"git token"}}), nil},
		{"a termination of an instance of somebody else", with(started("c1"), lease("c1"), committed(a), terminate("i-9")),
			[]string{"terminations: ends i-9, which the product did not launch"}},
		{"a launch of what there was no capacity for a moment ago", ordered(
			trace.Request{Wire: trace.AWS, Client: "c1", Verb: "CreateFleet", Offerings: []string{"a", "b"}, Refused: []string{"a"}, Status: 200},
			trace.Request{Wire: trace.AWS, Client: "c1", Verb: "CreateFleet", Offerings: []string{"a", "b"}, Status: 200}),
			[]string{"offerings: requests a "}},
		{"an instance without a node", ordered(started("c1"), trace.Event{Kind: trace.Observed, Machines: []trace.Machine{{NodeClaim: "a", Instance: "i-1"}}}),
			[]string{`machines: of a machine there is NodeClaim "a", instance "i-1", node ""`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for i, v := range Check(c.records) {
				broken[v.Rule] = true
				text := v.Rule + ": " + v.Detail
				if i < len(c.want) && strings.HasPrefix(text, c.want[i]) {
					text = c.want[i]
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, r := range Rules() {
		if !broken[r.Name] {
			t.Errorf("no trace here breaks the rule %q", r.Name)
		}
	}
}
