package check

import (
	"context"
	"fmt"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/cluster"
	"github.com/poolwright/poolwright/reconciler/rollback"
	"github.com/poolwright/poolwright/reconciler/suspension"
)

// engine reports whether Karpenter runs in the controller, and which gate blocks it.
func (c *checker) engine(ctx context.Context) []Result {
	all, err := cluster.Clusters(ctx, c.Kube)
	if err != nil {
		return c.unreadable(err)
	}
	if len(all) == 0 {
		return one(warning("declare one in the repository that a Sync follows (docs/kinds/cluster.md)", "there is no Cluster, so that no engine runs"))
	}
	first := &all[0]
	ready := conditions.Get(first, fluxmeta.ReadyCondition)
	var r Result
	switch {
	case ready == nil || ready.ObservedGeneration != first.Generation:
		r = warning("wait a moment; where it stays, read the logs of the controller", "the leading controller has not reconciled the newest spec yet")
	case ready.Status == metav1.ConditionTrue:
		r = ok("%s: %s", ready.Reason, ready.Message)
	case conditions.IsTrue(first, "EngineBlocked"):
		r = failed("do what the message names; the controller tries again every 30 s (docs/kinds/cluster.md#the-gates)", "a gate blocks the engine: %s", ready.Message)
	case ready.Reason == "Restarting":
		r = warning("", "%s: %s", ready.Reason, ready.Message)
	default:
		r = failed("docs/kinds/cluster.md#status has each reason", "%s: %s", ready.Reason, ready.Message)
	}
	r.Object = "Cluster " + first.Name
	out := []Result{r}
	for _, other := range all[1:] {
		r := warning("delete it, or the one that is used (docs/kinds/cluster.md#several-clusters)", "Ignored: Cluster %s is older, and is used", first.Name)
		r.Object = "Cluster " + other.Name
		out = append(out, r)
	}
	return out
}

// aws reports what the controller found in AWS.
func (c *checker) aws(ctx context.Context) []Result {
	all, err := cluster.Clusters(ctx, c.Kube)
	if err != nil {
		return c.unreadable(err)
	}
	if len(all) == 0 || all[0].Status.AWS == nil {
		return one(skipped("the controller has reported nothing of AWS: no part of it is declared", ""))
	}
	condition := conditions.Get(&all[0], "AWSInSync")
	var r Result
	switch {
	case condition == nil:
		return one(skipped("the controller has not compared AWS yet", ""))
	case condition.Status == metav1.ConditionTrue:
		r = ok("%s", condition.Message)
	case condition.Status == metav1.ConditionUnknown:
		r = failed("grant the controller's role what the message names (config/iam/README.md)", "not all could be read: %s", condition.Message)
	default:
		r = warning("correct it there, or let the Cluster adopt it (docs/kinds/cluster.md#aws-resources)", "%s", condition.Message)
	}
	r.Object = "Cluster " + all[0].Name
	return one(r)
}

// nodeClasses reports what Karpenter found in AWS for each EC2NodeClass.
func (c *checker) nodeClasses(ctx context.Context) []Result {
	var list awsv1.EC2NodeClassList
	if err := c.Kube.List(ctx, &list); err != nil {
		return c.unreadable(err)
	}
	return nodeClasses(list.Items)
}

// syncs reports the Syncs that are not ready, Git's failures among their reasons.
func (c *checker) syncs(ctx context.Context) []Result {
	var list v1alpha1.SyncList
	if err := c.Kube.List(ctx, &list); err != nil {
		return c.unreadable(err)
	}
	if len(list.Items) == 0 {
		return one(warning("create one (docs/howto/follow-a-repository.md)", "there is no Sync, so that no repository is followed"))
	}
	var out []Result
	watched, unknown := installation.Watched(ctx, c.Kube, c.Namespace)
	if unknown != nil {
		// What is wrong is reported all the same. None counts as ready: its status may be of an earlier time.
		out, watched = c.unreadable(unknown), labels.Everything()
	}
	ready := 0
	for i := range list.Items {
		r := c.sync(&list.Items[i], watched)
		if r.Status == OK {
			ready++
			continue
		}
		out = append(out, r)
	}
	switch {
	case ready > 0 && unknown != nil:
		out = append(out, skipped(fmt.Sprintf("%d of %d have Ready=True; it is not known whether the controller reconciles them", ready, len(list.Items)), ""))
	case ready > 0:
		out = append([]Result{ok("%d of %d are ready", ready, len(list.Items))}, out...)
	}
	return out
}

