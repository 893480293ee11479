package aws

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/poolwright/poolwright/reconciler/state"
)

// versions are the Kubernetes versions of EKS control planes:
//
//	version  "1.33"
type versions struct{ readOnly }

// readOnly is for what is only compared. Its items are held, so that nobody
// should ask; who does gets an error and no request.
type readOnly struct{ neverDeleted }

func (readOnly) write(_ context.Context, _ *clients, wanted state.Item, _ liveResource) error {
	return state.Fail(state.Fix, "OnlyCompared", errors.New(wanted.Key.String()+" is only compared: "+wanted.CompareOnly))
}

func (versions) want(s scope) []state.Item {
	if s.spec.Version == "" {
		return nil
	}
	how := fmt.Sprintf("EKS versions only ever go up: where the cluster is newer, change spec.version, and where it is older, let the tool that owns the control plane do it, as by %s",
		s.command("eks update-cluster-version", "--name", s.Cluster, "--kubernetes-version", s.spec.Version))
	return []state.Item{s.compared(s.regional("eks", "Version", s.Cluster), how, map[string]any{"version": s.spec.Version})}
}

func (versions) read(ctx context.Context, c *clients, keys []state.Key) map[state.Key]liveResource {
	return eachCluster(ctx, c, keys, func(k *ekstypes.Cluster) liveResource {
		out := liveResource{object: map[string]any{"version": sdk.ToString(k.Version)}}
		if k.Status != ekstypes.ClusterStatusActive && k.Status != "" {
			out.notes = append(out.notes, "the control plane is "+string(k.Status))
		}
		if k.Health != nil {
			for _, issue := range k.Health.Issues {
				out.notes = append(out.notes, "the control plane is not well: "+string(issue.Code))
			}
		}
		return out
	})
}

// command is a command line of the AWS CLI for a person to copy: what comes
// from a repository is quoted, so that a shell takes it for one word.
func (p place) command(what string, words ...string) string {
	var b strings.Builder
	b.WriteString("aws " + what)
	for _, w := range append(words, "--region", p.Region) {
		b.WriteString(" " + quoted(w))
	}
	return b.String()
}

var shellSafe = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./…-]+$`)

func quoted(word string) string {
	if shellSafe.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
