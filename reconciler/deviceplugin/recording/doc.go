// Package recording has what NVIDIA's device plugin returned on a machine with a real GPU, for each configuration that a
// DevicePlugin makes and for some that only others write. It is for tests only: those of what Poolwright computes for
// the same configurations, and those of the sandbox's emulation.
//
// testdata/cases.json are the configurations, made from testdata/deviceplugin.yaml by the code that makes them for a
// cluster; testdata/recording.json is the recording, which make gpu-recording makes anew on a machine with a GPU. It refuses
// to be edited by hand: a test compares its configurations with those of today. Start reading at Load.
package recording
