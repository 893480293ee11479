// Package agreement holds what package deviceplugin makes against those who must
// agree with it: Karpenter's validation and matching of NodeOverlays, the
// CustomResourceDefinitions, and the catalog of instance types.
//
// It has tests only. They are not beside the package itself because Karpenter would
// then be built into its fuzz target too. Start reading at
// TestEveryTypeInAPoolHasTheOneOverlayOfItsConfig.
package agreement
