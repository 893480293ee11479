// Package costing puts the table of costs together: a folder of a working copy, the
// prices, and the file in which the repository declares what a document
// states.
//
// It reads no cluster and no AWS unless a request has a source of prices, and refuses to choose a region for a folder that
// names none. Start reading at Run.
package costing

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/poolwright/poolwright/cmd/internal/prices"
	"github.com/poolwright/poolwright/gitsource/dir"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/cost"
	"github.com/poolwright/poolwright/provision/ebs"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/costdoc"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Request is the input of Run.
type Request struct {
	// Dir is the folder on disk.
	Dir string
	// Region is for folders whose Cluster names none; another than the Cluster's is
	// an error.
	Region string
	// Document is a file on disk that declares what a document states; where it is empty,
	// the nearest cost.yaml in Dir or above it in the repository is taken, if any.
	Document string
	// HoursPerDay is more than 0, at most 24.
	HoursPerDay float64
	// Values are those of the folder's variables; what depends on one without a value is
	// left out, with a note.
	Values substitute.Values
	// Prices is where prices and offerings are read; nil has the shipped catalog's.
	Prices *prices.Source
}

// Result is what Run found.
type Result struct {
	cost.Table
	// Problems are those of the folder and in the document's file, by file and
	// line; what they are about may be missing from the table.
	Problems []state.Problem
}

// Run computes what the nodes of a folder's pools cost, by the catalog, and a
// document's cost table anew.
func Run(ctx context.Context, req Request) (Result, error) {
	root, folder, err := dir.Locate(req.Dir)
	if err != nil {
		return Result{}, err
	}
	snapshot, err := dir.New(root, dir.Limits{}).Fetch(ctx)
	if err != nil {
		return Result{}, err
	}
	if folder, err = clusterFolder(snapshot.FS, folder); err != nil {
		return Result{}, err
	}
	d, err := declared.Load(snapshot.FS, folder, declared.Options{Values: req.Values, UnresolvedVariables: true})
	if err != nil {
		return Result{}, err
	}
	query := cost.Query{HoursPerDay: req.HoursPerDay, Pools: pools(d.Set), Time: time.Now()}
	of, err := cluster(req, d.Set)
	if err != nil {
		return Result{}, err
	}
	query.Region = of.Region
	doc, err := read(req.Document, snapshot.FS, folder)
	if err != nil {
		return Result{}, err
	}
	if doc.file != "" && len(doc.problems) == 0 {
		query.Document = &doc.content
	}
	problems := doc.problems
	for _, p := range d.Problems {
		// In a folder of plain manifests the document's file is taken for one.
		if p.Origin.File != doc.file {
			problems = append(problems, p)
		}
	}
	if req.Prices != nil {
		query.Offerings = req.Prices.Offerings(ctx, of)
		if err := req.Prices.Err(); err != nil {
			return Result{}, err
		}
	}
	types, err := catalog.Load()
	if err != nil {
		return Result{}, err
	}
	return Result{Table: cost.NewTable(query, types), Problems: lint.Sorted(problems)}, nil
}

// clusterFolder is the folder of the table: the requested one, or where that is the root of
// several folders, the only one below clusters/ that has a kustomization.
func clusterFolder(tree fs.FS, folder string) (string, error) {
	if kustomized(tree, folder) {
		return folder, nil
	}
	below, _ := fs.Glob(tree, path.Join(folder, "clusters", "*"))
	below = slices.DeleteFunc(below, func(name string) bool { return !kustomized(tree, name) })
	switch len(below) {
	case 0:
		return folder, nil
	case 1:
		return below[0], nil
	}
	return "", fmt.Errorf("it holds several clusters: choose the folder of one of %s", strings.Join(below, ", "))
}

func kustomized(tree fs.FS, folder string) bool {
	return slices.ContainsFunc([]string{"kustomization.yaml", "kustomization.yml", "Kustomization"}, func(name string) bool {
		_, err := fs.Stat(tree, path.Join(folder, name))
		return err == nil
	})
}

