// Package devicemanager is a kubelet's book of the devices that plugins offer: how
// many there are of each resource, how many of them are healthy, and since when a
// resource has no plugin any more.
//
// It has no plugin, no pod and no clock: it is given what is served at a time. Which
// pods hold devices is admission's business. Start reading at Table.Sync.
package devicemanager

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// GracePeriod is how long a kubelet keeps the devices of a plugin that is gone: so long
// they count as capacity.
const GracePeriod = 5 * time.Minute

// Device is what is known of one resource.
type Device struct {
	// Capacity counts the devices that the plugin listed, Healthy those that pods
	// may get; 0 when the plugin is gone.
	Capacity, Healthy int
	// OnePerRequest is true when the plugin refuses requests for more than one.
	OnePerRequest bool

	lost time.Time // when its plugin went; zero while it is there
}

// Table is the devices by resource. The zero value cannot be written: make one.
type Table map[corev1.ResourceName]Device

// Sync enters what the plugins serve at a time. A resource that nobody serves any
// more keeps its capacity without a healthy device, and after GracePeriod has none;
// it never leaves the table, as it never leaves a Node's status.
func (t Table) Sync(now time.Time, served Table) {
	for name, d := range t {
		if _, still := served[name]; still {
			continue
		}
		if d.lost.IsZero() {
			d.lost = now
		}
		d.Healthy = 0
		if now.Sub(d.lost) >= GracePeriod {
			d.Capacity = 0
		}
		t[name] = d
	}
	for name, d := range served {
		d.lost = time.Time{}
		t[name] = d
	}
}

// Changed returns the resources whose numbers differ from those in old.
func (t Table) Changed(old Table) Table {
	out := Table{}
	for name, d := range t {
		before, known := old[name]
		if !known || before.Capacity != d.Capacity || before.Healthy != d.Healthy {
			out[name] = d
		}
	}
	return out
}
