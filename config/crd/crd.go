// Package crd carries the CustomResourceDefinitions of Poolwright's own kinds,
// generated from reconciler/api, so that the binary can install them and the
// kustomization beside them can, too. It holds nothing else.
package crd

import "embed"

// Files holds one YAML file for each kind.
//
//go:embed poolwright.dev_*.yaml
var Files embed.FS
