// Package dradriver is what NVIDIA's DRA driver for GPUs publishes of a machine: one ResourceSlice with a device for each
// whole GPU. The attributes are those that v0.4.1 published of an H100, which a test compares with the recording; of other
// GPUs the memory is what EC2 states, which is up to a twentieth more than their driver has.
//
// It is pure. It emulates neither MIG nor the driver's sharing of GPUs. Start reading at Slice.
package dradriver
