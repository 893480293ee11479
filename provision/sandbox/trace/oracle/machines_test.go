package oracle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

// timed is a step at so many seconds from the begin.
type timed struct {
	at   int
	step any
}

// over puts steps in order with their times; a request takes no time.
func over(steps ...timed) []trace.Record {
	var out []trace.Record
	for _, s := range steps {
		r := ordered(s.step)[0]
		r.N, r.Begin = 2*len(out)+1, time.Unix(int64(s.at), 0)
		if r.Request != nil {
			r.Done, r.End = r.N+1, r.Begin
		}
		out = append(out, r)
	}
	return out
}

func launch(instance string) trace.Request {
	return trace.Request{Wire: trace.AWS, Client: "c1", Verb: "CreateFleet", Kind: "ec2", Instances: []string{instance}, Status: 200}
}

func terminate(instance string) trace.Request {
	return trace.Request{Wire: trace.AWS, Client: "c1", Verb: "TerminateInstances", Kind: "ec2", Instances: []string{instance}, Status: 200}
}

func nodeClaim(verb, name string, instances ...string) trace.Request {
	q := write("c1", verb, trace.Object{Kind: nodeClaims, Name: name}, "uid-"+name)
	q.Instances = instances
	return q
}

// finalized is the request that takes the last finalizer from a NodeClaim.
func finalized(name, instance string) trace.Request {
	q := nodeClaim("patch", name, instance)
	q.Gone = true
	return q
}

// pod is an event of a pod on the node of the NodeClaim a.
func pod(kind string) trace.Event {
	return trace.Event{Kind: kind, Object: trace.Object{Kind: nodeClaims, Name: "a"}}
}

