package nodes

import (
	"testing"
	"time"
)

func TestDevicesOfAddonsAreOfferedBesideGPUsAndStay(t *testing.T) {
	r := enter(t, nvidia2023, Delays{})
	r.k.machine.Hardware.Devices = map[string]int{"vpc.amazonaws.com/efa": 4}
	r.run.addons = r.clock.Now().Add(time.Second)
	r.pass(999 * time.Millisecond)
	r.offers("before the add-on's plugin runs", "")
	r.pass(time.Millisecond)
	r.offers("it runs", "vpc.amazonaws.com/efa 4/4")
	r.config = sharing("timeSlicing", 10, false)
	r.runs("gpus")
	r.pass(time.Second)
	r.offers("NVIDIA's plugin runs, too", "gpu 40/40, vpc.amazonaws.com/efa 4/4")
	delete(r.k.pods, "gpus")
	r.pass(time.Hour)
	r.offers("NVIDIA's plugin is gone", "gpu 0/0, vpc.amazonaws.com/efa 4/4")
}
