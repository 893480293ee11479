package ssmversion_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/ssmversion"
)

const (
	gpu = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/nvidia/recommended/image_id"
	cpu = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id"
)

var (
	then = metav1.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)
	now  = time.Date(2026, 11, 22, 9, 0, 0, 700, time.UTC)
	at   = metav1.NewTime(now.Truncate(time.Second))
)

func entry(as, name string) v1alpha1.SubstituteReference {
	return v1alpha1.SubstituteReference{Kind: v1alpha1.SubstituteSSMParameter, Name: name, Variable: as}
}

func pinned(as, name, value string, version int64) v1alpha1.PinnedParameter {
	return v1alpha1.PinnedParameter{Variable: as, Name: name, Value: value, Version: version, PinnedAt: then}
}

// fresh is the pin as it is taken now, late with a newest value beside it.
func fresh(p v1alpha1.PinnedParameter) v1alpha1.PinnedParameter { p.PinnedAt = at; return p }
func late(p v1alpha1.PinnedParameter, latest string) v1alpha1.PinnedParameter {
	p.Latest = latest
	return p
}

type pins = []v1alpha1.PinnedParameter

func TestResolve(t *testing.T) {
	both := []v1alpha1.SubstituteReference{entry("GPU", gpu), entry("CPU", cpu)}
	was := pins{pinned("CPU", cpu, "ami-c1", 1), pinned("GPU", gpu, "ami-g1", 1)}
	newest := map[string]ssmversion.Reading{gpu: {Value: "ami-g2", Version: 2}, cpu: {Value: "ami-c1", Version: 1}}
	tests := []struct {
		name               string
		entries            []v1alpha1.SubstituteReference
		pins               pins
		requested, handled string
		read               map[string]ssmversion.Reading
		want               ssmversion.Resolution
	}{
		{name: "what was never read is taken as it is now, by variable", entries: both, read: newest,
			want: ssmversion.Resolution{Pins: pins{fresh(pinned("CPU", cpu, "ami-c1", 1)), fresh(pinned("GPU", gpu, "ami-g2", 2))}}},
		{name: "what cannot be read and has no value is missing, once", entries: append(both, entry("SAME", gpu)), read: map[string]ssmversion.Reading{cpu: newest[cpu]},
			want: ssmversion.Resolution{Pins: pins{fresh(pinned("CPU", cpu, "ami-c1", 1))}, Missing: []string{gpu}}},
		{name: "pins are used while nothing can be read", entries: both, pins: was,
			want: ssmversion.Resolution{Pins: was}},
		{name: "a newer value is reported and not used", entries: both, pins: was, read: newest,
			want: ssmversion.Resolution{Pins: pins{was[0], late(was[1], "ami-g2")}, Outdated: pins{late(was[1], "ami-g2")}}},
		{name: "a newer value that was reported is not reported again", entries: both, pins: pins{was[0], late(was[1], "ami-g2")}, read: newest,
			want: ssmversion.Resolution{Pins: pins{was[0], late(was[1], "ami-g2")}}},
		{name: "a newer value stays reported while nothing can be read", entries: both, pins: pins{was[0], late(was[1], "ami-g2")},
			want: ssmversion.Resolution{Pins: pins{was[0], late(was[1], "ami-g2")}}},
		{name: "a value that AWS takes back is not the newest any more", entries: both, pins: pins{was[0], late(was[1], "ami-g2")},
			read: map[string]ssmversion.Reading{gpu: {Value: "ami-g1", Version: 3}},
			want: ssmversion.Resolution{Pins: was}},
		{name: "an update takes the newest, and leaves alone what is the newest", entries: both, pins: pins{was[0], late(was[1], "ami-g2")}, requested: "b", handled: "a", read: newest,
			want: ssmversion.Resolution{Pins: pins{was[0], fresh(pinned("GPU", gpu, "ami-g2", 2))}, Handled: "b", Updated: pins{fresh(pinned("GPU", gpu, "ami-g2", 2))}}},
		{name: "an update that was served is not served again", entries: both, pins: was, requested: "a", handled: "a", read: newest,
			want: ssmversion.Resolution{Pins: pins{was[0], late(was[1], "ami-g2")}, Handled: "a", Outdated: pins{late(was[1], "ami-g2")}}},
		{name: "an update takes nothing while something cannot be read", entries: both, pins: was, requested: "b", handled: "a", read: map[string]ssmversion.Reading{gpu: newest[gpu]},
			want: ssmversion.Resolution{Pins: pins{was[0], late(was[1], "ami-g2")}, Handled: "a", Outdated: pins{late(was[1], "ami-g2")}}},
		{name: "an update that is taken back requests nothing", entries: both, pins: was, handled: "a",
			want: ssmversion.Resolution{Pins: was, Handled: "a"}},
		{name: "an update of a Sync without parameters is served", requested: "b",
			want: ssmversion.Resolution{Handled: "b"}},
		{name: "another parameter is another value", entries: []v1alpha1.SubstituteReference{entry("GPU", cpu)}, pins: was, read: newest,
			want: ssmversion.Resolution{Pins: pins{fresh(pinned("GPU", cpu, "ami-c1", 1))}}},
		{name: "another parameter does not keep the old one's value", entries: []v1alpha1.SubstituteReference{entry("GPU", cpu)}, pins: was,
			want: ssmversion.Resolution{Missing: []string{cpu}}},
		{name: "another variable is taken anew", entries: []v1alpha1.SubstituteReference{entry("ACCELERATED", gpu)}, pins: was, read: newest,
			want: ssmversion.Resolution{Pins: pins{fresh(pinned("ACCELERATED", gpu, "ami-g2", 2))}}},
		{name: "the last entry of a variable counts", entries: []v1alpha1.SubstituteReference{entry("GPU", cpu), entry("GPU", gpu)}, pins: was,
			want: ssmversion.Resolution{Pins: was[1:]}},
		{name: "other kinds are no parameters", entries: []v1alpha1.SubstituteReference{{Kind: v1alpha1.SubstituteSecret, Name: "secret"}}, pins: was},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var sync v1alpha1.Sync
			sync.Spec.SubstituteFrom = tt.entries
			sync.Status.Parameters, sync.Status.LastHandledUpdateParameters = tt.pins, tt.handled
			if tt.requested != "" {
				sync.Annotations = map[string]string{v1alpha1.UpdateParametersAnnotation: tt.requested}
			}
			before := sync.DeepCopy()
			got := ssmversion.Resolve(&sync, tt.read, now)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, &sync); diff != "" {
				t.Errorf("the Sync was changed:\n%s", diff)
			}
			// Writing it down and asking again with the same answers changes nothing.
			sync.Status.Parameters, sync.Status.LastHandledUpdateParameters = got.Pins, got.Handled
			again := ssmversion.Resolve(&sync, tt.read, now.Add(time.Hour))
			want := ssmversion.Resolution{Pins: got.Pins, Handled: got.Handled, Missing: got.Missing}
			if diff := cmp.Diff(want, again); diff != "" {
				t.Errorf("it does not settle (-first +second):\n%s", diff)
			}
			if len(got.Missing) > 0 != ssmversion.Due(&sync) && tt.requested == "" {
				t.Errorf("due %v, missing %v", ssmversion.Due(&sync), got.Missing)
			}
			if diff := cmp.Diff(got.Values(), ssmversion.Pinned(&sync).Values()); diff != "" {
				t.Errorf("who only looks sees other values:\n%s", diff)
			}
		})
	}
}