// sync reports on one Sync. The status of one that is not watched is that of an earlier time.
func (c *checker) sync(s *v1alpha1.Sync, watched labels.Selector) Result {
	r := ok("it is ready")
	ready := conditions.Get(s, fluxmeta.ReadyCondition)
	switch {
	case s.Namespace != c.Namespace:
		r = warning("create it in namespace "+c.Namespace, "it is in namespace %s, and only those of the controller's namespace are reconciled", s.Namespace)
	case !watched.Matches(labels.Set(s.Labels)):
		r = warning("add the labels to it, or change the flag of Deployment "+installation.Deployment+" (docs/kinds/sync.md#which-syncs-are-reconciled)", "not reconciled: its labels do not match --watch-label-selector=%s", watched)
	case s.Spec.Suspend:
		r = warning("when that is over, run: poolwright resume "+s.Name, "it is suspended%s", suspension.Details(s))
	case ready == nil:
		r = warning("", "it has not been reconciled yet")
	case ready.Status == metav1.ConditionFalse:
		r = failed("docs/kinds/sync.md#conditions has each reason", "%s: %s", ready.Reason, ready.Message)
	case ready.Status != metav1.ConditionTrue:
		r = warning("", "%s: %s", ready.Reason, ready.Message)
	case rollback.Of(s) != "":
		r = warning("when that is over, run: poolwright resume "+s.Name+" --rollback", "it is rolled back to %s", rollback.Revision(s))
		if reason := rollback.Reason(s); reason != "" {
			r.Message += ": " + reason
		}
	case rollback.Refused(s) != "":
		r = warning("run: poolwright resume "+s.Name, "%s", rollback.Refused(s))
	}
	r.Object = "Sync " + s.Namespace + "/" + s.Name
	return r
}

// pullRequests reports the Syncs whose forge cannot be read.
func (c *checker) pullRequests(ctx context.Context) []Result {
	var list v1alpha1.SyncList
	if err := c.Kube.List(ctx, &list); err != nil {
		return c.unreadable(err)
	}
	watched, err := installation.Watched(ctx, c.Kube, c.Namespace)
	if err != nil {
		return c.unreadable(err)
	}
	var out []Result
	read := 0
	for _, s := range list.Items {
		switch {
		case s.Spec.PullRequests == nil || s.Spec.Suspend || s.Namespace != c.Namespace || !watched.Matches(labels.Set(s.Labels)):
			continue
		case s.Status.PullRequests != nil && s.Status.PullRequests.Reason == "":
			read++
			continue
		}
		r := warning("", "its pull requests have not been read yet")
		if status := s.Status.PullRequests; status != nil {
			r = failed("docs/pull-requests.md has each reason", "%s: %s", status.Reason, status.Message)
		}
		r.Object = "Sync " + s.Namespace + "/" + s.Name
		out = append(out, r)
	}
	if len(out) == 0 && read == 0 {
		return one(skipped("no Sync has spec.pullRequests", ""))
	}
	if read > 0 {
		out = append([]Result{ok("the pull requests of %d can be read", read)}, out...)
	}
	return out
}

// devicePlugins reports those whose nodes do not advertise what is declared.
func (c *checker) devicePlugins(ctx context.Context) []Result {
	var list v1alpha1.DevicePluginList
	if err := c.Kube.List(ctx, &list); err != nil {
		return c.unreadable(err)
	}
	if len(list.Items) == 0 {
		return one(skipped("no DevicePlugin is declared", ""))
	}
	var out []Result
	for _, d := range list.Items {
		ready := conditions.Get(&d, fluxmeta.ReadyCondition)
		r := warning("", "it has not been reconciled yet")
		switch {
		case ready == nil:
		case ready.Status == metav1.ConditionTrue:
			r = ok("%s", ready.Message)
		case ready.Status == metav1.ConditionFalse:
			r = failed("docs/kinds/deviceplugin.md has each reason", "%s: %s", ready.Reason, ready.Message)
		default:
			r = warning("", "%s: %s", ready.Reason, ready.Message)
		}
		if r.Message = strings.TrimSuffix(r.Message, ": "); r.Message == "" {
			r.Message = "it is ready"
		}
		r.Object = "DevicePlugin " + d.Name
		out = append(out, r)
	}
	return out
}
