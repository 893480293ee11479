// Package pluginlife emulates the life of one device plugin from the start of its pod
// (or of its machine, for an image's own plugin) to its end: it starts, serves
// devices, waits, or ends with an error and is started again after a kubelet's
// growing back-off.
//
// What of that depends on NVIDIA's plugin is as in its releases: a refused
// configuration always ends it; a missing driver ends it unless it was configured to
// wait; without the MPS daemon it runs on and tries again; a GPU that fell off the bus
// stays unhealthy until the plugin is started anew, and is not listed then.
//
// It reads no clock and no API: it is stepped with the time and the facts. Start
// reading at Life.Step.
package pluginlife
