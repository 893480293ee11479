package conversion

import (
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/declared/conversion/internal/yamlnode"
)

// convertAll does all of it. What cannot be done is found before anything is
// changed, classes first, because pools depend on them.
func (r *converter) convertAll() {
	for _, o := range r.objects {
		r.recognise(o)
	}
	classes := r.those((*object).class)
	pools := r.those((*object).pool)
	for _, o := range classes {
		if o.rules != nil {
			r.checkClass(o)
		}
	}
	for _, o := range pools {
		r.checkPool(o)
	}
	for _, o := range r.objects {
		r.convert(o)
	}
	r.moveKubelets(r.those((*object).pool), r.those((*object).class))
	r.rename()
	r.reportManual()
}

// recognise refuses what is of Karpenter's groups and of no version that is
// known, and writes out the aliases of what is to be changed.
func (r *converter) recognise(o *object) {
	group := o.group()
	if group != coreGroup && group != awsGroup {
		return
	}
	if slices.Contains(r.table.Made, group+" "+o.kind) {
		if o.apiVersion != coreGroup+"/v1" {
			r.report(o, Manual, "", "only the engine makes objects of this kind; remove it from the repository")
		}
		return
	}
	if o.rules != nil {
		r.spellOut(o)
		return
	}
	known := map[string]string{"NodePool": coreGroup, "Provisioner": coreGroup, "EC2NodeClass": awsGroup, "AWSNodeTemplate": awsGroup}
	if of, ok := known[o.kind]; ok && (of != group || o.apiVersion != group+"/v1" || o.kind == "Provisioner" || o.kind == "AWSNodeTemplate") {
		var from []string
		for _, k := range r.table.Kinds {
			from = append(from, k.Old)
		}
		r.block(o, "apiVersion", "%s %s is not known; a conversion starts from %s", o.apiVersion, o.kind, strings.Join(from, ", "))
	}
}

// convert converts one object by its rules and its function.
func (r *converter) convert(o *object) {
	if o.blocked || o.rules == nil {
		if !o.blocked && (o.pool() || o.class()) && isMapping(yamlnode.Get(o.node, "metadata.annotations")) {
			r.unfold(o)
			r.dropGenerated(o)
		}
		return
	}
	if o.patch {
		r.convertPatch(o)
		return
	}
	r.retitle(o)
	r.unfold(o)
	switch r.dropGenerated(o); o.rules.Old {
	case "karpenter.sh/v1alpha5 Provisioner":
		r.provisioner(o)
	case "karpenter.sh/v1beta1 NodePool":
		r.betaPool(o)
	case "karpenter.k8s.aws/v1alpha1 AWSNodeTemplate":
		r.template(o)
	case "karpenter.k8s.aws/v1beta1 EC2NodeClass":
		r.betaClass(o)
	}
}