func TestDue(t *testing.T) {
	converged := func() *v1alpha1.Sync {
		var sync v1alpha1.Sync
		sync.Spec.SubstituteFrom = []v1alpha1.SubstituteReference{entry("GPU", gpu), entry("ALSO", gpu), entry("CPU", cpu)}
		sync.Status.Parameters = pins{pinned("ALSO", gpu, "ami-g1", 1), pinned("CPU", cpu, "ami-c1", 1), pinned("GPU", gpu, "ami-g1", 1)}
		return &sync
	}
	tests := map[string]struct {
		change func(*v1alpha1.Sync)
		want   bool
	}{
		"not while all have values": {func(*v1alpha1.Sync) {}, false},
		"for an entry that is new":  {func(s *v1alpha1.Sync) { s.Status.Parameters = s.Status.Parameters[1:] }, true},
		"for an update":             {func(s *v1alpha1.Sync) { s.Annotations = map[string]string{v1alpha1.UpdateParametersAnnotation: "x"} }, true},
		"not for an update that was served": {func(s *v1alpha1.Sync) {
			s.Annotations = map[string]string{v1alpha1.UpdateParametersAnnotation: "x"}
			s.Status.LastHandledUpdateParameters = "x"
		}, false},
		"not for a pin that is not used again": {func(s *v1alpha1.Sync) { s.Spec.SubstituteFrom = s.Spec.SubstituteFrom[:1] }, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			sync := converged()
			tt.change(sync)
			if got := ssmversion.Due(sync); got != tt.want {
				t.Errorf("due: %v", got)
			}
		})
	}
	if diff := cmp.Diff([]string{gpu, cpu}, ssmversion.Names(converged())); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}
