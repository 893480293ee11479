package desired

import "github.com/poolwright/poolwright/reconciler/state/finding"

// The codes of what a cluster does not allow of what is declared.
const (
	codeKindNotManageable        finding.Code = "KindNotManageable"
	codeKindNotServed            finding.Code = "KindNotServed"
	codeKindVersionNotServed     finding.Code = "KindVersionNotServed"
	codeInventoryReserved        finding.Code = "InventoryReserved"
	codeSecretDataInvalid        finding.Code = "SecretDataInvalid"
	codeNodeOverlaysNotInstalled finding.Code = "NodeOverlaysNotInstalled"
	codePoolwrightNotInstalled   finding.Code = "PoolwrightNotInstalled"
	codeDevicePluginOfOther      finding.Code = "DevicePluginOfOther"
	codeDevicePluginRenamed      finding.Code = "DevicePluginRenamed"
	codeDRADriverPoolHasNodes    finding.Code = "DRADriverPoolHasNodes"
	codeMIGPoolHasNodes          finding.Code = "MIGPoolHasNodes"
)