func TestTheRulesForMachines(t *testing.T) {
	allowed := trace.Event{Kind: trace.DisruptionAllowed, Object: trace.Object{Kind: nodePools, Name: "gpu"}}
	whole := trace.Event{Kind: trace.Observed, Machines: []trace.Machine{{NodeClaim: "a", Instance: "i-1", Node: "n"}}}
	for _, c := range []struct {
		name    string
		records []trace.Record
		want    []string
	}{
		{"a machine that is launched", over(timed{0, started("c1")}, timed{1, launch("i-1")}, timed{2, nodeClaim("patch", "a", "i-1")}, timed{900, whole}), nil},
		{"a machine that is ended after its NodeClaim was allowed to be deleted",
			over(timed{0, started("c1")}, timed{1, launch("i-1")}, timed{2, nodeClaim("patch", "a", "i-1")}, timed{3, allowed},
				timed{4, nodeClaim("delete", "a", "i-1")}, timed{200, terminate("i-1")}, timed{201, finalized("a", "i-1")}, timed{900, trace.Event{Kind: trace.Observed}}), nil},
		{"a NodeClaim that is deleted although nobody allowed it",
			over(timed{0, started("c1")}, timed{1, launch("i-1")}, timed{2, nodeClaim("patch", "a", "i-1")},
				timed{4, nodeClaim("delete", "a", "i-1")}, timed{5, terminate("i-1")}, timed{6, allowed}),
			[]string{"terminations: deletes the NodeClaim a, which has an instance, although nobody allowed a disruption"}},
		{"a NodeClaim that is deleted although another one alone may be",
			over(timed{0, started("c1")}, timed{1, launch("i-1")}, timed{2, nodeClaim("patch", "a", "i-1")}, timed{3, trace.Event{Kind: trace.DisruptionAllowed, Object: trace.Object{Kind: nodeClaims, Name: "b"}}},
				timed{4, nodeClaim("delete", "a", "i-1")}, timed{5, terminate("i-1")}),
			[]string{"terminations: deletes the NodeClaim a, which has an instance, although nobody allowed a disruption"}},
		{"a NodeClaim that is deleted although pods of a namespace alone may be",
			over(timed{0, started("c1")}, timed{1, launch("i-1")}, timed{2, nodeClaim("patch", "a", "i-1")}, timed{3, trace.Event{Kind: trace.DisruptionAllowed, Object: trace.Object{Kind: pods, Namespace: "kube-system"}}},
				timed{4, nodeClaim("delete", "a", "i-1")}, timed{5, terminate("i-1")}),
			[]string{"terminations: deletes the NodeClaim a, which has an instance, although nobody allowed a disruption"}},
		{"a NodeClaim that is deleted while a pod uses its node",
			over(timed{0, started("c1")}, timed{1, launch("i-1")}, timed{2, nodeClaim("patch", "a", "i-1")}, timed{3, allowed}, timed{4, pod(trace.PodBound)},
				timed{5, nodeClaim("delete", "a", "i-1")}, timed{6, terminate("i-1")}),
			[]string{"terminations: deletes the NodeClaim a, which has an instance, although a pod uses its node"}},
		{"a NodeClaim that is deleted once no pod uses its node any more",
			over(timed{0, started("c1")}, timed{1, launch("i-1")}, timed{2, nodeClaim("patch", "a", "i-1")}, timed{3, allowed}, timed{4, pod(trace.PodBound)}, timed{5, pod(trace.PodDeleted)},
				timed{6, nodeClaim("delete", "a", "i-1")}, timed{7, terminate("i-1")}), nil},
		{"a person may delete a NodeClaim",
			over(timed{0, started("other")}, timed{1, launch("i-1")}, timed{2, nodeClaim("patch", "a", "i-1")}, timed{4, nodeClaim("delete", "a", "i-1")}, timed{5, terminate("i-1")}), nil},
		{"a NodeClaim without an instance may be deleted", over(timed{0, started("c1")}, timed{2, nodeClaim("delete", "a")}), nil},
		{"an instance whose NodeClaim is not deleted",
			over(timed{1, launch("i-1")}, timed{2, nodeClaim("patch", "a", "i-1")}, timed{90, terminate("i-1")}),
			[]string{"terminations: ends i-1, whose NodeClaim a was not deleted"}},
		{"an instance that somebody else launched", over(timed{1, terminate("i-9")}), []string{"terminations: ends i-9, which the product did not launch"}},
		{"an instance that no NodeClaim has named for long is collected",
			over(timed{1, launch("i-1")}, timed{5, launch("i-2")}, timed{6, nodeClaim("patch", "a", "i-2")}, timed{45, terminate("i-1")}, timed{900, trace.Event{Kind: trace.Observed}}), nil},
		{"one that its NodeClaim may yet name is not", over(timed{1, launch("i-1")}, timed{5, terminate("i-1")}),
			[]string{"terminations: ends i-1 after 4s, before a NodeClaim could name it"}},
		{"an instance that no NodeClaim names, for too long",
			over(timed{1, launch("i-1")}, timed{5, launch("i-2")}, timed{6, nodeClaim("patch", "a", "i-2")}, timed{66, terminate("i-1")}),
			[]string{"machines: i-1 lived for 1m5s without a NodeClaim"}},
		{"a NodeClaim with two instances for too long",
			over(timed{1, launch("i-1")}, timed{2, nodeClaim("patch", "a", "i-1")}, timed{5, launch("i-2")}, timed{6, nodeClaim("patch", "a", "i-2")}, timed{70, trace.Event{Kind: trace.Observed}}),
			[]string{"machines: the NodeClaim a had both i-1 and i-2 for 1m5s"}},
		{"a launch that failed has no instance",
			over(timed{1, trace.Request{Wire: trace.AWS, Verb: "CreateFleet", Name: "a", Instances: []string{"i-1"}, Status: 503}}, timed{900, trace.Event{Kind: trace.Observed}}), nil},
		{"an instance that outlives its NodeClaim",
			over(timed{0, started("c1")}, timed{1, launch("i-1")}, timed{2, nodeClaim("patch", "a", "i-1")}, timed{3, allowed}, timed{4, nodeClaim("delete", "a", "i-1")},
				timed{5, finalized("a", "i-1")}, timed{70, trace.Event{Kind: trace.Observed}}),
			[]string{"machines: i-1 lived for 1m5s without a NodeClaim"}},
		{"an instance that is left over", over(timed{1, trace.Event{Kind: trace.Observed, Machines: []trace.Machine{{Instance: "i-1"}}}}),
			[]string{`machines: of a machine there is NodeClaim "", instance "i-1", node ""`}},
		{"a thing without an owner", over(timed{1, trace.Event{Kind: trace.Observed, Unowned: []trace.Object{{Kind: "iam/role", Name: "nodes"}}}}),
			[]string{"machines: iam/role nodes has no owner"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, v := range Check(c.records) {
				if v.Rule == "terminations" || v.Rule == "machines" {
					got = append(got, v.Rule+": "+v.Detail)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
