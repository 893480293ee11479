package deviceplugin

import "github.com/poolwright/poolwright/reconciler/state/finding"

// The codes of what nothing can be made of.
const (
	codeDevicePluginInvalid     finding.Code = "DevicePluginInvalid"
	codeSecondDevicePlugin      finding.Code = "SecondDevicePlugin"
	codeObjectOfDevicePlugin    finding.Code = "ObjectOfDevicePlugin"
	codeGPULimitWithoutConfig   finding.Code = "GPULimitWithoutConfig"
	codeGPULimitInvalid         finding.Code = "GPULimitInvalid"
	codeGPULimitTwice           finding.Code = "GPULimitTwice"
	codeGPULimitByDRADriver     finding.Code = "GPULimitByDRADriver"
	codeDRADriverOnBottlerocket finding.Code = "DRADriverOnBottlerocket"
	codeDRAGateRequired         finding.Code = "DRAGateRequired"
	codeMIGOnBottlerocket       finding.Code = "MIGOnBottlerocket"
	codeMIGDevicesNotSupported  finding.Code = "MIGDevicesNotSupported"
	codeDRADriverSharesNoGPUs   finding.Code = "DRADriverSharesNoGPUs"
)
