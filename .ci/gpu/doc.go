// Package gpu records what NVIDIA's own programs do on a machine with a GPU: it is the kubelet of the device
// plugin, and for each configuration that Poolwright makes it writes down what the plugin registers, which devices it
// lists, and what it allocates and refuses.
//
// It changes no setting of a GPU, and fails where one differs afterwards. NVIDIA's daemon of MPS sets the compute mode,
// so that it is not started: the plugin finds none, or a stand-in for the program by which it queries the daemon. It
// refuses a machine on which a kubelet runs.
//
// What identifies the machine is replaced. Start reading at Recorder.
package gpu
