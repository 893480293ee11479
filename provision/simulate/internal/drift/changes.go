package drift

import (
	"reflect"
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/simulate/internal/offerings"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

// Changes lists what differs in a pool, in its class and in the overlays; replaced reports whether
// any node of the pool is replaced for a reason.
func (s *Change) Changes(name string, replaced func(reason string) bool) []provision.Change {
	out := []provision.Change{}
	was, is := s.Before.Pools[name], s.After.Pools[name]
	if was == nil || is == nil {
		return append(out, provision.Change{Object: "NodePool/" + name})
	}
	out = append(out, s.poolChanges(was, is, replaced)...)
	out = append(out, s.classChanges(was, is, replaced)...)
	out = append(out, s.overlayChanges(name)...)
	slices.SortFunc(out, func(a, b provision.Change) int {
		return strings.Compare(a.Object+"\x00"+a.Field, b.Object+"\x00"+b.Field)
	})
	return out
}

// poolChanges finds out by Karpenter's own hash, one field at a time, whether it covers
// the field's difference.
func (s *Change) poolChanges(was, is *karpv1.NodePool, replaced func(reason string) bool) []provision.Change {
	object := "NodePool/" + is.Name
	var out []provision.Change
	each := func(prefix string, of func(*karpv1.NodePool) reflect.Value) {
		hashed := func(index []int) bool {
			// The field of the new pool, put into the old one.
			mixed := was.DeepCopy()
			of(mixed).FieldByIndex(index).Set(of(is).FieldByIndex(index))
			return mixed.Hash() != was.Hash()
		}
		for _, f := range fields(of(was), of(is), hashed) {
			change := provision.Change{Object: object, Field: prefix + f.name}
			switch {
			case f.hashed:
				change.Reason = nodePoolDrifted
			case f.name == "requirements" && replaced(requirementsDrifted) && s.narrowed(was, is) > none:
				change.Reason = requirementsDrifted
			}
			out = append(out, change)
		}
	}
	each("spec.template.metadata.", func(p *karpv1.NodePool) reflect.Value {
		return reflect.ValueOf(&p.Spec.Template.ObjectMeta).Elem()
	})
	each("spec.template.spec.", func(p *karpv1.NodePool) reflect.Value {
		return reflect.ValueOf(&p.Spec.Template.Spec).Elem()
	})
	each("spec.disruption.", func(p *karpv1.NodePool) reflect.Value { return reflect.ValueOf(&p.Spec.Disruption).Elem() })
	for _, f := range fields(reflect.ValueOf(&was.Spec).Elem(), reflect.ValueOf(&is.Spec).Elem(), nil) {
		if f.name != "template" && f.name != "disruption" {
			out = append(out, provision.Change{Object: object, Field: "spec." + f.name})
		}
	}
	return out
}

func (s *Change) classChanges(was, is *karpv1.NodePool, replaced func(reason string) bool) []provision.Change {
	old, class := s.Before.Class(was), s.After.Class(is)
	if class == nil {
		name := is.Spec.Template.Spec.NodeClassRef.Name
		s.Unknown.Add(snapshot.NodeClassMissing, "NodePool/"+is.Name, "NodePool %s: there is no usable EC2NodeClass %s, so that Karpenter starts no nodes for it.", is.Name, name)
		if old != nil && old.Name == name {
			return []provision.Change{{Object: "EC2NodeClass/" + name}}
		}
		return nil
	}
	if old == nil || old.Name != class.Name {
		return nil // The pool's own change of nodeClassRef has it.
	}
	var out []provision.Change
	hashed := func(index []int) bool {
		mixed := old.DeepCopy()
		reflect.ValueOf(&mixed.Spec).Elem().FieldByIndex(index).Set(reflect.ValueOf(&class.Spec).Elem().FieldByIndex(index))
		if strings.HasPrefix(reflect.TypeOf(mixed.Spec).FieldByIndex(index).Name, "AMI") {
			// The hash holds the family that both of these decide.
			mixed.Spec.AMIFamily, mixed.Spec.AMISelectorTerms = class.Spec.AMIFamily, class.Spec.AMISelectorTerms
		}
		return mixed.Hash(nil) != old.Hash(nil)
	}
	for _, f := range fields(reflect.ValueOf(&old.Spec).Elem(), reflect.ValueOf(&class.Spec).Elem(), hashed) {
		change := provision.Change{Object: "EC2NodeClass/" + class.Name, Field: "spec." + f.name}
		if f.hashed {
			change.Reason = nodeClassDrift
		} else {
			change.Reason = selectorReason(f.name, old, class, replaced)
		}
		out = append(out, change)
	}
	return out
}

// selectorReason is the drift that a changed selector has caused.
func selectorReason(field string, old, class *awsv1.EC2NodeClass, replaced func(reason string) bool) string {
	reason := map[string]string{
		"amiSelectorTerms": amiDrift, "subnetSelectorTerms": subnetDrift, "securityGroupSelectorTerms": securityGroupDrift,
		"capacityReservationSelectorTerms": reservationDrift,
	}[field]
	if reason != "" && replaced(reason) && reselected(old, class)[field] > none {
		return reason
	}
	return ""
}

// overlayChanges are the overlays that come, go or change and that change what a
// node of the pool offers or is reckoned to cost.
func (s *Change) overlayChanges(pool string) []provision.Change {
	if s.Before.Offerings[pool].Same(s.After.Offerings[pool]) {
		return nil
	}
	was, is := overlays(s.Before), overlays(s.After)
	var out []provision.Change
	for name, overlay := range is {
		old, ok := was[name]
		switch {
		case !ok:
			out = append(out, provision.Change{Object: "NodeOverlay/" + name})
		default:
			for _, f := range fields(reflect.ValueOf(&old.Spec).Elem(), reflect.ValueOf(&overlay.Spec).Elem(), nil) {
				out = append(out, provision.Change{Object: "NodeOverlay/" + name, Field: "spec." + f.name})
			}
		}
	}
	for name := range was {
		if is[name] == nil {
			out = append(out, provision.Change{Object: "NodeOverlay/" + name})
		}
	}
	return out
}

func overlays(f *offerings.Resolved) map[string]*karpv1alpha1.NodeOverlay {
	out := map[string]*karpv1alpha1.NodeOverlay{}
	for _, overlay := range f.Overlays {
		out[overlay.Name] = overlay
	}
	return out
}

// differing is a field of a struct; hashed is true where its difference changes a hash.
type differing struct {
	name   string
	index  []int
	hashed bool
}

// fields lists the fields in which two structs of one type differ, by their names
// in JSON. Empty and absent are the same, unless a hash distinguishes them: hashed reports
// whether it covers a field's difference, and is nil where no hash covers the struct.
func fields(a, b reflect.Value, hashed func(index []int) bool) []differing {
	var out []differing
	for _, f := range reflect.VisibleFields(a.Type()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" || !f.IsExported() {
			continue
		}
		x, y := a.FieldByIndex(f.Index), b.FieldByIndex(f.Index)
		if reflect.DeepEqual(x.Interface(), y.Interface()) {
			continue
		}
		one := differing{name: name, index: f.Index, hashed: hashed != nil && hashed(f.Index)}
		if one.hashed || !alike(x, y) {
			out = append(out, one)
		}
	}
	return out
}

func alike(x, y reflect.Value) bool {
	if d, ok := reflect.TypeAssert[karpv1.NillableDuration](x); ok {
		other, _ := reflect.TypeAssert[karpv1.NillableDuration](y)
		// How the duration was written is no difference.
		return reflect.DeepEqual(d.Duration, other.Duration)
	}
	if k := x.Kind(); (k == reflect.Slice || k == reflect.Map) && x.Len() == 0 && y.Len() == 0 {
		return true
	}
	return equality.Semantic.DeepEqual(x.Interface(), y.Interface())
}

// Causes are the changes behind a drift.
func Causes(changes []provision.Change, reason string) []provision.Change {
	var out []provision.Change
	for _, ch := range changes {
		if ch.Reason == reason {
			out = append(out, ch)
		}
	}
	return out
}