// cluster has the region and the account of the Cluster, or else the requested region. A variable that nobody has filled
// in counts as none.
func cluster(req Request, set state.Set) (v1alpha1.ClusterSpec, error) {
	out := v1alpha1.ClusterSpec{Region: req.Region}
	for _, item := range set.Items() {
		var c v1alpha1.Cluster
		if item.Key.Group != v1alpha1.GroupVersion.Group || item.Key.Kind != "Cluster" {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &c); err != nil {
			return v1alpha1.ClusterSpec{}, fmt.Errorf("reading the Cluster in %s: %w", item.Origin, err)
		}
		out.Account = c.Spec.Account
		switch value := c.Spec.Region; {
		case strings.Contains(value, "${") && req.Region == "":
			return v1alpha1.ClusterSpec{}, fmt.Errorf("the Cluster in %s has %s for its region, which has no value here: give it one with --substitute NAME=VALUE or --sync-file, or set the region of the prices with --region", item.Origin, value)
		case value == "" || strings.Contains(value, "${"):
		case req.Region != "" && req.Region != value:
			return v1alpha1.ClusterSpec{}, fmt.Errorf("--region %s contradicts %s, where the Cluster is in %s: leave the flag out", req.Region, item.Origin, value)
		default:
			return v1alpha1.ClusterSpec{Region: value, Account: c.Spec.Account}, nil
		}
	}
	if req.Region == "" {
		return v1alpha1.ClusterSpec{}, fmt.Errorf("%s declares no Cluster with a spec.region: set the region of the prices with --region", req.Dir)
	}
	return out, nil
}

// pools are the folder's NodePools, with the sharing of GPUs that its DevicePlugin
// declares.
func pools(set state.Set) []cost.Pool {
	sharing := sharing(set)
	var out []cost.Pool
	for _, item := range set.Items() {
		if item.Key.Group != "karpenter.sh" || item.Key.Kind != "NodePool" {
			continue
		}
		pool := cost.Pool{Name: item.Key.Name, Requirements: catalog.Requirements(item.Object), NonCompute: ebs.CostsOf(class(set, item.Object))}
		if spec, ok := item.Object["spec"].(map[string]any); ok {
			if replicas, ok := spec["replicas"].(int64); ok && replicas > 0 {
				pool.Replicas = int(replicas)
			}
			disruption, _ := spec["disruption"].(map[string]any)
			pool.ConsolidationDisabled = disruption["consolidateAfter"] == "Never"
		}
		if config, ok := sharing.ConfigForPool(pool.Name); ok {
			pool.PluginConfig = config
		}
		out = append(out, pool)
	}
	return out
}

// class is the EC2NodeClass of a NodePool; nil where the folder has none that can be read.
func class(set state.Set, pool map[string]any) *awsv1.EC2NodeClass {
	name, _, _ := unstructured.NestedString(pool, "spec", "template", "spec", "nodeClassRef", "name")
	for _, item := range set.Items() {
		if item.Key.Group != "karpenter.k8s.aws" || item.Key.Kind != "EC2NodeClass" || item.Key.Name != name {
			continue
		}
		out := &awsv1.EC2NodeClass{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, out) == nil {
			return out
		}
	}
	return nil
}

// sharing is that of the first DevicePlugin; a second one is reported by lint.
func sharing(set state.Set) gpu.Sharing {
	for _, item := range set.Items() {
		var plugin v1alpha1.DevicePlugin
		if item.Key.Group == v1alpha1.GroupVersion.Group && item.Key.Kind == "DevicePlugin" &&
			runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &plugin) == nil {
			return deviceplugin.Sharing(&plugin)
		}
	}
	return gpu.Sharing{}
}

// document is the file about a document; file is empty where there is none.
type document struct {
	file     string
	content  cost.Document
	problems []state.Problem
}

// read reads the file that is named, or the nearest one in the tree.
func read(given string, tree fs.FS, folder string) (document, error) {
	var out document
	var err error
	if given == "" {
		if out.file = costdoc.Find(tree, folder); out.file != "" {
			out.content, out.problems, err = costdoc.Read(tree, out.file)
		}
		return out, err
	}
	out.file = filepath.ToSlash(filepath.Clean(given))
	beside, err := os.OpenRoot(filepath.Dir(given))
	if err == nil {
		defer beside.Close()
		out.content, out.problems, err = costdoc.Read(beside.FS(), filepath.Base(given))
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return document{}, fmt.Errorf("reading --document %s: there is no such file", given)
	case err != nil:
		return document{}, fmt.Errorf("reading --document %s: %w", given, err)
	}
	out.content.Name = out.file
	for i := range out.problems {
		out.problems[i].Origin.File = out.file
	}
	return out, nil
}
