package gpulint

import "github.com/poolwright/poolwright/reconciler/state/finding"

// The codes of what is wrong about pools, classes and workloads with GPUs.
const (
	codeBudgetTooSmall                      finding.Code = "BudgetTooSmall"
	codeBudgetDelaysEmptyNodes              finding.Code = "BudgetDelaysEmptyNodes"
	codeLimitBelowSmallestNode              finding.Code = "LimitBelowSmallestNode"
	codeLimitWithoutEffect                  finding.Code = "LimitWithoutEffect"
	codeLimitCountsShares                   finding.Code = "LimitCountsShares"
	codeMIGNotSupported                     finding.Code = "MIGNotSupported"
	codeMIGNotAllocatable                   finding.Code = "MIGNotAllocatable"
	codeMIGNotConfigured                    finding.Code = "MIGNotConfigured"
	codeAMIWithoutDriver                    finding.Code = "AMIWithoutNVIDIADriver"
	codeUnregisteredTaintMissing            finding.Code = "UnregisteredTaintMissing"
	codeFewerNodesCostMore                  finding.Code = "FewerNodesCostMore"
	codeReservationMissing                  finding.Code = "CapacityReservationMissing"
	codeReservationUnused                   finding.Code = "CapacityReservationUnused"
	codeReservedCapacityFeatureGateDisabled finding.Code = "ReservedCapacityFeatureGateDisabled"
	codeGPUTaintMissing                     finding.Code = "GPUTaintMissing"
	codeUserDataInvalid                     finding.Code = "UserDataInvalid"
)

// The codes of what disagrees with a DevicePlugin.
const (
	codeNodeOverlayFeatureGateRequired finding.Code = "NodeOverlayFeatureGateRequired"
	codeNodeOverlayFeatureGateDisabled finding.Code = "NodeOverlayFeatureGateDisabled"
	codeNodeOverlayConflict            finding.Code = "NodeOverlayConflict"
	codeDevicePluginConflict           finding.Code = "DevicePluginConflict"
	codeDevicePluginMayConflict        finding.Code = "DevicePluginMayConflict"
	codeConfigPoolUndeclared           finding.Code = "ConfigPoolUndeclared"
	codeConfigPoolWithoutGPUs          finding.Code = "ConfigPoolWithoutGPUs"
	codeReadyTimeoutShort              finding.Code = "ReadyTimeoutShort"
	codeBottlerocketSharingDiffers     finding.Code = "BottlerocketSharingDiffers"
	codeResourceNotAllocatable         finding.Code = "GPUResourceNotAllocatable"
	codeRequestAboveOneMIGDevice       finding.Code = "GPURequestAboveOneMIGDevice"
	codeRequestAboveOneShare           finding.Code = "GPURequestAboveOneShare"
	codeRenamedSharesUnguarded         finding.Code = "RenamedSharesUnguarded"
	codeTaintNotTolerated              finding.Code = "TaintNotTolerated"
	codeDRADriverMissing               finding.Code = "DRADriverMissing"
	codeDeviceClassUndeclared          finding.Code = "DeviceClassUndeclared"
	codeResourceClaimUndeclared        finding.Code = "ResourceClaimUndeclared"
	codeClaimNotProvisioned            finding.Code = "ResourceClaimNotProvisioned"
)
