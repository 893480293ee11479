package takeover

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/engine"
)

// Comparison is what Compare found.
type Comparison struct {
	// Nodes is how many NodeClaims it runs.
	Nodes int
	// Blocking must be out of the way before its nodes can be taken over
	// without replacing one, or without losing what announces their end.
	Blocking []Difference
	// Differences only change what comes later: new nodes, and when.
	Differences []Difference
	// Equal are the settings that are the same here and there.
	Equal []string
	// Keep are the fields of the Cluster's spec.engine, with their values, by which the engine
	// would have its settings, as far as there are fields; each is a difference or a blocking difference, too.
	Keep map[string]any
	// kept is how many NodeClaims have both hashes as the engine would write them.
	kept int
}

// Difference is one thing that differs.
type Difference struct {
	// Message is what is there and what would be here.
	Message string
	// Remedy is what a person can do about it.
	Remedy string
}

// comparer holds what is read for a comparison, and its outcome.
type comparer struct {
	karpenter Karpenter
	settings  engine.Settings
	kube      client.Reader
	out       Comparison
}

// Compare compares a Karpenter, and the nodes that it runs, with the embedded
// one under the given settings. The authority is the text by which the engine will
// verify the API server, PEM in base64; empty skips what depends on it.
func (k Karpenter) Compare(ctx context.Context, c client.Reader, s engine.Settings, authority string) (Comparison, error) {
	out, err := k.CompareVersion(ctx, c)
	if err != nil || len(out.Blocking) > 0 { // its objects cannot be read as ours
		return out, err
	}
	w := &comparer{karpenter: k, settings: s, kube: c, out: out}
	w.environment()
	return w.out, w.nodes(ctx, authority)
}

// CompareVersion compares what does not depend on the engine's settings: whose version is
// newer, and as which versions its objects are stored.
func (k Karpenter) CompareVersion(ctx context.Context, c client.Reader) (Comparison, error) {
	w := &comparer{karpenter: k, kube: c}
	if !w.versions() {
		return w.out, nil
	}
	return w.out, w.kinds(ctx)
}

func (w *comparer) blocking(do, format string, values ...any) {
	w.out.Blocking = append(w.out.Blocking, Difference{fmt.Sprintf(format, values...), do})
}

func (w *comparer) differs(do, format string, values ...any) {
	w.out.Differences = append(w.out.Differences, Difference{fmt.Sprintf(format, values...), do})
}

// versions reports whether the two versions can be compared any further.
func (w *comparer) versions() bool {
	ours := version.MustParseSemantic(engine.KarpenterVersion)
	theirs, err := version.ParseSemantic(w.karpenter.Version)
	switch {
	case err != nil:
		w.differs("find out the version of its image: it must not be newer", "its image has no version; %s is embedded", ours)
	case ours.LessThan(theirs):
		w.blocking("take a Poolwright that embeds it", "it is %s, newer than the embedded %s: taking over would be a downgrade", theirs, ours)
	case theirs.LessThan(version.MustParseSemantic("1.1.0")):
		w.blocking("upgrade it to 1.1 or newer by Karpenter's own guide first, whose webhooks and controllers convert the objects; poolwright convert DIR does the same for the files of the repository",
			"it is %s, whose objects are, or may be, of versions that Karpenter %s cannot read", theirs, ours)
		return false
	case theirs.LessThan(version.MustParseSemantic("1.12.0")):
		w.blocking("upgrade it to 1.12 or newer by Karpenter's own guide first, so that what this replaces is replaced while nothing else changes",
			"it is %s, and since 1.12 the CA bundle is part of the drift hash: every node may drift once", theirs)
	case theirs.LessThan(ours):
		w.differs("nothing, or upgrade it first", "it is %s, and %s is embedded: this is an upgrade, of which the kinds come first, when Poolwright starts", theirs, ours)
	default:
		w.out.Equal = append(w.out.Equal, "version "+ours.String())
	}
	return true
}

// kinds makes sure that every object is stored as one that the engine can read.
func (w *comparer) kinds(ctx context.Context) error {
	for _, name := range []string{"nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws"} {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := w.kube.Get(ctx, client.ObjectKey{Name: name}, &crd); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return fmt.Errorf("reading how %s are stored: %w", name, err)
		}
		if old := slices.DeleteFunc(slices.Clone(crd.Status.StoredVersions), func(v string) bool { return v == "v1" }); len(old) > 0 {
			w.blocking("make sure that Karpenter has stored all of them anew, then take "+strings.Join(old, ", ")+" out of the CRD's status.storedVersions, as in Karpenter's guide to 1.1",
				"%s are, or may be, stored as %s", name, strings.Join(old, ", "))
		}
	}
	return nil
}
