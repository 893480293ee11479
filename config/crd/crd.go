// Package crd carries the CustomResourceDefinitions of Poolwright's own kinds,
// generated from reconciler/api, so that the binary can install them and the
// kustomization beside them can, too; and the serial by which releases of them are
// compared. It holds nothing else. Start reading at Files.
package crd

import "embed"

// Files holds one YAML file for each kind.
//
//go:embed poolwright.dev_*.yaml
var Files embed.FS

// SerialAnnotation on a definition in a cluster holds the Serial of the binary
// that wrote it, so that an old replica in a rolling update does not take the new
// one's fields away. The Files do not have it: whoever installs them sets it.
const SerialAnnotation = "poolwright.dev/crd-serial"

// Serial grows by one with every change of the Files, which a test enforces.
const Serial = 41
