package takeover

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	awsoptions "github.com/aws/karpenter-provider-aws/pkg/operator/options"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"

	"github.com/poolwright/poolwright/provision/engine"
)

// gates compares the feature gates one by one: those of Karpenter's core, and those of the
// AWS provider, of which the engine offers one.
func (w *comparer) gates() {
	values, unread := w.karpenter.options.values, w.karpenter.options.unreadable
	var theirs *coreoptions.FeatureGates
	if text := values["FEATURE_GATES"]; !slices.Contains(unread, "FEATURE_GATES") {
		core, err := coreoptions.ParseFeatureGates(cmp.Or(text, "NodeOverlay=false"))
		w.gatesOf("FEATURE_GATES", text, core, err)
		if err == nil {
			theirs = &core
		}
	}
	dra := false
	if text, set := values["AWS_FEATURE_GATES"]; set {
		provider, err := awsoptions.ParseFeatureGates(text)
		w.gatesOf("AWS_FEATURE_GATES", text, provider, err)
		// Without the second, Karpenter leaves claims out of account whatever the gate is.
		ignored, unread := strconv.ParseBool(cmp.Or(values["IGNORE_DRA_REQUESTS"], "true"))
		dra = err == nil && provider.DRANVIDIAGPU && unread == nil && !ignored
	}
	if theirs != nil {
		w.keepGates(*theirs, dra)
	}
}

// gatesOf compares the gates of one variable. They are the exported fields of a struct.
func (w *comparer) gatesOf(variable, text string, theirs any, err error) {
	if err != nil {
		w.differs("compare them with spec.engine.featureGates", "its %s cannot be read: %s", variable, text)
		return
	}
	ours := w.settings.EffectiveFeatureGates()
	for field, value := range reflect.ValueOf(theirs).Fields() {
		if !field.IsExported() {
			continue
		}
		on, offered := ours[field.Name]
		switch {
		case value.Bool() == on:
		case field.Name == "NodeOverlay":
			w.differs("nothing, unless there are NodeOverlays that are not meant", "its feature gate NodeOverlay is off, and would be on: sharing GPUs depends on it")
		case !offered:
			w.differs("nothing can be done: the engine does not offer it", "its feature gate %s is true, and would be false", field.Name)
		default:
			w.differs(fmt.Sprintf("to keep it, set spec.engine.featureGates: {%s: %t}", field.Name, value.Bool()),
				"its feature gate %s is %t, and would be %t", field.Name, value.Bool(), on)
		}
	}
}

// keepGates declares all gates by which theirs differ from the defaults, of the AWS provider that for claims of GPUs:
// a field replaces what the Cluster declares there. NodeOverlay stays as it is.
func (w *comparer) keepGates(theirs coreoptions.FeatureGates, dra bool) {
	declared, differ := map[string]any{}, false
	ours := w.settings.EffectiveFeatureGates()
	for name, standard := range engine.DefaultSettings().EffectiveFeatureGates() {
		on := name == engine.GateDRA && dra
		switch field := reflect.ValueOf(theirs).FieldByName(name); {
		case name == "NodeOverlay":
			on = ours[name]
		case field.IsValid():
			on = field.Bool()
		}
		if on != standard {
			declared[name] = on
		}
		differ = differ || on != ours[name]
	}
	if differ {
		w.keep("featureGates", declared)
	}
}
