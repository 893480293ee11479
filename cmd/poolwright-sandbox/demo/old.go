package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// followed shows that the pools are live in v1 while Git has them in an API that
// no Karpenter of today reads, and what `poolwright convert` counts between them.
func (s *Run) followed() scenarioStep {
	return scenarioStep{events: []string{apiFollowed}, action: func(ctx context.Context) error {
		folder := s.clusterFolder()
		old, err := apisIn(folder)
		if err != nil {
			return err
		}
		live, err := s.dyn.Resource(nodePools()).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing NodePools: %w", err)
		}
		var pools []string
		for _, pool := range live.Items {
			pools = append(pools, pool.GetName())
		}
		slices.Sort(pools)
		grades, err := s.grades(ctx, folder)
		if err != nil {
			return err
		}
		s.marks.mark(apiFollowed, repository+"@main", fmt.Sprintf("Git has %s, the cluster %s in %s: %d changes, %d of them defaults written out, %d for a person",
			strings.Join(old, " and "), strings.Join(pools, ", "), live.GetAPIVersion(),
			grades["lossless"]+grades["default"]+grades["manual"], grades["default"], grades["manual"]), time.Now())
		return nil
	}}
}

// apisIn are Karpenter's old API versions in a folder's files.
func apisIn(folder string) ([]string, error) {
	old := regexp.MustCompile(`(?m)^apiVersion: karpenter\.\S+/(v1(?:alpha|beta)\d+)`)
	found := map[string]bool{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range old.FindAllSubmatch(text, -1) {
			found[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the working copy: %w", err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("there is no old API of Karpenter in %s", folder)
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// grades counts what a conversion would change, by grade.
func (s *Run) grades(ctx context.Context, folder string) (map[string]int, error) {
	out, err := s.product(ctx, "convert", folder, "--kubernetes-version="+s.Setup.Version, "-o=json")
	// Exit code 1 means that there is something to change, 2 that a person is needed.
	if exit, ended := errors.AsType[*exec.ExitError](err); err != nil && (!ended || exit.ExitCode() > 2) {
		return nil, err
	}
	var report struct{ Changes []struct{ Grade string } }
	if err := json.Unmarshal(out, &report); err != nil {
		return nil, fmt.Errorf("reading the output of poolwright convert: %w\n%s", err, out)
	}
	counts := map[string]int{}
	for _, c := range report.Changes {
		counts[c.Grade]++
	}
	return counts, nil
}
