// Package config carries the manifests of an installation, so that the binary
// can install itself: `poolwright bootstrap` renders the folder default, as
// `kubectl apply -k config/default` would.
//
// It holds nothing else and does not interpret them. Start reading at
// default/kustomization.yaml.
package config

import "embed"

// Files holds the folders crd, rbac, manager and default, as they are here.
//
//go:embed crd/*.yaml rbac/*.yaml manager/*.yaml default/*.yaml
var Files embed.FS
