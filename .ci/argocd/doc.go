// Package argocd runs the scripts of config/argocd as Argo CD does, on objects whose status the controller has written,
// and on what its actions make of them.
//
// It refuses to replace a real Argo CD: how that merges the ConfigMap argocd-cm and refreshes Applications is not checked
// here. Start reading at Script.
package argocd
